/* Policy `fast` through the whole engine, on the emulation or a card: greedy answers that do not
 * depend on who computes beside a job, plain, by graphs, from a cache of weights; an id of its own;
 * overflow that fails its job; and a refusal, never another arithmetic, where it cannot be had. On
 * tiny random Llamas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/gguf.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_llama.h"

enum { JOBS = 3, CONTEXT = 64, LONGEST = 30, CUBLAS_NOT_SUPPORTED = 15 };

static char *tied_path, *untied_path;

/* ---------------------------------------------------------------- runs */

static struct job job_of(uint32_t i, uint32_t tokens) {
    static const uint32_t lengths[JOBS] = {3, 24, LONGEST};
    struct job job = tiny_engine_round_job(i, lengths[i], tokens);
    job.params.temperature = 0;
    return job;
}

static struct job one_token(uint32_t i) {
    return job_of(i, 1);
}

static struct job four_tokens(uint32_t i) {
    return job_of(i, 4);
}

static struct job seven_tokens(uint32_t i) {
    return job_of(i, 7);
}

struct way {
    const char *path, *policy, *device;
    struct job (*make)(uint32_t i);
    uint32_t chunk;
    int32_t drafts; /* -1: none */
    bool is_plain, is_alone, keeps_weights;
};

static const struct way usual = {
    .policy = "fast", .device = "cuda:0", .make = seven_tokens, .chunk = 9, .drafts = -1};

/* Of each job: what it drew, and how it ended. */
struct answers {
    char sha256[JOBS][SHA256_HEX_BYTES];
    enum error_code code[JOBS];
    struct engine_stats stats;
};

static struct engine_options options_of(const struct way *way) {
    struct engine_options options = tiny_engine_options();
    options.model_path = way->path;
    options.policy = way->policy;
    options.device = way->device;
    options.max_batch_size = JOBS;
    options.max_running = JOBS;
    options.prefill_chunk_tokens = way->chunk;
    options.max_model_len = CONTEXT;
    options.max_queue_size = 2 * JOBS;
    options.max_speculative_tokens = way->drafts;
    options.repetition_cycles = -1;
    options.graphs_off = way->is_plain;
    options.weight_cache_beside = way->keeps_weights;
    options.kv_cache_bytes = 32 * 4096;
    return options;
}

static void run_jobs(struct engine *engine, const struct way *way, struct answers *answers) {
    struct engine_event finished[JOBS];
    tiny_engine_run(engine, way->make, JOBS, way->is_alone, finished);
    for (uint32_t i = 0; i < JOBS; i++) {
        memcpy(answers->sha256[i], finished[i].answer_sha256, SHA256_HEX_BYTES);
        answers->code[i] = finished[i].error.code;
    }
    engine_run_free(finished, JOBS);
}

/* On a fresh device, on which nothing is left. */
static void run_way(const struct way *way, struct answers *answers) {
    static uint64_t random;
    const struct engine_options options = options_of(way);
    random = random != 0 ? random : test_seed();
    emulation_reset(test_random(&random));
    memset(answers, 0, sizeof *answers);
    struct engine *engine = tiny_engine_open(&options);
    run_jobs(engine, way, answers);
    engine_stats(engine, &answers->stats);
    engine_close(engine);
    if (emulation_is_there()) {
        assert_string_equal(emulation_last_report(), "");
        assert_int_equal(emulation_live_objects(), 0);
    }
}

static void assert_same(const struct answers *got, const struct answers *wanted) {
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(got->code[i], ERROR_NONE);
        assert_string_equal(got->sha256[i], wanted->sha256[i]);
    }
}

/* ---------------------------------------------------------------- equal answers */

static void check_batches(struct way way) {
    struct answers alone, together;
    way.is_alone = true, way.is_plain = true;
    run_way(&way, &alone);
    assert_int_equal(alone.stats.batch_size_max, 1);
    assert_string_not_equal(alone.sha256[0], alone.sha256[1]);
    way.is_alone = false;
    for (int plain = 0; plain < 2; plain++) {
        way.is_plain = plain == 1;
        run_way(&way, &together);
        assert_int_equal(together.stats.batch_size_max, JOBS);
        assert_same(&together, &alone);
    }
    way.drafts = 3, way.chunk = 7, way.is_plain = false;
    run_way(&way, &together);
    assert_true(together.stats.drafted_tokens_total > 0);
    assert_same(&together, &alone);
}

static void answers_the_same_alone_and_together_plain_and_by_graphs(void **state) {
    struct way way = usual;
    way.path = tied_path;
    check_batches(way);
}

static void answers_the_same_with_a_head_of_its_own(void **state) {
    struct answers alone, together;
    struct way way = usual;
    way.path = untied_path, way.make = four_tokens;
    run_way(&way, &together);
    way.is_alone = true, way.is_plain = true;
    run_way(&way, &alone);
    assert_same(&together, &alone);
}

/* Two files, each its policy's: neither is taken for the other. */
static void keeps_its_packed_weights_apart_from_those_of_int8(void **state) {
    struct answers first, second;
    struct way way = usual, other = usual;
    char fast[512], int8[512];
    way.path = other.path = tied_path, other.policy = "int8";
    way.is_plain = other.is_plain = true;
    way.make = other.make = one_token;
    way.keeps_weights = other.keeps_weights = true;
    snprintf(fast, sizeof fast, "%s.fast-cuda.packed", tied_path);
    snprintf(int8, sizeof int8, "%s.int8-cuda.packed", tied_path);
    run_way(&other, &first);
    assert_int_equal(access(int8, F_OK), 0);
    assert_int_not_equal(access(fast, F_OK), 0);
    run_way(&way, &first); /* written … */
    assert_int_equal(access(fast, F_OK), 0);
    run_way(&way, &second); /* … and read */
    assert_same(&second, &first);
    /* One in the other's place is passed over. */
    assert_int_equal(rename(int8, fast), 0);
    run_way(&way, &second);
    assert_same(&second, &first);
    (void)remove(fast);
}

/* ---------------------------------------------------------------- whose arithmetic */

static void numerics_of(const char *policy, char *out, size_t out_bytes) {
    struct way way = usual;
    struct engine_info info;
    way.path = tied_path, way.policy = policy;
    const struct engine_options options = options_of(&way);
    emulation_reset(1);
    struct engine *engine = tiny_engine_open(&options);
    engine_info(engine, &info);
    assert_string_equal(info.policy, policy);
    snprintf(out, out_bytes, "%s", info.numerics);
    engine_close(engine);
}

static void has_an_id_that_names_card_library_and_policy(void **state) {
    char canonical[64], fast[64], wanted[64];
    numerics_of("int8", canonical, sizeof canonical);
    numerics_of("fast", fast, sizeof fast);
    int bytes = snprintf(wanted, sizeof wanted, "%s-fast-cublaslt%s", canonical,
                         emulation_is_there() ? "130100-" : "");
    assert_memory_equal(fast, wanted, (size_t)bytes);
    assert_int_equal(strspn(strrchr(fast, '-') + 1, "0123456789abcdef"), 8);
    assert_null(strstr(canonical, "fast"));
}

/* The tiny model with a final norm so large that no row of the head fits into F16. */
static char *write_overflowing_model(void) {
    char err[256] = "";
    struct gguf *gguf = NULL;
    size_t size;
    char *path = tiny_llama_write(&(struct tiny_llama_options){.layers = 1});
    assert_int_equal(gguf_open(path, &gguf, err, sizeof err), GGUF_OK);
    const struct gguf_tensor *norm = gguf_find_tensor(gguf, "output_norm.weight");
    long at = (long)(norm->data - gguf_bytes(gguf, &size));
    size_t count = norm->bytes / sizeof(float);
    gguf_close(gguf);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    for (size_t i = 0; i < count; i++) {
        static const float large = 1e7f;
        assert_int_equal(fwrite(&large, sizeof large, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Of f32 rows, int8 makes logits that are large and no more. */
static void fails_a_job_whose_rows_overflow_16_bits(void **state) {
    struct answers answers;
    struct way way = usual;
    char *path = write_overflowing_model();
    way.path = path, way.make = one_token, way.is_plain = true;
    run_way(&way, &answers);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(answers.code[i], ERROR_NUMERIC);
    }
    way.policy = "int8";
    run_way(&way, &answers);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(answers.code[i], ERROR_NONE);
    }
    free(path);
}

/* ---------------------------------------------------------------- refusals */

static void assert_refused(const char *device, const char *said) {
    struct way way = usual;
    struct engine *engine = NULL;
    char err[512] = "";
    way.path = tied_path, way.device = device;
    const struct engine_options options = options_of(&way);
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_NO_DEVICE);
    assert_null(engine);
    if (strstr(err, said) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err, said);
    }
}

static void is_refused_on_a_cpu(void **state) {
    assert_refused("cpu", "policy fast needs a CUDA device: its 16-bit products are cuBLASLt's, "
                          "which the reference kernels lack");
}

static void is_refused_where_the_library_has_no_such_product(void **state) {
    emulation_reset(1);
    emulation_fail_call("cublasLtMatmulAlgoGetHeuristic", 1, CUBLAS_NOT_SUPPORTED);
    assert_refused("cuda:0", "no fast product on this card: cublasLtMatmulAlgoGetHeuristic");
    assert_int_equal(emulation_live_objects(), 0);
    emulation_reset(2);
    emulation_set_split_k(2);
    assert_refused("cuda:0", "no fast product on this card: cublasLtMatmulAlgoGetHeuristic: "
                             "nothing that does not split K");
    assert_int_equal(emulation_live_objects(), 0);
    emulation_reset(3);
}

static int write_models(void **state) {
    tied_path = tiny_llama_write(&(struct tiny_llama_options){.layers = 1});
    untied_path =
        tiny_llama_write(&(struct tiny_llama_options){.untied = true, .layers = 1, .seed = 3});
    return tied_path == NULL || untied_path == NULL;
}

static int free_models(void **state) {
    free(tied_path);
    free(untied_path);
    return 0;
}

TEST_MAIN_WITH(write_models, free_models,
               cmocka_unit_test(answers_the_same_alone_and_together_plain_and_by_graphs),
               cmocka_unit_test(answers_the_same_with_a_head_of_its_own),
               cmocka_unit_test(keeps_its_packed_weights_apart_from_those_of_int8),
               cmocka_unit_test(has_an_id_that_names_card_library_and_policy),
               cmocka_unit_test(fails_a_job_whose_rows_overflow_16_bits),
               cmocka_unit_test(is_refused_on_a_cpu),
               cmocka_unit_test(is_refused_where_the_library_has_no_such_product))
