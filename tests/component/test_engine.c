/* engine/engine with a model: the contract of every engine, that answers depend on nothing but the
 * job, and what happens to jobs that go wrong. On a tiny random Llama; SmolLM2 has its own file. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/engine_contract.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

static char *tiny_path;

static int write_model(void **state) {
    tiny_path = tiny_llama_write(NULL);
    return tiny_path == NULL;
}

static int free_model(void **state) {
    free(tiny_path);
    return 0;
}

static struct engine *open_engine(const struct engine_options *options) {
    char err[512] = "";
    struct engine *engine = NULL;
    if (engine_open(options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("engine_open: %s", err);
    }
    return engine;
}

static struct engine_options default_options(void) {
    return (struct engine_options){.model_path = tiny_path,
                                   .device = "cpu",
                                   .cpu_tier = "reference",
                                   .threads = 1,
                                   .max_queue_delay_ms = -1,
                                   .max_model_len = 512,
                                   .poison_pages = true};
}

struct engine *contract_open(uint32_t tickets_max, int64_t delay_ms, struct clock *clock) {
    struct engine_options options = default_options();
    options.max_batch_size = tickets_max / 2;
    options.max_queue_size = tickets_max - tickets_max / 2;
    options.max_queue_delay_ms = delay_ms;
    options.clock = clock;
    return open_engine(&options);
}

/* ---------------------------------------------------------------- the same answer everywhere */

enum { MATRIX_JOBS = 32, MATRIX_TOKENS = 24 };

/* Prompts of 3 to 200 tokens; every kind of sampling, penalties included. */
static struct job matrix_job(int i) {
    char id[32], prompt[256];
    static const int lengths[] = {3, 11, 16, 17, 31, 33, 48, 64, 90, 127, 128, 200};
    int length = lengths[i % 12];
    for (int at = 0; at < length; at++) {
        prompt[at] = (char)('a' + (at * 7 + i * 5 + at * at) % 26);
    }
    prompt[length] = '\0';
    snprintf(id, sizeof id, "matrix-%d", i);
    struct job job = engine_run_job(id, prompt, MATRIX_TOKENS);
    job.params.temperature = i % 3 == 0 ? 0.0f : 0.6f + 0.1f * (float)(i % 5);
    job.params.top_k = i % 4 == 0 ? 0 : 20;
    job.params.top_p = i % 5 == 0 ? 1.0f : 0.9f;
    job.params.min_p = i % 7 == 0 ? 0.02f : 0.0f;
    job.params.repetition_penalty = i % 2 == 0 ? 1.2f : 1.0f;
    job.params.presence_penalty = i % 6 == 0 ? 0.3f : 0.0f;
    job.params.frequency_penalty = i % 8 == 0 ? 0.2f : 0.0f;
    return job;
}

struct answers {
    char sha256[MATRIX_JOBS][SHA256_HEX_BYTES];
    struct engine_stats stats;
};

/* Submits every `stride`-th job from `first` on at once, or one after the other. */
static void run_matrix(struct engine_options options, bool together, struct answers *answers) {
    struct engine *engine = open_engine(&options);
    struct engine_event finished[MATRIX_JOBS];
    for (int i = 0; i < MATRIX_JOBS; i++) {
        struct job_error rejected;
        struct job job = matrix_job(i);
        assert_int_equal(engine_submit(engine, together ? (uint64_t)i : 0, &job, &rejected),
                         ENGINE_OK);
        if (!together) {
            engine_run_finish(engine, NULL, finished, 1);
            memcpy(answers->sha256[i], finished[0].answer_sha256, SHA256_HEX_BYTES);
            engine_run_free(finished, 1);
        }
    }
    if (together) {
        engine_run_finish(engine, NULL, finished, MATRIX_JOBS);
        for (int i = 0; i < MATRIX_JOBS; i++) {
            assert_int_equal(finished[i].error.code, ERROR_NONE);
            memcpy(answers->sha256[i], finished[i].answer_sha256, SHA256_HEX_BYTES);
        }
        engine_run_free(finished, MATRIX_JOBS);
    }
    engine_stats(engine, &answers->stats);
    engine_close(engine);
}

static void assert_same_answers(const struct answers *a, const struct answers *b) {
    for (int i = 0; i < MATRIX_JOBS; i++) {
        assert_string_equal(a->sha256[i], b->sha256[i]);
    }
}

static bool has_tier(const char *tier) {
    struct engine_options options = default_options();
    char err[512] = "";
    struct engine *engine = NULL;
    options.cpu_tier = tier;
    enum engine_status status = engine_open(&options, &engine, err, sizeof err);
    engine_close(engine);
    return status == ENGINE_OK;
}

static struct answers alone; /* on the reference tier with one thread: what all others must equal */

static const struct answers *answers_alone(const char *policy) {
    struct engine_options options = default_options();
    options.policy = policy;
    run_matrix(options, false, &alone);
    assert_int_equal(alone.stats.batch_size_max, 1);
    assert_int_equal(alone.stats.batches_single, MATRIX_JOBS);
    return &alone;
}

static void check_matrix(const char *policy) {
    static const char *const tiers[] = {"reference", "avx2", "avx512"};
    const struct answers *expected = answers_alone(policy);
    for (size_t tier = 0; tier < 3; tier++) {
        for (uint32_t threads = 1; threads <= 2 && has_tier(tiers[tier]); threads++) {
            struct answers answers;
            struct engine_options options = default_options();
            options.policy = policy;
            options.cpu_tier = tiers[tier];
            options.threads = threads;
            run_matrix(options, true, &answers);
            assert_same_answers(&answers, expected);
            assert_true(answers.stats.batch_size_max >= 16);
            options.prefill_chunk_tokens = 16;
            run_matrix(options, true, &answers);
            assert_same_answers(&answers, expected);
            assert_true(answers.stats.batch_size_max >= 16);
            assert_true(answers.stats.prefill_chunks_split >= MATRIX_JOBS / 2);
        }
    }
}

static void gives_the_same_answers_alone_batched_chunked_and_threaded_on_every_tier(void **state) {
    check_matrix("int8");
}

static void gives_the_same_answers_everywhere_in_f32_and_f16_too(void **state) {
    check_matrix("f32");
    check_matrix("f16");
}

TEST_MAIN_WITH(
    write_model, free_model, ENGINE_CONTRACT_TESTS,
    cmocka_unit_test(gives_the_same_answers_alone_batched_chunked_and_threaded_on_every_tier),
    cmocka_unit_test(gives_the_same_answers_everywhere_in_f32_and_f16_too))
