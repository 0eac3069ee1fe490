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
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_llama.h"

enum { JOBS = 3, CONTEXT = 64, LONGEST = 30, SHORT_TOKENS = 10, LONG_TOKENS = 34 };

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

static struct job job_of(uint32_t i, uint32_t tokens) {
    static const uint32_t lengths[JOBS] = {3, 24, LONGEST};
    struct job job = tiny_engine_round_job(i, lengths[i], tokens);
    job.params.seed = i;
    job.params.temperature = i < 2 ? 0.0f : 0.8f;
    job.params.repetition_penalty = i % 2 == 0 ? 1.2f : 1.0f;
    return job;
}

static struct job short_job(uint32_t i) {
    return job_of(i, SHORT_TOKENS);
}

static struct job long_job(uint32_t i) {
    return job_of(i, LONG_TOKENS);
}

struct way {
    const char *policy, *device;
    struct job (*make)(uint32_t i);
    uint32_t tokens, max_running, chunk, pages, page_bytes;
    int32_t drafts; /* -1: none */
    bool is_plain;  /* no graphs */
    bool is_alone, is_second;
};

static const struct way usual = {.policy = "int8",
                                 .device = "cuda:0",
                                 .make = short_job,
                                 .tokens = SHORT_TOKENS,
                                 .max_running = JOBS,
                                 .chunk = 24,
                                 .pages = 32,
                                 .page_bytes = 4096,
                                 .drafts = -1};

static struct engine_options options_of(const struct way *way, const struct forward_tap *tap) {
    struct engine_options options = tiny_engine_options();
    options.policy = way->policy;
    options.device = way->device;
    options.max_batch_size = way->max_running;
    options.max_running = way->max_running;
    options.prefill_chunk_tokens = way->chunk;
    options.max_model_len = CONTEXT;
    options.max_queue_size = 2 * JOBS;
    options.max_speculative_tokens = way->drafts;
    options.repetition_cycles = -1;
    options.tap = tap;
    options.graphs_off = way->is_plain;
    options.kv_cache_bytes = (size_t)way->pages * way->page_bytes;
    return options;
}

static void run_jobs(struct engine *engine, const struct way *way) {
    struct engine_event finished[JOBS];
    tiny_engine_run(engine, way->make, JOBS, way->is_alone, finished);
    engine_run_free(finished, JOBS);
}

static void run_way(const struct way *way, struct seen *seen, struct engine_stats *stats) {
    struct forward_tap tap = {.context = seen, .see = see};
    const struct engine_options options = options_of(way, &tap);
    *seen = (struct seen){.is_watching = false};
    struct engine *engine = tiny_engine_open(&options);
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

/* On a fresh device, on which nothing is left; as often as orders are wanted. */
static void run_on_device(const struct way *way, const struct seen *expected, const char *label,
                          struct engine_stats *stats, uint32_t *mixed_passes) {
    static uint64_t random;
    struct seen seen;
    random = random != 0 ? random : test_seed();
    for (unsigned i = 0; i < emulation_shuffles(1); i++) {
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
    way.make = long_job;
    way.tokens = LONG_TOKENS; /* of 9 pages, all but one in use when a third is wanted */
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

/* ---------------------------------------------------------------- a library that refuses */

enum { CUBLAS_EXECUTION_FAILED = 13, CUBLAS_NOT_SUPPORTED = 15 };

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

TEST_MAIN_WITH(tiny_engine_write_model, tiny_engine_free_model,
               cmocka_unit_test(gives_the_references_logits_op_by_op_and_by_graphs),
               cmocka_unit_test(gives_the_references_logits_in_every_situation),
               cmocka_unit_test(gives_the_references_logits_after_a_preemption),
               cmocka_unit_test(gives_the_references_logits_under_every_policy),
               cmocka_unit_test(computes_without_cublaslt_what_it_refuses))
