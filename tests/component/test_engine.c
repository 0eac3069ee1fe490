/* engine/engine with a model: the contract of every engine, that answers depend on nothing but the
 * job, and what happens to jobs that go wrong. On a tiny random Llama; SmolLM2 has its own file. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/engine_contract.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_llama.h"

static struct engine_options default_options(void) {
    struct engine_options options = tiny_engine_options();
    options.max_model_len = 512;
    return options;
}

struct engine *contract_open(uint32_t tickets_max, int64_t delay_ms, struct clock *clock) {
    struct engine_options options = default_options();
    options.max_batch_size = tickets_max / 2 < 32 ? tickets_max / 2 : 32;
    options.max_queue_size = tickets_max - options.max_batch_size;
    options.max_queue_delay_ms = delay_ms;
    options.clock = clock;
    return tiny_engine_open(&options);
}

/* ---------------------------------------------------------------- the same answer everywhere */

enum { MATRIX_JOBS = 32, MATRIX_TOKENS = 24 };

/* Prompts of 3 to 200 tokens; every kind of sampling, penalties included. */
static struct job matrix_job(uint32_t number) {
    int i = (int)number;
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

/* All jobs at once, or one after the other. */
static void run_matrix(struct engine_options options, bool together, struct answers *answers) {
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event finished[MATRIX_JOBS];
    tiny_engine_run(engine, matrix_job, MATRIX_JOBS, !together, finished);
    for (int i = 0; i < MATRIX_JOBS; i++) {
        assert_int_equal(finished[i].error.code, ERROR_NONE);
        memcpy(answers->sha256[i], finished[i].answer_sha256, SHA256_HEX_BYTES);
    }
    engine_run_free(finished, MATRIX_JOBS);
    engine_stats(engine, &answers->stats);
    engine_close(engine);
}

static void assert_same_answers(const struct answers *a, const struct answers *b) {
    for (int i = 0; i < MATRIX_JOBS; i++) {
        assert_string_equal(a->sha256[i], b->sha256[i]);
    }
}

/* Whether this processor can run a tier; anything else that keeps an engine from opening fails. */
static bool has_tier(const char *tier) {
    struct engine_options options = default_options();
    char err[512] = "";
    struct engine *engine = NULL;
    options.cpu_tier = tier;
    enum engine_status status = engine_open(&options, &engine, err, sizeof err);
    if (status != ENGINE_OK && strstr(err, "this processor lacks") == NULL) {
        fail_msg("tier %s: %s", tier, err);
    }
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
    for (int i = 0; i < MATRIX_JOBS; i++) {
        for (int other = 0; other < i; other++) {
            assert_string_not_equal(alone.sha256[i], alone.sha256[other]);
        }
    }
    return &alone;
}

/* False where this processor lacks a tier; all others have been checked then. */
static bool check_matrix(const char *policy) {
    static const char *const tiers[] = {"reference", "avx2", "avx512"};
    const struct answers *expected = answers_alone(policy);
    bool complete = true;
    for (size_t tier = 0; tier < 3; tier++) {
        if (!has_tier(tiers[tier])) {
            complete = false;
            continue;
        }
        for (uint32_t threads = 1; threads <= 2; threads++) {
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
    return complete;
}

static void gives_the_same_answers_alone_batched_chunked_and_threaded_on_every_tier(void **state) {
    if (!check_matrix("int8")) {
        TEST_SKIP("this CPU lacks a tier");
    }
}

static void gives_the_same_answers_everywhere_in_f32_and_f16_too(void **state) {
    bool f32 = check_matrix("f32"), f16 = check_matrix("f16");
    if (!f32 || !f16) {
        TEST_SKIP("this CPU lacks a tier");
    }
}

/* ---------------------------------------------------------------- one job at a time */

static struct job plain_job(const char *prompt, uint32_t max_tokens) {
    struct job job = engine_run_job("plain", prompt, max_tokens);
    job.params.temperature = 0.0f;
    return job;
}

static struct engine_event run_job(struct engine *engine, struct job job) {
    struct engine_event finished;
    struct job_error rejected;
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    engine_run_finish(engine, NULL, &finished, 1);
    return finished;
}

static struct job_error refused(struct engine *engine, struct job job) {
    struct job_error rejected = {.code = ERROR_NONE};
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_REJECTED);
    assert_true(job.request_id[0] != '\0'); /* it stays the caller's */
    job_deinit(&job);
    return rejected;
}

static void ends_by_length_when_max_tokens_are_drawn(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event event = run_job(engine, plain_job("abc", 7));
    assert_int_equal(event.finish_reason, FINISH_LENGTH);
    assert_true(event.truncated);
    assert_int_equal(event.usage.prompt_tokens, 3);
    assert_int_equal(event.usage.completion_tokens, 7);
    engine_event_deinit(&event);
    engine_close(engine);
}

static void cuts_an_answer_to_the_room_that_the_context_leaves(void **state) {
    struct engine_options options = default_options();
    options.max_model_len = 40;
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event event = run_job(engine, plain_job("abcdefghijklmnopqrstuvwxyz", 100));
    assert_int_equal(event.finish_reason, FINISH_LENGTH);
    assert_int_equal(event.usage.prompt_tokens + event.usage.completion_tokens, 40);
    engine_event_deinit(&event);
    engine_close(engine);
}

static void ends_at_a_stop_string_that_spans_tokens(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event whole = run_job(engine, plain_job("stop here", 40));
    size_t bytes = strlen(whole.text);
    assert_true(bytes > 20);
    size_t begin = 9, end = 15; /* at code points, for the stop must be text */
    while (((unsigned char)whole.text[begin] & 0xC0) == 0x80) {
        begin++;
    }
    while (((unsigned char)whole.text[end] & 0xC0) == 0x80) {
        end++;
    }
    struct job job = plain_job("stop here", 40);
    job.params.stop[0] = strndup(whole.text + begin, end - begin);
    job.params.stop_count = 1;
    const char *first = strstr(whole.text, job.params.stop[0]);
    struct engine_event stopped = run_job(engine, job);
    assert_int_equal(stopped.finish_reason, FINISH_STOP);
    assert_false(stopped.truncated);
    assert_int_equal(strlen(stopped.text), first - whole.text);
    assert_memory_equal(stopped.text, whole.text, (size_t)(first - whole.text));
    assert_true(stopped.usage.completion_tokens < whole.usage.completion_tokens);
    engine_event_deinit(&whole);
    engine_event_deinit(&stopped);
    engine_close(engine);
}

static void ends_at_a_stop_token_and_leaves_it_out_of_the_text(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event whole = run_job(engine, plain_job("stop there", 40));
    struct job job = plain_job("stop there", 40);
    /* Any ASCII byte of the text: some of them are tokens by themselves. */
    for (size_t i = 3; whole.text[i] != '\0' && job.params.stop_token_count < 64; i++) {
        unsigned char byte = (unsigned char)whole.text[i];
        if (byte < 0x80) {
            job.params.stop_token_ids[job.params.stop_token_count++] = TINY_LLAMA_FIRST_BYTE + byte;
        }
    }
    struct engine_event stopped = run_job(engine, job);
    size_t bytes = strlen(stopped.text);
    assert_int_equal(stopped.finish_reason, FINISH_STOP);
    assert_true(bytes < strlen(whole.text));
    assert_memory_equal(stopped.text, whole.text, bytes);
    assert_true(stopped.usage.completion_tokens < whole.usage.completion_tokens);
    engine_event_deinit(&whole);
    engine_event_deinit(&stopped);
    engine_close(engine);
}

static void answers_problems_and_messages_through_the_template(void **state) {
    struct engine_options options = default_options();
    options.max_model_len = 1024;
    struct engine *engine = tiny_engine_open(&options);
    struct job job = plain_job("unused", 4);
    free(job.prompt);
    job.prompt = NULL;
    job.kind = JOB_PROBLEM;
    job.problem.statement = strdup("Add two numbers.");
    snprintf(job.problem.code_language, sizeof job.problem.code_language, "c");
    struct engine_event event = run_job(engine, job);
    assert_int_equal(event.usage.completion_tokens, 4);
    assert_true(event.usage.prompt_tokens > strlen("Add two numbers."));
    engine_event_deinit(&event);
    engine_close(engine);
}

static void refuses_what_can_never_run_by_field(void **state) {
    struct engine_options options = default_options();
    struct job_error error;
    options.max_model_len = 128;
    options.kv_cache_bytes = 1; /* as little as there can be: one page */
    struct engine *engine = tiny_engine_open(&options);
    char prompt[129];
    memset(prompt, 'x', 128);
    prompt[128] = '\0';
    error = refused(engine, plain_job(prompt, 1));
    assert_int_equal(error.code, ERROR_PROMPT_TOO_LONG);
    assert_string_equal(error.field, "prompt");
    error = refused(engine, plain_job("abc", 100));
    assert_int_equal(error.code, ERROR_TOO_LARGE);
    assert_string_equal(error.field, "params.max_tokens");
    struct job job = plain_job("abc", 4);
    job.params.stop_token_ids[0] = 5;
    job.params.stop_token_ids[1] = (int32_t)tiny_llama_vocabulary();
    job.params.stop_token_count = 2;
    error = refused(engine, job);
    assert_int_equal(error.code, ERROR_INVALID_FIELD);
    assert_string_equal(error.field, "params.stop_token_ids[1]");
    struct engine_event event = run_job(engine, plain_job("abc", 14)); /* 16 positions: one page */
    assert_int_equal(event.finish_reason, FINISH_LENGTH);
    engine_event_deinit(&event);
    engine_close(engine);
}

static void refuses_options_and_files_with_the_status_that_says_what_to_do(void **state) {
    char err[512];
    struct engine *engine = NULL;
    struct engine_options options = default_options();
    options.policy = "int7";
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_OPTION);
    options = default_options();
    options.max_batch_size = ENGINE_BATCH_SIZE_MAX + 1;
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_OPTION);
    options = default_options();
    options.max_model_len = 1;
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_OPTION);
    options = default_options();
    options.max_queue_delay_ms = INT64_MAX;
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_OPTION);
    options = default_options();
    options.max_model_len = 1 << 20;
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_OPTION);
    options = default_options();
    options.model_path = "/nonexistent.gguf";
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_BAD_MODEL);
    assert_non_null(strstr(err, "/nonexistent.gguf"));
    options = default_options();
    options.device = "cuda:99";
    assert_int_equal(engine_open(&options, &engine, err, sizeof err), ENGINE_NO_DEVICE);
    assert_null(engine);
}

/* ---------------------------------------------------------------- neighbours */

/* The value path of layer 0 overflows 16 bits for the token `Z`, and for no other. */
static char *write_poisoned_model(void) {
    struct tiny_llama_options options = {.untied = true};
    struct gguf_writer writer = {0};
    struct gguf *gguf = NULL;
    char err[256];
    tiny_llama_build(&options, &writer);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);
    const struct gguf_tensor *embedding = gguf_find_tensor(gguf, "token_embd.weight");
    const struct gguf_tensor *value = gguf_find_tensor(gguf, "blk.0.attn_v.weight");
    const struct gguf_tensor *head = gguf_find_tensor(gguf, "output.weight");
    size_t dim = (size_t)embedding->dims[0];
    float *rows = (float *)(uintptr_t)embedding->data;
    size_t bad_row = TINY_LLAMA_FIRST_BYTE + 'Z';
    for (size_t row = 0; row < embedding->dims[1]; row++) {
        rows[row * dim] = 0.0f; /* column 0 is Z's own */
    }
    memset(rows + bad_row * dim, 0, dim * sizeof *rows);
    rows[bad_row * dim] = 1.0f;
    ((float *)(uintptr_t)value->data)[0] = 60000.0f;
    memset((float *)(uintptr_t)head->data + bad_row * dim, 0, dim * sizeof(float));
    gguf_close(gguf);
    char *path = gguf_writer_save(&writer, "poisoned.gguf");
    gguf_writer_deinit(&writer);
    return path;
}

enum { NEIGHBOURS = 6, BAD_NEIGHBOUR = 3 };

static struct job neighbour_job(int i, bool is_bad) {
    char prompt[64];
    snprintf(prompt, sizeof prompt, "neighbour %d says %s to all others", i, is_bad ? "Z" : "y");
    return plain_job(prompt, 12);
}

static void run_neighbours(struct engine *engine, bool with_bad, struct engine_event *finished) {
    for (int i = 0; i < NEIGHBOURS; i++) {
        struct job_error rejected;
        struct job job = neighbour_job(i, with_bad && i == BAD_NEIGHBOUR);
        assert_int_equal(engine_submit(engine, (uint64_t)i, &job, &rejected), ENGINE_OK);
    }
    engine_run_finish(engine, NULL, finished, NEIGHBOURS);
}

static void check_poisoned(const char *path, const char *policy, uint32_t chunk) {
    struct engine_options options = default_options();
    struct engine_event good[NEIGHBOURS], mixed[NEIGHBOURS], after[NEIGHBOURS];
    struct engine_stats stats;
    options.model_path = path;
    options.policy = policy;
    options.prefill_chunk_tokens = chunk;
    struct engine *engine = tiny_engine_open(&options);
    run_neighbours(engine, false, good);
    run_neighbours(engine, true, mixed);
    run_neighbours(engine, false, after); /* on pages that held what is not a number */
    for (int i = 0; i < NEIGHBOURS; i++) {
        bool is_bad = i == BAD_NEIGHBOUR;
        assert_int_equal(good[i].error.code, ERROR_NONE);
        assert_int_equal(mixed[i].error.code, is_bad ? ERROR_NUMERIC : ERROR_NONE);
        assert_int_equal(mixed[i].finish_reason, is_bad ? FINISH_ERROR : FINISH_LENGTH);
        assert_string_equal(after[i].answer_sha256, good[i].answer_sha256);
        if (!is_bad) {
            assert_string_equal(mixed[i].answer_sha256, good[i].answer_sha256);
        }
    }
    engine_stats(engine, &stats);
    assert_int_equal(stats.failed_total, 1);
    assert_int_equal(stats.pages_used, 0);
    engine_run_free(good, NEIGHBOURS);
    engine_run_free(mixed, NEIGHBOURS);
    engine_run_free(after, NEIGHBOURS);
    engine_close(engine);
}

static void fails_only_the_job_whose_values_are_not_finite(void **state) {
    char *path = write_poisoned_model();
    check_poisoned(path, "int8", 256);
    check_poisoned(path, "int8", 16);
    check_poisoned(path, "f16", 256);
    free(path);
}

static void keeps_the_text_so_far_of_a_job_cancelled_while_it_runs(void **state) {
    struct engine_options options = default_options();
    struct engine_stats stats;
    struct job_error rejected;
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event whole = run_job(engine, plain_job("cancel me", 40));
    struct job job = plain_job("cancel me", 40);
    assert_int_equal(engine_submit(engine, 5, &job, &rejected), ENGINE_OK);
    for (int i = 0; i < 10; i++) {
        engine_run_step(engine, NULL, 0);
    }
    assert_true(engine_cancel(engine, 5, FINISH_CANCELLED));
    engine_run_step(engine, NULL, 0);
    struct engine_event events[2];
    assert_int_equal(engine_take_events(engine, events, 2), 2); /* started, finished */
    assert_int_equal(events[1].finish_reason, FINISH_CANCELLED);
    assert_int_equal(events[1].usage.completion_tokens, 10);
    assert_true(strlen(events[1].text) < strlen(whole.text));
    engine_stats(engine, &stats);
    assert_int_equal(stats.running_count, 0);
    assert_int_equal(stats.pages_used, 0);
    engine_run_free(events, 2);
    engine_event_deinit(&whole);
    engine_close(engine);
}

/* ---------------------------------------------------------------- batches and progress */

static void submit_at(struct engine *engine, struct clock *clock, int64_t at_ms, uint64_t ticket,
                      uint32_t max_tokens) {
    struct job_error rejected;
    struct job job = plain_job("when is it my turn", max_tokens);
    clock_advance(clock, at_ms * CLOCK_NS_PER_MS - clock_monotonic_ns(clock));
    assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
    engine_run_step(engine, NULL, 0);
}

static void waits_from_idle_then_lets_others_join(void **state) {
    struct clock clock;
    struct engine_stats stats;
    struct engine_options options = default_options();
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.max_queue_delay_ms = 50;
    struct engine *engine = tiny_engine_open(&options);
    submit_at(engine, &clock, 1, 0, 8);
    submit_at(engine, &clock, 40, 1, 8);
    engine_stats(engine, &stats);
    assert_int_equal(stats.queued_count, 2);
    assert_int_equal(stats.batches_total, 0);
    submit_at(engine, &clock, 51, 2, 8); /* the first has waited 50 ms */
    submit_at(engine, &clock, 52, 3, 8); /* joins what runs */
    engine_stats(engine, &stats);
    assert_int_equal(stats.cuts[ENGINE_CUT_DELAY], 1);
    assert_int_equal(stats.delay_cuts_late[0], 1);
    assert_int_equal(stats.cuts[ENGINE_CUT_JOIN], 1);
    assert_int_equal(stats.batches_total, 2);
    assert_int_equal(stats.batch_sizes_total, 3 + 4);
    assert_int_equal(stats.wait_ns_total, (50 + 11 + 0 + 0) * CLOCK_NS_PER_MS);
    engine_close(engine);
}

static void counts_how_late_a_cut_for_delay_came(void **state) {
    struct clock clock;
    struct engine_stats stats;
    struct engine_options options = default_options();
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.max_queue_delay_ms = 50;
    struct engine *engine = tiny_engine_open(&options);
    submit_at(engine, &clock, 1, 0, 8);
    clock_advance(&clock, 57 * CLOCK_NS_PER_MS);
    engine_run_step(engine, NULL, 0);
    engine_stats(engine, &stats);
    assert_int_equal(stats.cuts[ENGINE_CUT_DELAY], 1);
    for (uint32_t i = 0; i < ENGINE_LATE_CLASSES; i++) { /* 7 ms: in the class up to 10 */
        bool holds = i > 0 && engine_late_class_ns(i - 1) < 7 * CLOCK_NS_PER_MS &&
                     engine_late_class_ns(i) >= 7 * CLOCK_NS_PER_MS;
        assert_int_equal(stats.delay_cuts_late[i], holds);
    }
    engine_close(engine);
}

static void starts_what_waits_at_once_when_draining(void **state) {
    struct clock clock;
    struct engine_stats stats;
    struct engine_event finished[3];
    struct engine_options options = default_options();
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.max_queue_delay_ms = 1000000;
    struct engine *engine = tiny_engine_open(&options);
    for (uint64_t ticket = 0; ticket < 3; ticket++) {
        submit_at(engine, &clock, 1, ticket, 4);
    }
    assert_true(engine_drain(engine));
    engine_run_finish(engine, NULL, finished, 3);
    engine_stats(engine, &stats);
    assert_int_equal(stats.cuts[ENGINE_CUT_DRAIN], 1);
    engine_run_free(finished, 3);
    engine_close(engine);
}

static void tells_progress_no_more_often_than_asked_and_only_when_the_last_was_taken(void **state) {
    struct clock clock;
    struct job_error rejected;
    struct engine_event events[8];
    struct engine_options options = default_options();
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.progress_interval_ms = 10;
    options.max_speculative_tokens = -1; /* a token a step */
    struct engine *engine = tiny_engine_open(&options);
    struct job job = plain_job("tell me", 60);
    job.progress = JOB_PROGRESS_TEXT;
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    for (int i = 0; i < 35; i++) { /* a token each millisecond, nobody takes events */
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
    }
    assert_int_equal(engine_take_events(engine, events, 8), 2);
    assert_int_equal(events[0].kind, ENGINE_EVENT_STARTED);
    assert_int_equal(events[1].kind, ENGINE_EVENT_PROGRESS);
    assert_int_equal(events[1].usage.completion_tokens, 11);
    char *early = strdup(events[1].text);
    engine_run_free(events, 2);
    engine_run_step(engine, &clock, CLOCK_NS_PER_MS); /* the interval has passed long ago */
    for (int i = 0; i < 9; i++) {
        assert_int_equal(engine_take_events(engine, events, 8), i == 0);
        engine_run_free(events, i == 0);
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
    }
    struct engine_event finished;
    engine_run_finish(engine, &clock, &finished, 1);
    assert_memory_equal(finished.text, early, strlen(early));
    free(early);
    engine_event_deinit(&finished);
    engine_close(engine);
}

static void gives_no_text_in_progress_that_asked_for_none(void **state) {
    struct clock clock;
    struct job_error rejected;
    struct engine_event events[8];
    struct engine_options options = default_options();
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.progress_interval_ms = 1;
    struct engine *engine = tiny_engine_open(&options);
    for (uint64_t ticket = 0; ticket < 2; ticket++) {
        struct job job = plain_job("tell me", 60);
        job.progress = ticket == 0 ? JOB_PROGRESS_TOKENS : JOB_PROGRESS_OFF;
        assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
    }
    for (int i = 0; i < 5; i++) {
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
    }
    assert_int_equal(engine_take_events(engine, events, 8), 3); /* two starts, one progress */
    assert_int_equal(events[2].kind, ENGINE_EVENT_PROGRESS);
    assert_int_equal(events[2].ticket, 0);
    assert_null(events[2].text);
    engine_run_free(events, 3);
    engine_close(engine);
}

static void describes_itself_and_what_it_reserved(void **state) {
    struct engine_options options = default_options();
    struct engine_info info;
    struct engine *engine = tiny_engine_open(&options);
    engine_info(engine, &info);
    assert_string_equal(info.policy, "int8");
    assert_string_equal(info.tier, "reference");
    assert_string_equal(info.numerics, "cpu-1");
    assert_int_equal(info.threads, 1);
    assert_int_equal(info.max_model_len, 512);
    assert_int_equal(strlen(info.model_sha256), 64);
    assert_true(info.reserved_bytes > 0);
    engine_close(engine);
}

TEST_MAIN_WITH(
    tiny_engine_write_model, tiny_engine_free_model, ENGINE_CONTRACT_TESTS,
    cmocka_unit_test(gives_the_same_answers_alone_batched_chunked_and_threaded_on_every_tier),
    cmocka_unit_test(gives_the_same_answers_everywhere_in_f32_and_f16_too),
    cmocka_unit_test(ends_by_length_when_max_tokens_are_drawn),
    cmocka_unit_test(cuts_an_answer_to_the_room_that_the_context_leaves),
    cmocka_unit_test(ends_at_a_stop_string_that_spans_tokens),
    cmocka_unit_test(ends_at_a_stop_token_and_leaves_it_out_of_the_text),
    cmocka_unit_test(answers_problems_and_messages_through_the_template),
    cmocka_unit_test(refuses_what_can_never_run_by_field),
    cmocka_unit_test(refuses_options_and_files_with_the_status_that_says_what_to_do),
    cmocka_unit_test(fails_only_the_job_whose_values_are_not_finite),
    cmocka_unit_test(keeps_the_text_so_far_of_a_job_cancelled_while_it_runs),
    cmocka_unit_test(waits_from_idle_then_lets_others_join),
    cmocka_unit_test(counts_how_late_a_cut_for_delay_came),
    cmocka_unit_test(starts_what_waits_at_once_when_draining),
    cmocka_unit_test(tells_progress_no_more_often_than_asked_and_only_when_the_last_was_taken),
    cmocka_unit_test(gives_no_text_in_progress_that_asked_for_none),
    cmocka_unit_test(describes_itself_and_what_it_reserved))
