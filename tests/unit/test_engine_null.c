/* engine/engine_null and, through it, engine/engine: rings, wake-ups, tickets. */
#include "engine/engine.h"

#include <poll.h>
#include <string.h>

#include "tests/support/engine_contract.h"
#include "tests/support/test.h"

static struct engine *open_null(const struct engine_null_options *options) {
    char err[256] = "";
    struct engine *engine = NULL;
    if (engine_null_open(options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("%s", err);
    }
    return engine;
}

struct engine *contract_open(uint32_t tickets_max, int64_t delay_ms, struct clock *clock) {
    struct engine_null_options options = {
        .max_queue_size = tickets_max, .delay_us = delay_ms * 1000, .clock = clock};
    return open_null(&options);
}

static void answers_no_earlier_than_its_delay(void **state) {
    struct clock clock;
    clock_init_virtual(&clock, 0, 0);
    struct engine *engine = contract_open(4, 10, &clock);
    struct job_error rejected;
    struct job job = engine_run_job("a", "x", 1);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    struct engine_event event;
    engine_run_collect(engine, &clock, CLOCK_NS_PER_MS, &event, 1);
    assert_int_equal(event.kind, ENGINE_EVENT_STARTED);
    engine_event_deinit(&event);
    engine_run_collect(engine, &clock, CLOCK_NS_PER_MS, &event, 1);
    assert_int_equal(event.kind, ENGINE_EVENT_FINISHED);
    assert_int_equal(event.finished_ns - event.admitted_ns, 10 * CLOCK_NS_PER_MS);
    engine_event_deinit(&event);
    engine_close(engine);
}

static void gives_the_text_and_tokens_asked_for(void **state) {
    struct engine_null_options options = {.answer_bytes = 100, .completion_tokens = 7};
    struct engine *engine = open_null(&options);
    struct job_error rejected;
    struct job job = engine_run_job("a", "x", 1);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    struct engine_event event;
    engine_run_finish(engine, NULL, &event, 1);
    assert_int_equal(strlen(event.text), 100);
    assert_int_equal(event.usage.completion_tokens, 7);
    assert_int_equal(event.finish_reason, FINISH_STOP);
    engine_run_free(&event, 1);
    engine_close(engine);
}

static void fails_every_nth_job_when_asked_to(void **state) {
    struct engine_null_options options = {.max_queue_size = 8, .error_every = 3};
    struct engine *engine = open_null(&options);
    struct engine_event finished[8];
    for (uint64_t ticket = 0; ticket < 8; ticket++) {
        struct job_error rejected;
        struct job job = engine_run_job("a", "x", 1);
        assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
    }
    engine_run_finish(engine, NULL, finished, 8);
    for (int i = 0; i < 8; i++) {
        bool fails = (i + 1) % 3 == 0;
        assert_int_equal(finished[i].finish_reason, fails ? FINISH_ERROR : FINISH_STOP);
        assert_int_equal(finished[i].error.code, fails ? ERROR_NUMERIC : ERROR_NONE);
    }
    engine_run_free(finished, 8);
    engine_close(engine);
}

static void tells_its_worker_that_it_has_failed(void **state) {
    struct engine_null_options options = {.fail_after = 1};
    struct engine *engine = open_null(&options);
    char err[256] = "";
    struct job_error rejected;
    assert_int_equal(engine_start(engine, err, sizeof err), ENGINE_OK);
    struct job job = engine_run_job("a", "x", 1);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    while (!engine_has_failed(engine, err, sizeof err)) {
        struct pollfd poll_fd = {.fd = engine_event_fd(engine), .events = POLLIN};
        struct engine_event event;
        assert_int_equal(poll(&poll_fd, 1, 60000), 1);
        while (engine_take_events(engine, &event, 1) == 1) {
            engine_event_deinit(&event);
        }
    }
    assert_non_null(strstr(err, "fail_after"));
    job = engine_run_job("b", "x", 1);
    assert_int_equal(engine_submit(engine, 1, &job, &rejected), ENGINE_FAILED);
    job_deinit(&job);
    engine_close(engine);
}

static void keeps_up_with_a_worker_that_never_stops(void **state) {
    enum { JOBS = 20000, TICKETS = 64 };
    struct engine_null_options options = {.max_queue_size = TICKETS, .delay_us = 10};
    struct engine *engine = open_null(&options);
    char err[256] = "";
    assert_int_equal(engine_start(engine, err, sizeof err), ENGINE_OK);
    struct engine_event events[TICKETS];
    uint64_t submitted = 0, finished = 0;
    while (finished < JOBS) {
        struct job_error rejected;
        struct job job = engine_run_job("a", "x", 1);
        enum engine_status status = ENGINE_BUSY;
        if (submitted < JOBS) {
            status = engine_submit(engine, submitted, &job, &rejected);
        }
        submitted += status == ENGINE_OK;
        if (status == ENGINE_BUSY) {
            struct pollfd poll_fd = {.fd = engine_event_fd(engine), .events = POLLIN};
            assert_int_equal(poll(&poll_fd, 1, 60000), 1);
        }
        size_t count = engine_take_events(engine, events, TICKETS);
        for (size_t i = 0; i < count; i++) {
            finished += events[i].kind == ENGINE_EVENT_FINISHED;
            engine_event_deinit(&events[i]);
        }
        job_deinit(&job);
    }
    engine_close(engine);
}

TEST_MAIN(ENGINE_CONTRACT_TESTS, cmocka_unit_test(answers_no_earlier_than_its_delay),
          cmocka_unit_test(gives_the_text_and_tokens_asked_for),
          cmocka_unit_test(fails_every_nth_job_when_asked_to),
          cmocka_unit_test(tells_its_worker_that_it_has_failed),
          cmocka_unit_test(keeps_up_with_a_worker_that_never_stops))
