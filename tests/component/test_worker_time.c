/* The worker and time: deadlines from a record's timestamp, jobs that expire while the engine is
 * busy, cancels before, during and after. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_client.h"
#include "consumer/worker.h"
#include "engine/clock.h"
#include "schemas/result.h"
#include "tests/support/test.h"
#include "tests/support/worker_rig.h"

static struct worker_rig rig;

static int64_t now_ms(void) {
    return clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS;
}

/* Steps while the condition holds. */
#define STEP_WHILE(condition)                                            \
    for (int64_t end_ = now_ms() + WORKER_RIG_WAIT_MS_MAX; condition;) { \
        assert_true(now_ms() < end_);                                    \
        worker_rig_step(&rig);                                           \
    }

static void start(const char *group, const char *const *words, bool holds_engine,
                  const struct engine_null_options *engine) {
    rig.holds_engine = holds_engine;
    worker_rig_start(&rig, group, words, engine);
    worker_rig_until_ready(&rig);
}

static void produce(const char *id, int64_t age_ms, int64_t timeout_ms) {
    char value[256];
    snprintf(value, sizeof value,
             "{\"request_id\": \"%s\", \"prompt\": \"hello\", \"timeout_ms\": %lld}", id,
             (long long)timeout_ms);
    worker_rig_produce_at(&rig, clock_unix_ms(NULL) - age_ms, value);
}

static bool status_is(const char *id, const char *state) {
    char *value = worker_rig_status(&rig, id, "state");
    bool same = value != NULL && strcmp(value, state) == 0;
    free(value);
    return same;
}

static void expect_status(const char *id, const char *field, const char *expected) {
    char *value = worker_rig_status(&rig, id, field);
    assert_non_null(value);
    assert_string_equal(value, expected);
    free(value);
}

static struct result next_result(void) {
    struct worker_rig_record record = worker_rig_next_result(&rig);
    struct result result;
    struct job_error error;
    assert_int_equal(result_decode(record.value, record.value_bytes, &result, &error), ERROR_NONE);
    worker_rig_free(&record);
    return result;
}

static void expect_result(const char *id, enum result_status status, enum error_code code) {
    struct result result = next_result();
    assert_string_equal(result.request_id, id);
    assert_int_equal(result.status, status);
    assert_int_equal(result.error.code, code);
    result_deinit(&result);
}

/* ---- deadlines ---- */

static void expires_what_is_past_its_deadline_on_arrival_without_the_engine(void **state) {
    struct engine_stats stats;
    start("arrival", NULL, false, NULL);
    produce("late", 60000, 59000);
    worker_rig_flush(&rig);
    expect_result("late", RESULT_EXPIRED, ERROR_EXPIRED);
    produce("early", 60000, 3600000);
    worker_rig_flush(&rig);
    expect_result("early", RESULT_DONE, ERROR_NONE);
    worker_rig_until_drained(&rig);
    expect_status("late", "state", "expired");
    expect_status("late", "error_code", "expired");
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.requests_total, 1); /* the late one never came to it */
    assert_int_equal(worker_rig_stats(&rig).expired, 1);
}

static void takes_a_record_from_the_future_for_one_of_now(void **state) {
    static const char *const words[] = {"--max-clock-skew-ms", "60000", NULL};
    start("future", words, true, NULL);
    produce("near", -50000, 300);
    produce("far", -3600000, 300);
    worker_rig_flush(&rig);
    int64_t start_ms = now_ms();
    for (int i = 0; i < 2; i++) {
        struct result result = next_result();
        assert_int_equal(result.status, RESULT_EXPIRED);
        result_deinit(&result);
    }
    assert_true(now_ms() - start_ms < 20000); /* not after 50 s, nor after an hour */
    assert_int_equal(worker_rig_stats(&rig).from_the_future, 1);
    worker_rig_release(&rig);
    worker_rig_until_drained(&rig);
}

/* The engine takes no step at all, with most of them in its queue and the rest before it. */
static void expires_thousands_on_time_while_the_engine_is_in_a_step(void **state) {
    enum { MANY = 3000, TIMEOUT_MS = 1500 };
    static const struct engine_null_options large = {.max_queue_size = 2000};
    static const char *const words[] = {"--max-queue-size", "2000", NULL};
    bool has_expired[MANY] = {false};
    char id[32];
    start("thousands", words, true, &large);
    int64_t timestamp_ms = clock_unix_ms(NULL);
    for (int i = 0; i < MANY; i++) {
        char value[128];
        snprintf(value, sizeof value,
                 "{\"request_id\":\"t-%d\",\"prompt\":\"hello\",\"timeout_ms\":%d}", i, TIMEOUT_MS);
        worker_rig_produce_at(&rig, timestamp_ms, value);
    }
    worker_rig_flush(&rig);
    STEP_WHILE(worker_rig_stats(&rig).in_flight < MANY && worker_rig_stats(&rig).expired == 0);
    for (int i = 0; i < MANY; i++) {
        struct result result = next_result();
        int number = atoi(result.request_id + 2);
        assert_int_equal(result.status, RESULT_EXPIRED);
        assert_true(result.timings.total_ms >= TIMEOUT_MS);
        assert_false(has_expired[number]);
        has_expired[number] = true;
        result_deinit(&result);
    }
    worker_rig_release(&rig); /* its ends of those are nobody's now */
    snprintf(id, sizeof id, "after");
    worker_rig_produce_job(&rig, id);
    expect_result(id, RESULT_DONE, ERROR_NONE);
    worker_rig_until_drained(&rig);
    STEP_WHILE(worker_rig_stats(&rig).in_flight > 0);
    assert_int_equal(worker_rig_stats(&rig).expired, MANY);
    assert_true(worker_rig_has_no_result(&rig));
}

static void cuts_what_runs_at_its_deadline(void **state) {
    static const struct engine_null_options slow = {.delay_us = 3600000000LL};
    start("cut", NULL, false, &slow);
    produce("cut", 0, 400);
    worker_rig_flush(&rig);
    expect_result("cut", RESULT_EXPIRED, ERROR_EXPIRED);
    worker_rig_until_drained(&rig);
    expect_status("cut", "state", "expired");
}

/* ---- priorities ---- */

static int64_t finished_at(const char *stem, int number) {
    char id[32];
    snprintf(id, sizeof id, "%s-%d", stem, number);
    char *value = worker_rig_status(&rig, id, "finished_at");
    assert_non_null(value);
    int64_t ms = strtoll(value, NULL, 10);
    free(value);
    return ms;
}

static void produce_urgent(const char *stem, int count, int priority, const char *tenant) {
    for (int i = 0; i < count; i++) {
        char value[256];
        snprintf(value, sizeof value,
                 "{\"request_id\":\"%s-%d\",\"prompt\":\"hello\",\"priority\":%d,"
                 "\"tenant\":\"%s\"}",
                 stem, i, priority, tenant);
        worker_rig_produce_at(&rig, clock_unix_ms(NULL), value);
    }
    worker_rig_flush(&rig);
}

/* The engine has room for one job; all others wait in the worker. */
static void gives_the_engine_what_is_urgent_first_and_tenants_in_turn(void **state) {
    enum { BULK = 60, FEW = 4 };
    static const struct engine_null_options one = {.max_queue_size = 1, .delay_us = 3000};
    static const char *const words[] = {"--topics", "other.urgent,solfleet.jobs.urgent",
                                        "--priority-ageing-ms", "600000", NULL};
    worker_rig_make_topic(&rig, "other.urgent");
    start("urgent", words, true, &one);
    produce_urgent("bulk", BULK, 7, "many");
    STEP_WHILE(worker_rig_stats(&rig).in_flight < BULK);
    produce_urgent("few", FEW, 7, "few");
    produce_urgent("now", FEW, 0, "many");
    STEP_WHILE(worker_rig_stats(&rig).in_flight < BULK + 2 * FEW);
    worker_rig_release(&rig);
    for (int i = 0; i < BULK + 2 * FEW; i++) {
        struct result result = next_result();
        assert_int_equal(result.status, RESULT_DONE);
        result_deinit(&result);
    }
    worker_rig_until_drained(&rig);
    int before_now = 0, before_few = 0;
    for (int i = 0; i < BULK; i++) {
        before_now += finished_at("bulk", i) < finished_at("now", FEW - 1);
        before_few += finished_at("bulk", i) < finished_at("few", FEW - 1);
    }
    assert_true(before_now <= 2);                 /* what the engine had */
    assert_in_range(before_few, 1, BULK * 2 / 3); /* its turns, not behind them all */
}

/* ---- topics ---- */

/* The engine gets on with nothing; the flood fills what is common, and no more. */
static void keeps_room_for_each_topic_and_each_of_its_partitions(void **state) {
    enum { FLOOD = 400, SLOTS = 160 };
    static const struct engine_null_options large = {.max_queue_size = 1000};
    static const char *const words[] = {"--topics",
                                        "urgent.share,solfleet.jobs.share",
                                        "--high-water",
                                        "160",
                                        "--low-water",
                                        "100",
                                        "--max-queue-size",
                                        "1000",
                                        NULL};
    char id[32];
    worker_rig_make_topic(&rig, "urgent.share");
    start("share", words, true, &large);
    for (int i = 0; i < FLOOD; i++) {
        snprintf(id, sizeof id, "flood-%d", i);
        worker_rig_produce_to(&rig, "solfleet.jobs.share", 0, id);
    }
    worker_rig_flush(&rig);
    /* Its own 40 are a quarter each of four partitions; of the common 80 it may have half. */
    STEP_WHILE(worker_rig_stats(&rig).in_flight < 10 + 40);
    for (int i = 0; i < 30; i++) {
        worker_rig_step(&rig);
    }
    uint32_t flooded = worker_rig_stats(&rig).in_flight;
    assert_true(flooded < SLOTS);
    for (int i = 0; i < 8; i++) {
        snprintf(id, sizeof id, "urgent-%d", i);
        worker_rig_produce_to(&rig, "urgent.share", i % WORKER_RIG_PARTITIONS, id);
        snprintf(id, sizeof id, "beside-%d", i);
        worker_rig_produce_to(&rig, "solfleet.jobs.share", 1, id);
    }
    worker_rig_flush(&rig);
    STEP_WHILE(worker_rig_stats(&rig).in_flight < flooded + 16); /* though nothing has ended */
    worker_rig_release(&rig);
    for (int i = 0; i < FLOOD + 16; i++) {
        struct result result = next_result();
        assert_int_equal(result.status, RESULT_DONE);
        result_deinit(&result);
    }
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).done, FLOOD + 16);
    assert_int_equal(worker_rig_committed(&rig, "share", 0), FLOOD);
    assert_int_equal(worker_rig_committed(&rig, "share", 1), 8);
}

static void says_of_which_topic_a_dead_letter_is(void **state) {
    static const char *const words[] = {"--topics", "urgent.letter,solfleet.jobs.letter", NULL};
    worker_rig_make_topic(&rig, "urgent.letter");
    start("letter", words, false, NULL);
    worker_rig_produce(&rig, 3, NULL, "{", 1, NULL);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_true(worker_rig_has_header(&letter, "solfleet-topic", "solfleet.jobs.letter"));
    assert_true(worker_rig_has_header(&letter, "solfleet-partition", "3"));
    worker_rig_free(&letter);
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_committed(&rig, "letter", 3), 1);
}

/* ---- cancels ---- */

static void cancel(const char *id, enum status_state expected) {
    char address[64], err[256] = "";
    struct status_client *client = NULL;
    enum status_state state = STATUS_DONE;
    snprintf(address, sizeof address, "127.0.0.1:%d", rig.redis.port);
    assert_int_equal(status_client_open(address, "solfleet:", 2000, &client, err, sizeof err),
                     STATUS_CLIENT_OK);
    assert_int_equal(status_client_cancel(client, &id, 1, 3600, &state, err, sizeof err),
                     STATUS_CLIENT_OK);
    assert_int_equal(state, expected);
    status_client_close(client);
}

static void cancels_a_job_before_it_comes(void **state) {
    struct engine_stats stats;
    start("before", NULL, false, NULL);
    worker_rig_queue(&rig, "queued");
    cancel("queued", STATUS_QUEUED);
    cancel("unheard-of", STATUS_UNKNOWN);
    worker_rig_produce_job(&rig, "queued");
    expect_result("queued", RESULT_CANCELLED, ERROR_CANCELLED);
    worker_rig_produce_job(&rig, "unheard-of");
    expect_result("unheard-of", RESULT_CANCELLED, ERROR_CANCELLED);
    worker_rig_until_drained(&rig);
    expect_status("queued", "state", "cancelled");
    expect_status("unheard-of", "state", "cancelled");
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.requests_total, 0);
    assert_int_equal(worker_rig_stats(&rig).cancelled, 2);
}

static void cancels_a_job_while_it_runs_as_soon_as_it_is_told(void **state) {
    static const struct engine_null_options slow = {.delay_us = 3600000000LL};
    start("during", NULL, false, &slow);
    worker_rig_produce_job(&rig, "runs");
    STEP_WHILE(!status_is("runs", "running"));
    int64_t start_ms = now_ms();
    cancel("runs", STATUS_RUNNING);
    cancel("runs", STATUS_RUNNING); /* twice is once */
    expect_result("runs", RESULT_CANCELLED, ERROR_CANCELLED);
    assert_true(now_ms() - start_ms < 10000); /* no renewal of a lease in that time */
    worker_rig_until_drained(&rig);
    expect_status("runs", "state", "cancelled");
    cancel("runs", STATUS_CANCELLED);
    for (int i = 0; i < 20; i++) {
        worker_rig_step(&rig);
    }
    assert_true(worker_rig_has_no_result(&rig));
}

static void cancels_at_the_next_renewal_when_the_message_was_lost(void **state) {
    static const struct engine_null_options slow = {.delay_us = 3600000000LL};
    static const char *const words[] = {"--kafka.session.timeout.ms", "6000", NULL};
    start("lost", words, false, &slow);
    worker_rig_produce_job(&rig, "deaf");
    STEP_WHILE(worker_rig_stats(&rig).in_engine == 0);
    worker_rig_redis(&rig, "HSET solfleet:job:{deaf} cancel_requested 1");
    expect_result("deaf", RESULT_CANCELLED, ERROR_CANCELLED);
    worker_rig_until_drained(&rig);
    expect_status("deaf", "state", "cancelled");
}

static void changes_nothing_about_a_job_that_has_ended(void **state) {
    start("after", NULL, false, NULL);
    worker_rig_produce_job(&rig, "ended");
    expect_result("ended", RESULT_DONE, ERROR_NONE);
    worker_rig_until_drained(&rig);
    cancel("ended", STATUS_DONE);
    worker_rig_produce_job(&rig, "ended"); /* comes again: answered before */
    STEP_WHILE(worker_rig_stats(&rig).duplicates == 0);
    worker_rig_until_drained(&rig);
    expect_status("ended", "state", "done");
    assert_true(worker_rig_has_no_result(&rig));
    assert_null(worker_rig_status(&rig, "ended", "cancel_requested"));
}

/* The worker that ran it died after the wish and before it heard of it; its record comes again. */
static void remembers_a_cancel_over_a_redelivery(void **state) {
    struct engine_stats stats;
    start("redelivery", NULL, false, NULL);
    worker_rig_redis(&rig, "HSET solfleet:job:{again} state running attempt 1 running_attempt 1 "
                           "owner dead/0123456789abcdef claim 0:0:1 lease_until 1000");
    cancel("again", STATUS_RUNNING);
    worker_rig_produce_job(&rig, "again");
    struct result result = next_result();
    assert_int_equal(result.status, RESULT_CANCELLED);
    assert_int_equal(result.attempt, 2);
    result_deinit(&result);
    worker_rig_until_drained(&rig);
    expect_status("again", "state", "cancelled");
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.requests_total, 0);
}

static int setup(void **state) {
    worker_rig_open(&rig);
    return 0;
}

static int teardown(void **state) {
    worker_rig_close(&rig);
    return 0;
}

static int stop(void **state) {
    worker_rig_stop(&rig);
    return 0;
}

#define WITH_WORKER(test) cmocka_unit_test_teardown(test, stop)

TEST_MAIN_WITH(setup, teardown,
               WITH_WORKER(expires_what_is_past_its_deadline_on_arrival_without_the_engine),
               WITH_WORKER(takes_a_record_from_the_future_for_one_of_now),
               WITH_WORKER(expires_thousands_on_time_while_the_engine_is_in_a_step),
               WITH_WORKER(cuts_what_runs_at_its_deadline),
               WITH_WORKER(gives_the_engine_what_is_urgent_first_and_tenants_in_turn),
               WITH_WORKER(keeps_room_for_each_topic_and_each_of_its_partitions),
               WITH_WORKER(says_of_which_topic_a_dead_letter_is),
               WITH_WORKER(cancels_a_job_before_it_comes),
               WITH_WORKER(cancels_a_job_while_it_runs_as_soon_as_it_is_told),
               WITH_WORKER(cancels_at_the_next_renewal_when_the_message_was_lost),
               WITH_WORKER(changes_nothing_about_a_job_that_has_ended),
               WITH_WORKER(remembers_a_cancel_over_a_redelivery))
