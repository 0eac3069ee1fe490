/* engine/engine with the demo model: the same answers on every tier, alone and in a batch. */
#include "engine/engine.h"

#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "tests/support/engine_run.h"
#include "tests/support/test.h"

static const char model_path[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

enum { JOBS = 4, CROWD = 20, NEW_TOKENS = 6 };

static const char *const prompts[JOBS] = {
    "The capital of France is",
    "def add(a, b):\n    \"\"\"Adds two numbers.\"\"\"\n    return",
    "To reverse a linked list, keep three pointers: the previous node, the current node and",
    "求数组中两数之和等于目标值的下标。思路是",
};

static struct job make_job(int i) {
    struct job job = engine_run_job("smollm2", prompts[i % JOBS], NEW_TOKENS);
    job.params.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    return job;
}

static struct engine *open_tier(const char *tier, uint32_t threads, uint32_t chunk) {
    struct engine_options options = {.model_path = model_path,
                                     .device = "cpu",
                                     .cpu_tier = tier,
                                     .threads = threads,
                                     .prefill_chunk_tokens = chunk,
                                     .max_queue_delay_ms = -1,
                                     .max_model_len = 128};
    char err[512] = "";
    struct engine *engine = NULL;
    enum engine_status status = engine_open(&options, &engine, err, sizeof err);
    if (status != ENGINE_OK && strstr(err, "this processor lacks") == NULL) {
        fail_msg("engine_open: %s", err);
    }
    return engine;
}

/* The first JOBS of `count` jobs' hashes. */
static void run(struct engine *engine, int count, char sha256[JOBS][SHA256_HEX_BYTES]) {
    struct engine_event finished[CROWD];
    for (int i = 0; i < count; i++) {
        struct job_error rejected;
        struct job job = make_job(i);
        assert_int_equal(engine_submit(engine, (uint64_t)i, &job, &rejected), ENGINE_OK);
    }
    engine_run_finish(engine, NULL, finished, (size_t)count);
    for (int i = 0; i < JOBS; i++) {
        memcpy(sha256[i], finished[i].answer_sha256, SHA256_HEX_BYTES);
    }
    engine_run_free(finished, (size_t)count);
}

static void run_alone(struct engine *engine, char sha256[JOBS][SHA256_HEX_BYTES]) {
    for (int i = 0; i < JOBS; i++) {
        struct engine_event finished;
        struct job_error rejected;
        struct job job = make_job(i);
        assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
        engine_run_finish(engine, NULL, &finished, 1);
        memcpy(sha256[i], finished.answer_sha256, SHA256_HEX_BYTES);
        engine_run_free(&finished, 1);
    }
}

static void assert_same(char a[JOBS][SHA256_HEX_BYTES], char b[JOBS][SHA256_HEX_BYTES]) {
    for (int i = 0; i < JOBS; i++) {
        assert_string_equal(a[i], b[i]);
    }
}

static void gives_the_same_answers_on_every_tier_alone_and_in_a_batch(void **state) {
    static const char *const fast_tiers[] = {"avx2", "avx512"};
    char expected[JOBS][SHA256_HEX_BYTES], got[JOBS][SHA256_HEX_BYTES];
    if (access(model_path, R_OK) != 0) {
        fail_msg("no %s: run `make model`", model_path);
    }
    struct engine *reference = open_tier("reference", 2, 0);
    assert_non_null(reference);
    run_alone(reference, expected);
    engine_close(reference);
    for (int i = 0; i < 2; i++) {
        struct engine_stats stats;
        struct engine_info info;
        struct engine *engine = open_tier(fast_tiers[i], 2, 16);
        if (engine == NULL) {
            TEST_SKIP(i == 0 ? "this CPU lacks avx2" : "this CPU lacks avx512");
        }
        engine_info(engine, &info);
        assert_string_equal(info.tier, fast_tiers[i]);
        run_alone(engine, got);
        assert_same(got, expected);
        run(engine, CROWD, got);
        assert_same(got, expected);
        engine_stats(engine, &stats);
        assert_true(stats.batch_size_max >= 16);
        assert_true(stats.prefill_chunks_split > 0);
        engine_close(engine);
    }
}

static void answers_a_greedy_prompt_sensibly(void **state) {
    struct engine *engine = open_tier(NULL, 0, 0);
    struct job_error rejected;
    struct engine_event finished;
    assert_non_null(engine);
    struct job job = make_job(0);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    engine_run_finish(engine, NULL, &finished, 1);
    if (strstr(finished.text, "Paris") == NULL) {
        fail_msg("\"%s\" goes on: \"%s\"", prompts[0], finished.text);
    }
    engine_run_free(&finished, 1);
    engine_close(engine);
}

TEST_MAIN(cmocka_unit_test(gives_the_same_answers_on_every_tier_alone_and_in_a_batch),
          cmocka_unit_test(answers_a_greedy_prompt_sensibly))
