/* The worker when something around it fails: Redis, the brokers, the group, the engine. */
#include "consumer/worker.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void start_worker(const char *group, const char *const *words,
                         const struct engine_null_options *engine) {
    worker_rig_start(&rig, group, words, engine);
    worker_rig_until_ready(&rig);
}

static void produce_jobs(const char *stem, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char id[64];
        snprintf(id, sizeof id, "%s-%u", stem, i);
        worker_rig_produce_job(&rig, id);
    }
}

static void expect_results(unsigned count, const char *status) {
    for (unsigned i = 0; i < count; i++) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        assert_true(worker_rig_has_header(&record, "status", status));
        worker_rig_free(&record);
    }
}

static bool status_is(const char *id, const char *state) {
    char *value = worker_rig_status(&rig, id, "state");
    bool same = value != NULL && strcmp(value, state) == 0;
    free(value);
    return same;
}

static int64_t committed_sum(const char *group) {
    int64_t sum = 0;
    for (int32_t i = 0; i < WORKER_RIG_PARTITIONS; i++) {
        int64_t offset = worker_rig_committed(&rig, group, i);
        sum += offset > 0 ? offset : 0;
    }
    return sum;
}

/* One worker after the other loses Redis, has it hang, and loses the brokers. */
static void serves_on_without_redis_and_catches_up(void **state) {
    static const char *const words[] = {"--redis.claim-timeout-ms", "30", "--redis.timeout-ms",
                                        "300", NULL};
    start_worker("redis", words, NULL);

    redis_server_kill(&rig.redis);
    STEP_WHILE(worker_rig_stats(&rig).store.is_up);
    produce_jobs("away", 5);
    expect_results(5, "done");
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).store.backlog_count, 5);
    redis_server_restart(&rig.redis);
    STEP_WHILE(!status_is("away-0", "done") || !status_is("away-4", "done"));
    assert_int_equal(worker_rig_stats(&rig).store.dropped_total, 0);

    redis_server_pause(&rig.redis);
    produce_jobs("hung", 5);
    expect_results(5, "done");
    worker_rig_until_drained(&rig);
    redis_server_resume(&rig.redis);
    STEP_WHILE(!status_is("hung-0", "done") || !status_is("hung-4", "done"));

    produce_jobs("well", 5);
    expect_results(5, "done");
    worker_rig_until_drained(&rig);
    assert_true(status_is("well-4", "done"));
    assert_int_equal(committed_sum("redis"), 15);
}

static void waits_for_the_brokers_and_loses_nothing(void **state) {
    rig.holds_engine = true;
    start_worker("brokers", NULL, NULL);
    produce_jobs("down", 8);
    STEP_WHILE(worker_rig_stats(&rig).in_flight < 8);
    worker_rig_broker_down(&rig);
    worker_rig_release(&rig);
    for (int i = 0; i < 50; i++) {
        worker_rig_step(&rig);
    }
    assert_int_equal(worker_rig_stats(&rig).done, 0);
    assert_int_equal(worker_rig_stats(&rig).in_flight, 8);
    worker_rig_broker_up(&rig);
    expect_results(8, "done");
    worker_rig_until_drained(&rig);
    assert_int_equal(committed_sum("brokers"), 8);
    produce_jobs("up", 3);
    expect_results(3, "done");
    worker_rig_until_drained(&rig);
}

static void pauses_while_the_engine_is_busy_and_cuts_results_to_size(void **state) {
    static const struct engine_null_options small = {
        .max_queue_size = 3, .delay_us = 2000, .answer_bytes = 6000};
    static const char *const words[] = {
        "--max-queue-size", "3", "--max-batch-size", "2", "--max-message-bytes", "4096", NULL};
    start_worker("busy", words, &small);
    produce_jobs("busy", 60);
    STEP_WHILE(!worker_rig_stats(&rig).is_full);
    for (unsigned i = 0; i < 60; i++) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        struct result result;
        struct job_error error;
        assert_true(worker_rig_has_header(&record, "status", "done"));
        assert_int_equal(result_decode(record.value, record.value_bytes, &result, &error), 0);
        assert_true(result.truncated);
        result_deinit(&result);
        worker_rig_free(&record);
    }
    worker_rig_until_drained(&rig);
    STEP_WHILE(worker_rig_stats(&rig).is_full);
    assert_true(status_is("busy-59", "done"));
}

/* Keeps the member in its group; true when it has so many partitions. */
static bool member_has(rd_kafka_t *member, int count) {
    rd_kafka_topic_partition_list_t *list = NULL;
    rd_kafka_message_t *message = rd_kafka_consumer_poll(member, 0);
    if (message != NULL) {
        rd_kafka_message_destroy(message);
    }
    assert_int_equal(rd_kafka_assignment(member, &list), 0);
    bool has = list->cnt == count;
    rd_kafka_topic_partition_list_destroy(list);
    return has;
}

/* What has not begun goes back at once; where its record comes again it goes on here. */
static void gives_back_what_has_not_begun_when_its_partition_goes(void **state) {
    static const char *const words[] = {"--kafka.session.timeout.ms", "6000", NULL};
    rig.holds_engine = true;
    start_worker("revoke", words, NULL);
    for (int32_t i = 0; i < 40; i++) {
        char id[32], value[128];
        snprintf(id, sizeof id, "gone-%d", i);
        snprintf(value, sizeof value, "{\"request_id\": \"%s\", \"prompt\": \"x\"}", id);
        worker_rig_produce(&rig, i % WORKER_RIG_PARTITIONS, id, value, strlen(value), NULL);
    }
    STEP_WHILE(worker_rig_stats(&rig).in_engine < 40);
    rd_kafka_t *member = worker_rig_join(&rig, "revoke");
    STEP_WHILE(!member_has(member, WORKER_RIG_PARTITIONS / 2) ||
               worker_rig_stats(&rig).joined < 20);
    worker_rig_release(&rig);
    expect_results(20, "done");
    worker_rig_until_drained(&rig);
    assert_true(worker_rig_stats(&rig).given_back >= 20); /* a second rebalance may follow */
    assert_int_equal(committed_sum("revoke"), 20);
    assert_true(worker_rig_has_no_result(&rig));

    /* The others come back, and are new to everybody. */
    rd_kafka_consumer_close(member);
    rd_kafka_destroy(member);
    expect_results(20, "done");
    worker_rig_until_drained(&rig);
    assert_int_equal(committed_sum("revoke"), 40);
    assert_true(worker_rig_has_no_result(&rig));
}

static void fails_one_job_of_many_and_stops_when_the_engine_has_failed(void **state) {
    static const struct engine_null_options faulty = {
        .answer_bytes = 8, .error_every = 5, .fail_after = 14};
    start_worker("engine", NULL, &faulty);
    produce_jobs("fault", 10);
    unsigned done = 0, failed = 0;
    for (unsigned i = 0; i < 10; i++) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        done += worker_rig_has_header(&record, "status", "done");
        failed += worker_rig_has_header(&record, "status", "failed");
        worker_rig_free(&record);
    }
    assert_int_equal(done, 8);
    assert_int_equal(failed, 2);
    produce_jobs("last", 10);
    char err[256];
    enum worker_status status = WORKER_OK;
    for (int64_t end = now_ms() + WORKER_RIG_WAIT_MS_MAX; status == WORKER_OK;) {
        assert_true(now_ms() < end);
        status = worker_step(rig.worker, 5, err, sizeof err);
    }
    assert_int_equal(status, WORKER_FAILED);
    assert_memory_equal(err, "engine: ", 8);
}

static int open_rig(void **state) {
    worker_rig_open(&rig);
    return 0;
}

static int close_rig(void **state) {
    worker_rig_close(&rig);
    return 0;
}

static int stop_worker(void **state) {
    worker_rig_stop(&rig);
    return 0;
}

#define CASE(name) cmocka_unit_test_teardown(name, stop_worker)
TEST_MAIN_WITH(open_rig, close_rig, CASE(serves_on_without_redis_and_catches_up),
               CASE(waits_for_the_brokers_and_loses_nothing),
               CASE(pauses_while_the_engine_is_busy_and_cuts_results_to_size),
               CASE(gives_back_what_has_not_begun_when_its_partition_goes),
               CASE(fails_one_job_of_many_and_stops_when_the_engine_has_failed))
