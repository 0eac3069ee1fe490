#include "tests/support/engine_contract.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTRACT_TICKETS_MAX = 4, CONTRACT_DELAY_MS = 5, CONTRACT_PATIENCE_MS = 60000 };

static void contract_submit(struct engine *engine, uint64_t ticket) {
    char id[32];
    struct job_error rejected;
    snprintf(id, sizeof id, "job-%llu", (unsigned long long)ticket);
    struct job job = engine_run_job(id, "Say a word.", 8);
    assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
}

static struct engine *contract_open_virtual(struct clock *clock) {
    clock_init_virtual(clock, CLOCK_NS_PER_S, 0);
    return contract_open(CONTRACT_TICKETS_MAX, CONTRACT_DELAY_MS, clock);
}

void finishes_each_ticket_exactly_once(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event finished[CONTRACT_TICKETS_MAX];
    for (uint64_t ticket = 0; ticket < CONTRACT_TICKETS_MAX; ticket++) {
        contract_submit(engine, ticket);
    }
    engine_run_finish(engine, &clock, finished, CONTRACT_TICKETS_MAX);
    for (size_t i = 0; i < CONTRACT_TICKETS_MAX; i++) {
        assert_non_null(finished[i].text);
        assert_int_equal(strlen(finished[i].answer_sha256), SHA256_HEX_BYTES - 1);
    }
    for (int steps = 0; steps < 100; steps++) {
        struct engine_event more;
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
        assert_int_equal(engine_take_events(engine, &more, 1), 0);
    }
    engine_run_free(finished, CONTRACT_TICKETS_MAX);
    engine_close(engine);
}

void moves_a_job_on_ok_and_leaves_it_on_busy(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct job_error rejected;
    struct job job = engine_run_job("moves", "Say a word.", 8);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    assert_null(job.prompt);
    assert_string_equal(job.request_id, "");
    for (uint64_t ticket = 1; ticket < CONTRACT_TICKETS_MAX; ticket++) {
        contract_submit(engine, ticket);
    }
    job = engine_run_job("stays", "Say a word.", 8);
    assert_int_equal(engine_submit(engine, 99, &job, &rejected), ENGINE_BUSY);
    assert_string_equal(job.prompt, "Say a word.");
    job_deinit(&job);
    engine_close(engine);
}

void gives_room_back_when_a_finish_is_taken(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event finished[CONTRACT_TICKETS_MAX];
    for (int round = 0; round < 20; round++) {
        for (uint64_t ticket = 0; ticket < CONTRACT_TICKETS_MAX; ticket++) {
            contract_submit(engine, ticket);
        }
        engine_run_finish(engine, &clock, finished, CONTRACT_TICKETS_MAX);
        engine_run_free(finished, CONTRACT_TICKETS_MAX);
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.requests_total, 20 * CONTRACT_TICKETS_MAX);
    engine_close(engine);
}

void rejects_an_empty_prompt_and_leaves_the_job(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct job_error rejected = {.code = ERROR_NONE};
    struct job job = engine_run_job("empty", "", 8);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_REJECTED);
    assert_int_equal(rejected.code, ERROR_EMPTY_PROMPT);
    assert_string_equal(job.request_id, "empty");
    job_deinit(&job);
    contract_submit(engine, 0); /* its neighbours are welcome */
    struct engine_event finished;
    engine_run_finish(engine, &clock, &finished, 1);
    engine_run_free(&finished, 1);
    engine_close(engine);
}

void ends_a_cancelled_ticket_within_one_step(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    for (uint64_t ticket = 0; ticket < 3; ticket++) {
        contract_submit(engine, ticket);
    }
    assert_true(engine_cancel(engine, 1, FINISH_CANCELLED));
    assert_true(engine_cancel(engine, 2, FINISH_DEADLINE));
    engine_run_step(engine, &clock, 0);
    struct engine_event event;
    bool is_ended[3] = {false};
    while (engine_take_events(engine, &event, 1) == 1) {
        if (event.kind == ENGINE_EVENT_FINISHED) {
            is_ended[event.ticket] = true;
            assert_int_equal(event.finish_reason,
                             event.ticket == 1 ? FINISH_CANCELLED : FINISH_DEADLINE);
            assert_int_equal(event.error.code, event.ticket == 1 ? ERROR_CANCELLED : ERROR_EXPIRED);
            assert_non_null(event.text);
        }
        engine_event_deinit(&event);
    }
    assert_true(is_ended[1] && is_ended[2] && !is_ended[0]);
    struct engine_event finished;
    engine_run_finish(engine, &clock, &finished, 1); /* ticket 0 is unharmed */
    assert_int_not_equal(finished.finish_reason, FINISH_CANCELLED);
    engine_run_free(&finished, 1);
    engine_close(engine);
}

static void contract_submit_until(struct engine *engine, uint64_t ticket, int64_t deadline_ns) {
    struct job_error rejected;
    struct job job = engine_run_job("late", "Say a word.", 8);
    job.deadline_ns = deadline_ns;
    assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
}

void ends_a_job_at_its_deadline_by_itself(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event finished[3];
    int64_t deadline_ns = clock_monotonic_ns(&clock) + 3 * CLOCK_NS_PER_MS;
    contract_submit(engine, 0);
    contract_submit_until(engine, 1, deadline_ns);
    contract_submit_until(engine, 2, deadline_ns + CLOCK_NS_PER_S);
    engine_run_finish(engine, &clock, finished, 3);
    assert_int_equal(finished[0].error.code, ERROR_NONE);
    assert_int_equal(finished[1].finish_reason, FINISH_DEADLINE);
    assert_int_equal(finished[1].error.code, ERROR_EXPIRED);
    assert_int_equal(finished[1].finished_ns, deadline_ns);
    assert_non_null(finished[1].text);
    assert_int_equal(finished[2].error.code, ERROR_NONE);
    engine_run_free(finished, 3);
    engine_close(engine);
}

void never_ends_a_job_as_done_after_its_deadline(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event finished;
    contract_submit_until(engine, 0, clock_monotonic_ns(&clock) + 40 * CLOCK_NS_PER_MS);
    for (int steps = 0; steps < 4; steps++) { /* begins it; no engine needs longer for it all */
        engine_run_step(engine, &clock, 0);
    }
    clock_advance(&clock, 40 * CLOCK_NS_PER_MS);
    engine_run_finish(engine, &clock, &finished, 1);
    assert_int_equal(finished.finish_reason, FINISH_DEADLINE);
    engine_run_free(&finished, 1);
    engine_close(engine);
}

void begins_nothing_that_comes_after_its_deadline(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event finished;
    struct engine_stats stats;
    contract_submit_until(engine, 0, 1);
    engine_run_finish(engine, &clock, &finished, 1);
    assert_int_equal(finished.finish_reason, FINISH_DEADLINE);
    assert_int_equal(finished.usage.completion_tokens, 0);
    engine_stats(engine, &stats);
    assert_int_equal(stats.prefill_tokens_total, 0);
    assert_int_equal(stats.decode_tokens_total, 0);
    assert_int_equal(stats.expired_total, 1);
    engine_run_free(&finished, 1);
    engine_close(engine);
}

/* In one step all that are late end, the others do not, and each can be cancelled at once. */
void ends_thousands_at_once_that_nobody_waits_for(void **state) {
    enum { MANY = 10000 };
    struct clock clock;
    struct engine_event event;
    uint32_t expired = 0, cancelled = 0;
    clock_init_virtual(&clock, CLOCK_NS_PER_S, 0);
    /* Longer than the test: most could not begin anyway. */
    struct engine *engine = contract_open(MANY, 60000, &clock);
    for (uint64_t ticket = 0; ticket < MANY; ticket++) {
        contract_submit_until(engine, ticket,
                              ticket % 2 == 0 ? CLOCK_NS_PER_S + 50 * CLOCK_NS_PER_MS : 0);
    }
    clock_advance(&clock, 50 * CLOCK_NS_PER_MS);
    for (uint64_t ticket = 1; ticket < MANY; ticket += 4) {
        assert_true(engine_cancel(engine, ticket, FINISH_CANCELLED));
    }
    engine_run_step(engine, &clock, 0);
    while (engine_take_events(engine, &event, 1) == 1) {
        expired += event.kind == ENGINE_EVENT_FINISHED && event.finish_reason == FINISH_DEADLINE;
        cancelled += event.kind == ENGINE_EVENT_FINISHED && event.finish_reason == FINISH_CANCELLED;
        engine_event_deinit(&event);
    }
    assert_int_equal(expired, MANY / 2);
    assert_int_equal(cancelled, MANY / 4);
    engine_close(engine);
}

void ignores_a_cancel_of_an_unknown_ticket(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event event;
    assert_true(engine_cancel(engine, 77, FINISH_CANCELLED));
    assert_true(engine_drain(engine));
    engine_run_step(engine, &clock, 0);
    assert_int_equal(engine_take_events(engine, &event, 1), 0);
    engine_close(engine);
}

static bool contract_is_readable(const struct engine *engine, int timeout_ms) {
    struct pollfd poll_fd = {.fd = engine_event_fd(engine), .events = POLLIN};
    return poll(&poll_fd, 1, timeout_ms) == 1;
}

void keeps_its_descriptor_readable_while_events_wait(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event event;
    assert_false(contract_is_readable(engine, 0));
    contract_submit(engine, 0);
    for (int steps = 0; steps < 1000; steps++) {
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
    }
    bool is_finished = false;
    while (!is_finished) { /* one at a time: started, then the end at least */
        assert_true(contract_is_readable(engine, 0));
        assert_int_equal(engine_take_events(engine, &event, 1), 1);
        is_finished = event.kind == ENGINE_EVENT_FINISHED;
        engine_event_deinit(&event);
    }
    assert_false(contract_is_readable(engine, 0));
    engine_close(engine);
}

void frees_work_and_events_that_nobody_took(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    contract_submit(engine, 0);
    for (int steps = 0; steps < 1000; steps++) {
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
    }
    contract_submit(engine, 1);
    engine_run_step(engine, &clock, 0);
    contract_submit(engine, 2);
    engine_close(engine); /* a leak checker is the judge */
    engine_close(NULL);
}

void wakes_its_thread_for_each_submit(void **state) {
    char err[256] = "";
    struct engine *engine = contract_open(CONTRACT_TICKETS_MAX, 1, NULL);
    assert_int_equal(engine_start(engine, err, sizeof err), ENGINE_OK);
    for (uint64_t ticket = 0; ticket < 50; ticket++) {
        contract_submit(engine, ticket);
        bool is_finished = false;
        while (!is_finished) {
            struct engine_event event;
            assert_true(contract_is_readable(engine, CONTRACT_PATIENCE_MS));
            while (engine_take_events(engine, &event, 1) == 1) {
                assert_int_equal(event.ticket, ticket);
                is_finished |= event.kind == ENGINE_EVENT_FINISHED;
                engine_event_deinit(&event);
            }
        }
    }
    engine_close(engine);
}

void gives_times_in_the_order_of_a_life(void **state) {
    struct clock clock;
    struct engine *engine = contract_open_virtual(&clock);
    struct engine_event event;
    int64_t submitted_ns = clock_monotonic_ns(&clock);
    contract_submit(engine, 0);
    engine_run_finish(engine, &clock, &event, 1);
    assert_int_equal(event.admitted_ns, submitted_ns);
    assert_true(event.started_ns >= event.admitted_ns);
    assert_true(event.first_token_ns >= event.started_ns);
    assert_true(event.finished_ns >= event.first_token_ns);
    assert_true(event.usage.prompt_tokens > 0 && event.usage.completion_tokens > 0);
    engine_run_free(&event, 1);
    engine_close(engine);
}

enum { RANDOM_TICKETS = 300, RANDOM_OUT_MAX = 12 };

struct random_run {
    struct engine *engine;
    uint64_t random;
    uint64_t submitted, ended;
    int last_kind[RANDOM_TICKETS]; /* of each ticket's events; -1 = none yet */
};

static void random_submit(struct random_run *run) {
    struct job_error rejected;
    struct job job = engine_run_job("random", "Say a word.", 1 + (uint32_t)(run->random % 20));
    job.progress = (enum job_progress)(run->random % 3);
    run->last_kind[run->submitted] = -1;
    enum engine_status status = engine_submit(run->engine, run->submitted, &job, &rejected);
    assert_true(status == ENGINE_OK || status == ENGINE_BUSY);
    run->submitted += status == ENGINE_OK;
    job_deinit(&job);
}

static void random_take(struct random_run *run) {
    struct engine_event events[3];
    size_t count = engine_take_events(run->engine, events, 1 + run->random % 3);
    for (size_t i = 0; i < count; i++) {
        uint64_t ticket = events[i].ticket;
        assert_true(ticket < run->submitted);
        assert_int_not_equal(run->last_kind[ticket], ENGINE_EVENT_FINISHED);
        assert_true((int)events[i].kind >= run->last_kind[ticket]); /* started, progress, end */
        run->last_kind[ticket] = (int)events[i].kind;
        run->ended += events[i].kind == ENGINE_EVENT_FINISHED;
        engine_event_deinit(&events[i]);
    }
}

void ends_every_ticket_once_under_random_submits_and_cancels(void **state) {
    char err[256] = "";
    struct engine_stats stats;
    static struct random_run run;
    run = (struct random_run){.engine = contract_open(RANDOM_OUT_MAX, 1, NULL),
                              .random = test_seed()};
    assert_int_equal(engine_start(run.engine, err, sizeof err), ENGINE_OK);
    while (run.ended < RANDOM_TICKETS) {
        uint64_t choice = test_random(&run.random) % 4;
        if (choice == 0 && run.submitted < RANDOM_TICKETS) {
            random_submit(&run);
        } else if (choice == 1 && run.submitted > 0) {
            uint64_t back = run.random % RANDOM_OUT_MAX; /* finished ones, too */
            uint64_t ticket = run.submitted - 1 - (back < run.submitted ? back : 0);
            bool is_sent = engine_cancel(run.engine, ticket, FINISH_CANCELLED);
            (void)is_sent; /* the ring may be full of cancels: then this one never was */
        } else if (choice == 2 && run.ended < run.submitted) {
            assert_true(contract_is_readable(run.engine, CONTRACT_PATIENCE_MS));
        } else {
            random_take(&run);
        }
    }
    do { /* events may be taken before the step that made them has published its counts */
        engine_stats(run.engine, &stats);
    } while (stats.requests_total < RANDOM_TICKETS || stats.pages_used > 0 ||
             stats.queued_count > 0);
    assert_int_equal(stats.requests_total, RANDOM_TICKETS);
    engine_close(run.engine);
}
