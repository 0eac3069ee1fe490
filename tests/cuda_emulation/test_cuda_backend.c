/* The engine on the CUDA back end, on the emulation or a card: the bits of every logit are those of
 * the reference kernels, op by op and as graphs, whoever computes beside a job, in what pieces,
 * from whose pages, how often. On a tiny random Llama. Each run's counters say that what it is
 * about did happen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/forward.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/engine_run.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

enum { JOBS = 3, CONTEXT = 64, LONGEST = 30 };

static char *tiny_path;

/* ---------------------------------------------------------------- what the tap sees */

/* The logits that each token was drawn from, by job (its seed) and position. */
struct seen {
    bool is_watching; /* false during the warm-up */
    float *logits[JOBS][CONTEXT];
    uint32_t count;
    uint32_t mixed_passes; /* with rows of several jobs */
};

static void forget(struct seen *seen) {
    for (uint32_t job = 0; job < JOBS; job++) {
        for (uint32_t position = 0; position < CONTEXT; position++) {
            free(seen->logits[job][position]);
        }
    }
    *seen = (struct seen){.is_watching = false};
}

static void see(void *context, const struct batch *batch, const float *logits) {
    struct seen *seen = context;
    size_t bytes = batch->limits.vocabulary * sizeof *logits;
    for (uint32_t i = 0; i < batch->sampled_count && seen->is_watching; i++) {
        assert_true(batch->seed[i] < JOBS && batch->draw_position[i] < CONTEXT);
        float **place = &seen->logits[batch->seed[i]][batch->draw_position[i]];
        seen->count += *place == NULL;
        *place = *place != NULL ? *place : malloc(bytes);
        memcpy(*place, logits + (size_t)i * batch->limits.vocabulary, bytes);
    }
    seen->mixed_passes += seen->is_watching && batch->segment_count > 1;
}

/* What was drawn is there; guesses may have been seen beyond. */
static void assert_same(const struct seen *seen, const struct seen *expected, const char *label) {
    for (uint32_t job = 0; job < JOBS; job++) {
        for (uint32_t position = 0; position < CONTEXT; position++) {
            const float *wanted = expected->logits[job][position];
            const float *got = seen->logits[job][position];
            if (wanted != NULL &&
                (got == NULL || memcmp(got, wanted, tiny_llama_vocabulary() * sizeof *got) != 0)) {
                fail_msg("%s: job %u has other logits at position %u", label, job, position);
            }
        }
    }
}

/* ---------------------------------------------------------------- runs */

/* Prompts that go round, so that guesses are made. */
static struct job job_of(uint32_t i, uint32_t tokens) {
    static const uint32_t lengths[JOBS] = {3, 24, LONGEST};
    char id[32], prompt[LONGEST + 1];
    for (uint32_t at = 0; at < lengths[i]; at++) {
        prompt[at] = (char)('a' + at % (5 + i) * 3 + i);
    }
    prompt[lengths[i]] = '\0';
    snprintf(id, sizeof id, "backend-%u", i);
    struct job job = engine_run_job(id, prompt, tokens);
    job.params.seed = i;
    job.params.temperature = i < 2 ? 0.0f : 0.8f;
    job.params.repetition_penalty = i % 2 == 0 ? 1.2f : 1.0f;
    return job;
}

struct way {
    const char *policy, *device;
    uint32_t tokens, max_running, chunk, pages, page_bytes;
    int32_t drafts; /* -1: none */
    bool is_plain;  /* no graphs */
    bool is_alone, is_second;
};

static const struct way usual = {.policy = "int8",
                                 .device = "cuda:0",
                                 .tokens = 10,
                                 .max_running = JOBS,
                                 .chunk = 24,
                                 .pages = 32,
                                 .page_bytes = 4096,
                                 .drafts = -1};

static struct engine_options options_of(const struct way *way, const struct forward_tap *tap) {
    return (struct engine_options){.model_path = tiny_path,
                                   .policy = way->policy,
                                   .device = way->device,
                                   .cpu_tier = "reference",
                                   .threads = 1,
                                   .max_batch_size = way->max_running,
                                   .max_running = way->max_running,
                                   .prefill_chunk_tokens = way->chunk,
                                   .max_model_len = CONTEXT,
                                   .max_queue_size = 2 * JOBS,
                                   .max_queue_delay_ms = -1,
                                   .max_speculative_tokens = way->drafts,
                                   .repetition_cycles = -1,
                                   .poison_pages = true,
                                   .tap = tap,
                                   .graphs_off = way->is_plain,
                                   .kv_cache_bytes = (size_t)way->pages * way->page_bytes};
}

static void run_jobs(struct engine *engine, const struct way *way) {
    struct engine_event finished[JOBS];
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job_error rejected;
        struct job job = job_of(i, way->tokens);
        assert_int_equal(engine_submit(engine, way->is_alone ? 0 : i, &job, &rejected), ENGINE_OK);
        if (way->is_alone) {
            engine_run_finish(engine, NULL, finished, 1);
            engine_run_free(finished, 1);
        }
    }
    if (!way->is_alone) {
        engine_run_finish(engine, NULL, finished, JOBS);
        engine_run_free(finished, JOBS);
    }
}

static void run_way(const struct way *way, struct seen *seen, struct engine_stats *stats) {
    struct forward_tap tap = {.context = seen, .see = see};
    const struct engine_options options = options_of(way, &tap);
    struct engine *engine = NULL;
    char err[512] = "";
    *seen = (struct seen){.is_watching = false};
    if (engine_open(&options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("%s", err);
    }
    seen->is_watching = true;
    run_jobs(engine, way);
    if (way->is_second) {
        forget(seen);
        seen->is_watching = true;
        run_jobs(engine, way);
    }
    engine_stats(engine, stats);
    engine_close(engine);
}

/* On a fresh device, on which nothing is left. */
static void run_on_device(const struct way *way, const struct seen *expected, const char *label,
                          struct engine_stats *stats, uint32_t *mixed_passes) {
    static uint64_t random;
    struct seen seen;
    random = random != 0 ? random : test_seed();
    emulation_reset(test_random(&random));
    run_way(way, &seen, stats);
    if (emulation_is_there()) {
        assert_string_equal(emulation_last_report(), "");
        assert_int_equal(emulation_live_objects(), 0);
    }
    assert_same(&seen, expected, label);
    *mixed_passes = seen.mixed_passes;
    forget(&seen);
}

/* ---------------------------------------------------------------- equal bits */

static void check_together(struct way way, const struct seen *expected) {
    struct engine_stats stats;
    uint32_t mixed_passes;
    run_on_device(&way, expected, "together", &stats, &mixed_passes);
    assert_int_equal(stats.batch_size_max, JOBS);
    assert_true(mixed_passes >= way.tokens / 2);
}

static void check_prefix_hits(struct way way, const struct seen *expected) {
    struct engine_stats stats;
    uint32_t mixed_passes;
    way.is_second = true;
    run_on_device(&way, expected, "from pages of the first time", &stats, &mixed_passes);
    assert_true(stats.prefix_hits_total >= 2);
}

static void check_chunked(struct way way, const struct seen *expected) {
    struct engine_stats stats;
    uint32_t mixed_passes;
    way.chunk = 7;
    run_on_device(&way, expected, "in chunks", &stats, &mixed_passes);
    assert_true(stats.prefill_chunks_split >= 2);
}

static void check_drafts(struct way way, const struct seen *expected) {
    struct engine_stats stats;
    uint32_t mixed_passes;
    way.drafts = 3;
    way.max_running = 2;
    run_on_device(&way, expected, "with guesses", &stats, &mixed_passes);
    assert_true(stats.drafted_tokens_total > 0);
}

/* Of each job alone, on the CPU. */
static void take_reference(struct way way, struct seen *expected) {
    struct engine_stats stats;
    way.device = "cpu";
    way.is_alone = true;
    run_way(&way, expected, &stats);
    assert_int_equal(expected->count, JOBS * way.tokens);
    assert_int_equal(expected->mixed_passes, 0);
}

static void gives_the_references_logits_op_by_op_and_by_graphs(void **state) {
    struct seen expected;
    struct way way = usual;
    take_reference(way, &expected);
    for (int plain = 0; plain < 2; plain++) {
        way.is_plain = plain == 1;
        check_together(way, &expected);
    }
    forget(&expected);
}

static void gives_the_references_logits_in_every_situation(void **state) {
    struct seen expected;
    take_reference(usual, &expected);
    check_prefix_hits(usual, &expected);
    check_chunked(usual, &expected);
    check_drafts(usual, &expected);
    forget(&expected);
}

static void gives_the_references_logits_after_a_preemption(void **state) {
    struct seen expected;
    struct engine_stats stats;
    uint32_t mixed_passes;
    struct way way = usual;
    way.tokens = 34; /* of 9 pages, all but one in use when a third is wanted */
    way.pages = 9;
    take_reference(way, &expected);
    run_on_device(&way, &expected, "preempted", &stats, &mixed_passes);
    assert_true(stats.preemptions_total >= 1);
    forget(&expected);
}

static void gives_the_references_logits_under_every_policy(void **state) {
    static const char *const policies[] = {"f16", "balanced", "f32"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct seen expected;
        struct way way = usual;
        way.policy = policies[i];
        take_reference(way, &expected);
        check_together(way, &expected);
        forget(&expected);
    }
}

/* ---------------------------------------------------------------- failed calls */

enum { CUDA_OUT_OF_MEMORY = 2, CUDA_LAUNCH_FAILURE = 719, CUBLAS_ALLOC_FAILED = 3 };
enum { CUBLAS_EXECUTION_FAILED = 13, CUBLAS_NOT_SUPPORTED = 15 };

struct failed_call {
    const char *name;
    unsigned nth;
    int status;
};

static const struct way narrow = {.policy = "int8",
                                  .device = "cuda:0",
                                  .tokens = 10,
                                  .max_running = 1,
                                  .chunk = 9, /* more than 8 rows go through cuBLASLt */
                                  .pages = 6,
                                  .page_bytes = 4096,
                                  .drafts = -1};

/* An engine that does not open says why, and leaves nothing. */
static void refuses_to_open_when_a_call_fails_and_leaves_nothing(void **state) {
    static const struct failed_call calls[] = {
        {"cudaGetDeviceCount", 1, CUDA_LAUNCH_FAILURE},
        {"cudaSetDevice", 1, CUDA_LAUNCH_FAILURE},
        {"cudaGetDeviceProperties", 1, CUDA_LAUNCH_FAILURE},
        {"cudaStreamCreateWithFlags", 2, CUDA_OUT_OF_MEMORY},
        {"cudaMemGetInfo", 1, CUDA_LAUNCH_FAILURE},
        {"cublasLtCreate", 1, CUBLAS_ALLOC_FAILED},
        {"cublasLtMatmulAlgoGetHeuristic", 3, CUBLAS_ALLOC_FAILED},
        {"cudaMalloc", 1, CUDA_OUT_OF_MEMORY}, /* weights, then the regions of a pass */
        {"cudaMalloc", 2, CUDA_OUT_OF_MEMORY},
        {"cudaMalloc", 3, CUDA_OUT_OF_MEMORY},
        {"cudaMalloc", 5, CUDA_OUT_OF_MEMORY},
        {"cudaMallocHost", 1, CUDA_OUT_OF_MEMORY},
        {"cudaMemcpyAsync", 1, CUDA_LAUNCH_FAILURE},
        {"cudaMemcpyAsync", 7, CUDA_LAUNCH_FAILURE},
        {"cudaDeviceSynchronize", 2, CUDA_LAUNCH_FAILURE},
        {"launch", 1, CUDA_LAUNCH_FAILURE},
        {"launch", 20, CUDA_OUT_OF_MEMORY},
        {"cudaStreamBeginCapture", 1, CUDA_LAUNCH_FAILURE},
        {"cudaStreamEndCapture", 2, CUDA_LAUNCH_FAILURE},
        {"cudaGraphInstantiate", 1, CUDA_OUT_OF_MEMORY},
    };
    const struct engine_options options = options_of(&narrow, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct engine *engine = NULL;
        char err[512] = "";
        emulation_reset(i + 1);
        emulation_fail_call(calls[i].name, calls[i].nth, calls[i].status);
        enum engine_status status = engine_open(&options, &engine, err, sizeof err);
        if (status == ENGINE_OK || err[0] == '\0' || emulation_live_objects() != 0) {
            fail_msg("call %u of %s: status %d, %zu objects left, \"%s\"", calls[i].nth,
                     calls[i].name, (int)status, emulation_live_objects(), err);
        }
        assert_null(engine);
    }
}

/* Steps until the engine fails; its words. */
static void fail_at_work(const struct way *way, const struct failed_call *call, char *err,
                         size_t err_bytes) {
    const struct engine_options options = options_of(way, NULL);
    struct engine *engine = NULL;
    struct job_error rejected;
    struct job job = job_of(1, way->tokens);
    enum engine_status status = ENGINE_OK;
    assert_int_equal(engine_open(&options, &engine, err, err_bytes), ENGINE_OK);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    emulation_fail_call(call->name, call->nth, call->status);
    for (int step = 0; step < 100 && status == ENGINE_OK; step++) {
        bool worked = false;
        status = engine_step(engine, &worked, err, err_bytes);
    }
    assert_int_equal(status, ENGINE_FAILED);
    engine_close(engine);
    assert_int_equal(emulation_live_objects(), 0);
}

static void ends_at_work_with_the_name_of_what_failed(void **state) {
    static const struct {
        struct failed_call call;
        bool is_plain;
        const char *said;
    } cases[] = {
        {{"cudaMemcpyAsync", 1, CUDA_LAUNCH_FAILURE}, false, "copy in: the device failed"},
        {{"cudaMemsetAsync", 1, CUDA_LAUNCH_FAILURE}, false, "fill: the device failed"},
        {{"cudaStreamSynchronize", 2, CUDA_LAUNCH_FAILURE}, false, "cudaErrorLaunchFailure"},
        {{"cudaGraphLaunch", 1, CUDA_LAUNCH_FAILURE}, false, "graph: the device failed"},
        {{"launch", 1, CUDA_LAUNCH_FAILURE}, true, "embed: the device failed"},
        {{"launch", 60, CUDA_LAUNCH_FAILURE}, true, ": the device failed"},
        {{"cublasLtMatmul", 2, CUBLAS_EXECUTION_FAILED}, true, "linear_i8: the device failed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct way way = narrow;
        char err[512] = "";
        way.is_plain = cases[i].is_plain;
        emulation_reset(i + 1);
        fail_at_work(&way, &cases[i].call, err, sizeof err);
        if (strstr(err, cases[i].said) == NULL) {
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].call.name, err, cases[i].said);
        }
    }
}

static void computes_without_cublaslt_what_it_refuses(void **state) {
    struct seen expected, seen;
    struct engine_stats stats;
    take_reference(usual, &expected);
    emulation_reset(1);
    for (unsigned i = 0; i < 200; i++) { /* the plans of all shapes */
        emulation_fail_call("cublasLtMatmulAlgoGetHeuristic", 1, CUBLAS_NOT_SUPPORTED);
    }
    emulation_fail_call("cublasLtMatmul", 1, CUBLAS_EXECUTION_FAILED); /* and none is called */
    run_way(&usual, &seen, &stats);
    assert_same(&seen, &expected, "without cuBLASLt");
    forget(&seen);
    forget(&expected);
}

static int write_model(void **state) {
    tiny_path = tiny_llama_write(NULL);
    return tiny_path == NULL;
}

static int free_model(void **state) {
    free(tiny_path);
    return 0;
}

TEST_MAIN_WITH(write_model, free_model,
               cmocka_unit_test(gives_the_references_logits_op_by_op_and_by_graphs),
               cmocka_unit_test(gives_the_references_logits_in_every_situation),
               cmocka_unit_test(gives_the_references_logits_after_a_preemption),
               cmocka_unit_test(gives_the_references_logits_under_every_policy),
               cmocka_unit_test(refuses_to_open_when_a_call_fails_and_leaves_nothing),
               cmocka_unit_test(ends_at_work_with_the_name_of_what_failed),
               cmocka_unit_test(computes_without_cublaslt_what_it_refuses))
