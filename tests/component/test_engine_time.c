/* engine with a model, in time or refused: what a deadline cuts and what it keeps, when the device
 * is free again, what is refused as infeasible, and that a long prompt does not hold short ones up.
 * On a tiny random Llama. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_real.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"

#define MS CLOCK_NS_PER_MS

static struct clock virtual;

static struct engine_options default_options(void) {
    struct engine_options options = tiny_engine_options();
    clock_init_virtual(&virtual, CLOCK_NS_PER_S, 0);
    options.cpu_tier = NULL; /* the processor's own */
    options.max_model_len = 1024;
    options.prefill_chunk_tokens = 64;
    options.prefix_cache_off = true;
    options.clock = &virtual;
    return options;
}

/* A prompt of `length` digits, that is tokens. */
static void submit(struct engine *engine, uint64_t ticket, uint32_t length, uint32_t max_tokens,
                   int64_t deadline_ns) {
    char id[32], prompt[1024];
    struct job_error rejected;
    assert_true(length < sizeof prompt);
    for (uint32_t at = 0; at < length; at++) {
        prompt[at] = (char)('0' + (at * 7 + ticket * 5 + at * at) % 10);
    }
    prompt[length] = '\0';
    snprintf(id, sizeof id, "job-%llu", (unsigned long long)ticket);
    struct job job = engine_run_job(id, prompt, max_tokens);
    job.deadline_ns = deadline_ns;
    assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
}

/* The end of a ticket, which must have come by now; other events are left aside. */
static struct engine_event take_end(struct engine *engine, uint64_t ticket) {
    struct engine_event event = {.text = NULL}, end = {.text = NULL};
    while (engine_take_events(engine, &event, 1) == 1) {
        if (event.kind == ENGINE_EVENT_FINISHED && event.ticket == ticket) {
            end = event;
        } else {
            engine_event_deinit(&event);
        }
    }
    assert_non_null(end.text);
    return end;
}

static void assert_device_is_free(struct engine *engine) {
    const struct engine_real *real = (const struct engine_real *)engine;
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.running_count, 0);
    assert_int_equal(stats.queued_count, 0);
    assert_int_equal(real->tickets.count, 0);
    assert_int_equal(real->deadlines.count, 0);
    assert_int_equal(real->slots.free_count, real->options.max_running);
}

/* ---------------------------------------------------------------- cut */

static void cuts_an_answer_within_one_step_and_keeps_its_text(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    submit(engine, 0, 20, 500, CLOCK_NS_PER_S + 10 * MS);
    for (int steps = 0; steps <= 10; steps++) {
        engine_run_step(engine, &virtual, MS);
    }
    struct engine_event end = take_end(engine, 0);
    assert_int_equal(end.finish_reason, FINISH_DEADLINE);
    assert_int_equal(end.error.code, ERROR_EXPIRED);
    assert_int_equal(end.usage.completion_tokens, 10);
    assert_true(strlen(end.text) > 0);
    assert_false(end.truncated);
    assert_device_is_free(engine);
    engine_event_deinit(&end);
    engine_close(engine);
}

/* A step that takes 5 ms. */
static void take_time(void *context, const struct batch *batch, const float *logits) {
    (void)batch;
    (void)logits;
    clock_advance(context, 5 * MS);
}

static void calls_nothing_done_whose_deadline_passed_within_its_last_step(void **state) {
    const struct forward_tap tap = {.context = &virtual, .see = take_time};
    struct engine_options options = default_options();
    options.tap = &tap;
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event end;
    clock_init_virtual(&virtual, CLOCK_NS_PER_S, 0); /* opening took time, too */
    submit(engine, 0, 10, 1, CLOCK_NS_PER_S + 5 * MS);
    submit(engine, 1, 10, 1, CLOCK_NS_PER_S + 5 * MS + 1);
    for (uint64_t i = 0; i < 2; i++) {
        submit(engine, 2 + i, 10, 1, 0);
    }
    engine_run_step(engine, NULL, 0);
    struct engine_event ends[4];
    size_t count = 0;
    while (engine_take_events(engine, &end, 1) == 1) {
        if (end.kind == ENGINE_EVENT_FINISHED) {
            ends[count++] = end;
        } else {
            engine_event_deinit(&end);
        }
    }
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ends[i].finish_reason,
                         ends[i].ticket == 0 ? FINISH_DEADLINE : FINISH_LENGTH);
        assert_int_equal(ends[i].usage.completion_tokens, 1); /* what was drawn is kept */
    }
    engine_run_free(ends, count);
    engine_close(engine);
}

static void cuts_a_prompt_between_two_chunks(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    submit(engine, 0, 900, 5, CLOCK_NS_PER_S + 3 * MS);
    for (int steps = 0; steps <= 3; steps++) {
        engine_run_step(engine, &virtual, MS);
    }
    struct engine_event end = take_end(engine, 0);
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(end.finish_reason, FINISH_DEADLINE);
    assert_int_equal(end.usage.completion_tokens, 0);
    assert_int_equal(end.first_token_ns, 0);
    assert_int_equal(stats.prefill_tokens_total, 3 * 64);
    assert_device_is_free(engine);
    engine_event_deinit(&end);
    engine_close(engine);
}

static void frees_the_device_of_a_cancelled_job_within_one_step(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_stats stats;
    static const uint32_t lengths[] = {20, 900}; /* in its answer, in its prompt */
    for (uint64_t i = 0; i < 2; i++) {
        submit(engine, i, lengths[i], 500, 0);
        for (int steps = 0; steps < 3; steps++) {
            engine_run_step(engine, &virtual, MS);
        }
        engine_stats(engine, &stats);
        assert_true(stats.pages_used > 0);
        assert_true(engine_cancel(engine, i, FINISH_CANCELLED));
        engine_run_step(engine, &virtual, MS);
        assert_device_is_free(engine);
        struct engine_event end = take_end(engine, i);
        assert_int_equal(end.finish_reason, FINISH_CANCELLED);
        assert_int_equal(end.error.code, ERROR_CANCELLED);
        assert_int_equal(end.usage.completion_tokens, i == 0 ? 3 : 0);
        engine_event_deinit(&end);
        assert_true(engine_cancel(engine, i, FINISH_CANCELLED)); /* once more: nothing happens */
        engine_run_step(engine, &virtual, MS);
        assert_int_equal(engine_take_events(engine, &end, 1), 0);
    }
    engine_close(engine);
}

/* ---------------------------------------------------------------- infeasible */

/* 1 ms a prompt token and 5 ms a step, as if measured. */
static void inject_rates(struct engine *engine, uint32_t samples) {
    struct engine_real *real = (struct engine_real *)engine;
    const struct cost_model_step prefill = {.ns = 100 * MS, .prefill_rows = 100};
    const struct cost_model_step decode = {.ns = 5 * MS, .decode_rows = 1};
    memset(&real->costs, 0, sizeof real->costs);
    for (uint32_t i = 0; i < samples; i++) {
        cost_model_note_step(&real->costs, &prefill);
        cost_model_note_step(&real->costs, &decode);
    }
}

static void refuses_at_once_what_cannot_have_a_token_in_time(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_stats stats;
    inject_rates(engine, 32);
    submit(engine, 0, 100, 5, CLOCK_NS_PER_S + 52 * MS);  /* half of 105 ms is more than 52 */
    submit(engine, 1, 100, 5, CLOCK_NS_PER_S + 160 * MS); /* behind one that is refused: no wait */
    engine_run_step(engine, &virtual, 0);
    struct engine_event end = take_end(engine, 0);
    assert_int_equal(end.finish_reason, FINISH_DEADLINE);
    assert_int_equal(end.error.code, ERROR_INFEASIBLE);
    assert_string_equal(end.error.field, "timeout_ms");
    assert_int_equal(end.started_ns, 0);
    engine_stats(engine, &stats);
    assert_int_equal(stats.infeasible_total, 1);
    assert_int_equal(stats.expired_total, 0);
    assert_int_equal(stats.running_count, 1);
    engine_event_deinit(&end);
    engine_close(engine);
}

static void counts_those_that_wait_before_it(void **state) {
    struct engine_options options = default_options();
    options.max_queue_delay_ms = 1000; /* so that they wait */
    struct engine *engine = tiny_engine_open(&options);
    inject_rates(engine, 32);
    submit(engine, 0, 100, 5, 0);
    submit(engine, 1, 100, 5, CLOCK_NS_PER_S + 102 * MS); /* half of 205 */
    submit(engine, 2, 100, 5, CLOCK_NS_PER_S + 103 * MS);
    engine_run_step(engine, &virtual, 0);
    struct engine_event end = take_end(engine, 1);
    assert_int_equal(end.error.code, ERROR_INFEASIBLE);
    engine_event_deinit(&end);
    assert_int_equal(((struct engine_real *)engine)->tickets.count, 2);
    engine_close(engine);
}

static void refuses_nothing_before_it_has_measured_enough(void **state) {
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event finished;
    inject_rates(engine, 31);
    submit(engine, 0, 900, 1, CLOCK_NS_PER_S + 100 * MS);
    engine_run_finish(engine, &virtual, &finished, 1);
    assert_int_equal(finished.finish_reason, FINISH_LENGTH);
    engine_run_free(&finished, 1);
    engine_close(engine);
}

static void measures_what_it_computes(void **state) {
    struct engine_options options = default_options();
    options.clock = NULL;
    struct engine *engine = tiny_engine_open(&options);
    const struct engine_real *real = (const struct engine_real *)engine;
    struct engine_event finished[40];
    for (uint64_t i = 0; i < 40; i++) {
        submit(engine, i, 30, 40, 0);
    }
    engine_run_finish(engine, NULL, finished, 40);
    assert_int_equal(real->costs.answer.samples, 40);
    assert_true(real->costs.step.samples >= COST_MODEL_SAMPLES_MIN);
    assert_true(real->costs.prefill.units >= 40 * 30 / 2);
    assert_true(real->costs.prefill.total > 0 && real->costs.step.total > 0);
    engine_run_free(finished, 40);
    engine_close(engine);
}

/* ---------------------------------------------------------------- the head of the line */

static void gives_short_prompts_their_first_token_while_a_long_one_is_computed(void **state) {
    enum { SHORT = 10 };
    struct engine_options options = default_options();
    struct engine *engine = tiny_engine_open(&options);
    struct engine_event finished[SHORT + 1];
    int64_t most_ns = 0;
    /* C = 64, Q = 16: ten of 50 are complete after ceil(500 / 48) = 11 steps of 1 ms. */
    submit(engine, 0, 1000, 10, 0);
    engine_run_step(engine, &virtual, MS);
    int64_t came_ns = clock_monotonic_ns(&virtual);
    for (uint64_t i = 1; i <= SHORT; i++) {
        submit(engine, i, 50, 10, 0);
    }
    engine_run_finish(engine, &virtual, finished, SHORT + 1);
    for (int i = 1; i <= SHORT; i++) {
        int64_t took_ns = finished[i].first_token_ns - came_ns;
        most_ns = took_ns > most_ns ? took_ns : most_ns;
        assert_int_equal(finished[i].error.code, ERROR_NONE);
    }
    assert_in_range(most_ns, 1, 11 * MS);
    assert_true(finished[0].first_token_ns > came_ns + 14 * MS); /* and that one took longer */
    engine_run_free(finished, SHORT + 1);
    engine_close(engine);
}

static int64_t first_token_after(struct engine *engine, bool behind_a_long_one) {
    enum { SHORT = 10 };
    struct engine_event finished[SHORT + 1];
    int64_t last_ns = 0;
    submit(engine, 0, behind_a_long_one ? 1000 : 1, 2, 0);
    engine_run_step(engine, NULL, 0);
    int64_t came_ns = clock_monotonic_ns(NULL);
    for (uint64_t i = 1; i <= SHORT; i++) {
        submit(engine, i, 50, 2, 0);
    }
    engine_run_finish(engine, NULL, finished, SHORT + 1);
    for (int i = 1; i <= SHORT; i++) {
        last_ns = finished[i].first_token_ns > last_ns ? finished[i].first_token_ns : last_ns;
    }
    assert_true(!behind_a_long_one || finished[0].first_token_ns > last_ns);
    engine_run_free(finished, SHORT + 1);
    return last_ns - came_ns;
}

/* By the real clock only the order can be asserted; the time is printed. */
static void does_so_by_the_real_clock_too(void **state) {
    struct engine_options options = default_options();
    options.clock = NULL;
    struct engine *engine = tiny_engine_open(&options);
    int64_t alone_ns = first_token_after(engine, false);
    int64_t behind_ns = first_token_after(engine, true);
    printf("    ten short prompts: %.2f ms alone, %.2f ms behind a long one\n",
           (double)alone_ns / MS, (double)behind_ns / MS);
    engine_close(engine);
}

TEST_MAIN_WITH(tiny_engine_write_model, tiny_engine_free_model,
               cmocka_unit_test(cuts_an_answer_within_one_step_and_keeps_its_text),
               cmocka_unit_test(calls_nothing_done_whose_deadline_passed_within_its_last_step),
               cmocka_unit_test(cuts_a_prompt_between_two_chunks),
               cmocka_unit_test(frees_the_device_of_a_cancelled_job_within_one_step),
               cmocka_unit_test(refuses_at_once_what_cannot_have_a_token_in_time),
               cmocka_unit_test(counts_those_that_wait_before_it),
               cmocka_unit_test(refuses_nothing_before_it_has_measured_enough),
               cmocka_unit_test(measures_what_it_computes),
               cmocka_unit_test(gives_short_prompts_their_first_token_while_a_long_one_is_computed),
               cmocka_unit_test(does_so_by_the_real_clock_too))
