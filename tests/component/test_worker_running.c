/* The worker and what runs in its engine: records that join, leases that are lost, jobs that are
 * called off, suspects alone, an engine that fails, partitions that go, the farewell. A worker for
 * each case. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker.h"
#include "engine/clock.h"
#include "schemas/result.h"
#include "tests/support/test.h"
#include "tests/support/worker_rig.h"

#define FAR "99999999999999"    /* a lease that never lapses */
#define ENDLESS_US 3600000000LL /* what runs ends only when it is stopped */
#define PRODUCE(id) worker_rig_produce_job(&rig, id)

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

/* A short session, so that leases are renewed often. */
static const char *const short_lease[] = {"--kafka.session.timeout.ms", "4000", NULL};

static void start_worker(const char *group, const char *const *words, int64_t delay_us) {
    struct engine_null_options engine = {.answer_bytes = 8, .delay_us = delay_us};
    worker_rig_start(&rig, group, words, &engine);
    worker_rig_until_ready(&rig);
}

static bool status_is(const char *id, const char *field, const char *expected) {
    char *value = worker_rig_status(&rig, id, field);
    bool same = expected == NULL ? value == NULL : value != NULL && strcmp(value, expected) == 0;
    free(value);
    return same;
}

static void expect_result(const char *id, const char *status) {
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, id);
    assert_true(worker_rig_has_header(&record, "status", status));
    worker_rig_free(&record);
}

static int64_t committed_sum(const char *group) {
    int64_t sum = 0;
    for (int32_t i = 0; i < WORKER_RIG_PARTITIONS; i++) {
        int64_t offset = worker_rig_committed(&rig, group, i);
        sum += offset > 0 ? offset : 0;
    }
    return sum;
}

/* ---- beside each other ---- */

static void answers_all_records_of_a_job_that_runs_by_one_result(void **state) {
    start_worker("join", short_lease, ENDLESS_US);
    for (int32_t i = 0; i < 4; i++) {
        static const char value[] = "{\"request_id\": \"twin\", \"prompt\": \"x\"}";
        worker_rig_produce(&rig, i % WORKER_RIG_PARTITIONS, NULL, value, sizeof value - 1, NULL);
        STEP_WHILE(worker_rig_stats(&rig).in_engine == 0);
    }
    STEP_WHILE(worker_rig_stats(&rig).joined < 3);
    assert_int_equal(worker_rig_stats(&rig).in_engine, 1);
    worker_rig_redis(&rig, "HSET solfleet:job:{twin} cancel_requested 1");
    expect_result("twin", "cancelled");
    worker_rig_until_drained(&rig);
    assert_int_equal(committed_sum("join"), 4);
    assert_true(worker_rig_has_no_result(&rig));
    assert_true(status_is("twin", "state", "cancelled"));
}

static void keeps_the_lease_of_what_runs(void **state) {
    start_worker("renew", short_lease, ENDLESS_US);
    PRODUCE("long");
    STEP_WHILE(worker_rig_stats(&rig).in_engine == 0);
    char *first = worker_rig_status(&rig, "long", "lease_until");
    assert_non_null(first);
    STEP_WHILE(status_is("long", "lease_until", first));
    free(first);
    assert_int_equal(worker_rig_stats(&rig).leases_lost, 0);
}

static void stops_what_it_runs_when_its_lease_is_lost_and_waits_for_the_other(void **state) {
    start_worker("lost", short_lease, ENDLESS_US);
    PRODUCE("taken");
    STEP_WHILE(!status_is("taken", "state", "running"));
    worker_rig_redis(&rig, "HSET solfleet:job:{taken} owner other/1 attempt 2 claim 9:9:9 "
                           "lease_until " FAR);
    STEP_WHILE(worker_rig_stats(&rig).parked == 0);
    struct worker_stats stats = worker_rig_stats(&rig);
    assert_int_equal(stats.leases_lost, 1);
    assert_int_equal(stats.in_engine, 0);
    worker_rig_redis(&rig, "HSET solfleet:job:{taken} state done");
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).duplicates, 1);
    assert_true(worker_rig_has_no_result(&rig));
    assert_int_equal(committed_sum("lost"), 1);
}

/* Those that are said to run now: had they died, it would count as their death. */
static unsigned suspects_said_to_run(unsigned count) {
    unsigned said = 0;
    for (unsigned i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "suspect-%u", i);
        said += status_is(id, "running_attempt", "2");
    }
    return said;
}

/* Asserts that a suspect has none, and that those behind it do not look as if they ran, too. */
static bool look_for_company(unsigned *alone_count) {
    struct worker_stats stats = worker_rig_stats(&rig);
    assert_true(!stats.is_alone || stats.in_engine == 1);
    if (stats.is_alone && (*alone_count)++ == 0) {
        assert_int_equal(suspects_said_to_run(3), 1);
    }
    return true;
}

static void runs_suspects_alone_one_at_a_time(void **state) {
    start_worker("suspects", NULL, 20000);
    for (int i = 0; i < 3; i++) {
        worker_rig_redis(&rig,
                         "HSET solfleet:job:{suspect-%d} state running owner rig/1 attempt 1 "
                         "running_attempt 1 lease_until " FAR,
                         i);
    }
    unsigned alone_steps = 0;
    for (int i = 0; i < 12; i++) {
        char id[32];
        snprintf(id, sizeof id, i % 4 == 0 ? "suspect-%d" : "innocent-%d", i % 4 == 0 ? i / 4 : i);
        PRODUCE(id);
    }
    STEP_WHILE(worker_rig_stats(&rig).done < 12 && look_for_company(&alone_steps));
    assert_true(alone_steps >= 3);
    worker_rig_until_drained(&rig);
    assert_true(status_is("suspect-2", "deaths", "1"));
    assert_true(status_is("suspect-2", "attempt", "2"));
}

/* Given back by another before: no more of them are said to run than can. */
static void says_of_no_more_jobs_that_they_run_than_can(void **state) {
    static const char *const words[] = {"--max-batch-size", "2", NULL};
    for (int i = 0; i < 5; i++) {
        worker_rig_redis(&rig, "HSET solfleet:job:{second-%d} state running attempt 1", i);
    }
    start_worker("second", words, ENDLESS_US);
    for (int i = 0; i < 5; i++) {
        char id[32];
        snprintf(id, sizeof id, "second-%d", i);
        PRODUCE(id);
    }
    STEP_WHILE(worker_rig_stats(&rig).in_flight < 3 || worker_rig_stats(&rig).in_engine < 2);
    unsigned said = 0;
    for (int i = 0; i < 5; i++) {
        char id[32];
        snprintf(id, sizeof id, "second-%d", i);
        said += status_is(id, "running_attempt", "2");
    }
    assert_int_equal(said, 2);
    assert_int_equal(worker_rig_stats(&rig).in_engine, 2);
}

/* Far more than the worker holds, all of them with another worker. */
static void stops_consuming_when_too_many_are_parked(void **state) {
    static const char *const words[] = {"--high-water", "50", NULL};
    enum { RECORDS = 900 };
    start_worker("crowd", words, 0);
    worker_rig_redis(&rig, "EVAL %s 0",
                     "for i = 1, 900 do redis.call('HSET', 'solfleet:job:{crowd-' .. i "
                     ".. '}', 'state', 'running', 'owner', 'other/1', 'attempt', 1, "
                     "'lease_until', " FAR ") end");
    for (int i = 1; i <= RECORDS; i++) {
        char id[32];
        snprintf(id, sizeof id, "crowd-%d", i);
        PRODUCE(id);
    }
    STEP_WHILE(!worker_rig_stats(&rig).is_full || worker_rig_stats(&rig).parked < 50);
    for (int i = 0; i < 100; i++) {
        worker_rig_step(&rig);
        assert_in_range(worker_rig_stats(&rig).in_flight, 50, 50 + 256); /* one poll more */
    }
    worker_rig_redis(&rig, "EVAL %s 0",
                     "for i = 1, 900 do redis.call('HSET', 'solfleet:job:{crowd-' .. i "
                     ".. '}', 'state', 'done') end");
    STEP_WHILE(worker_rig_stats(&rig).duplicates < RECORDS);
    worker_rig_until_drained(&rig);
    assert_int_equal(committed_sum("crowd"), RECORDS);
}

/* Redis hangs until the job is in the engine, which takes its claim as NEW. */
static void claim_late(const char *id) {
    uint64_t duplicates = worker_rig_stats(&rig).duplicates;
    worker_rig_redis(&rig, "HSET solfleet:job:{in-time} state done");
    PRODUCE("in-time"); /* so that claims are not yet given up on */
    STEP_WHILE(worker_rig_stats(&rig).duplicates == duplicates);
    redis_server_pause(&rig.redis);
    PRODUCE(id);
    STEP_WHILE(worker_rig_stats(&rig).in_engine == 0);
    redis_server_resume(&rig.redis);
}

static void heeds_an_answer_to_its_claim_that_comes_late(void **state) {
    static const char *const words[] = {"--redis.claim-timeout-ms",
                                        "50",
                                        "--redis.timeout-ms",
                                        "10000",
                                        "--kafka.session.timeout.ms",
                                        "4000",
                                        NULL};
    start_worker("late", words, ENDLESS_US);
    worker_rig_redis(&rig, "HSET solfleet:job:{late-done} state done");
    claim_late("late-done");
    STEP_WHILE(worker_rig_stats(&rig).in_engine > 0);
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).duplicates, 2);

    worker_rig_redis(&rig,
                     "HSET solfleet:job:{late-sealed} state running sealed done finished_at 5 "
                     "result sealed-before attempt 1 owner other/1 lease_until 1");
    claim_late("late-sealed");
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.value, "sealed-before");
    worker_rig_free(&record);
    worker_rig_until_drained(&rig);

    worker_rig_redis(&rig, "HSET solfleet:job:{late-conflict} state done fingerprint another");
    claim_late("late-conflict");
    record = worker_rig_next_letter(&rig);
    assert_true(worker_rig_has_header(&record, "solfleet-code", "conflict"));
    worker_rig_free(&record);
    worker_rig_until_drained(&rig);

    claim_late("late-new");
    STEP_WHILE(status_is("late-new", "lease_until", NULL));
    char *first = worker_rig_status(&rig, "late-new", "lease_until");
    STEP_WHILE(status_is("late-new", "lease_until", first)); /* its attempt is known, and renewed */
    free(first);
    assert_int_equal(worker_rig_stats(&rig).in_engine, 1);
    assert_true(worker_rig_has_no_result(&rig));
}

/* Redis, restarted empty, knows the second record only. */
static void gives_an_id_to_the_record_that_redis_knows(void **state) {
    static const char other[] = "{\"request_id\": \"mine\", \"prompt\": \"something else\"}";
    static const char *const words[] = {"--redis.timeout-ms", "300", NULL};
    start_worker("claimants", words, 1500000);
    PRODUCE("mine");
    STEP_WHILE(!status_is("mine", "state", "running"));
    redis_server_kill(&rig.redis);
    STEP_WHILE(worker_rig_stats(&rig).store.is_up);
    redis_server_restart(&rig.redis);
    STEP_WHILE(!worker_rig_stats(&rig).store.is_up);
    worker_rig_produce(&rig, 0, NULL, other, sizeof other - 1, NULL);
    STEP_WHILE(worker_rig_stats(&rig).in_engine < 2);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.key, "mine"); /* the first has its key */
    assert_true(worker_rig_has_header(&letter, "solfleet-code", "conflict"));
    worker_rig_free(&letter);
    expect_result("mine", "done");
    worker_rig_until_drained(&rig);
    assert_true(worker_rig_has_no_result(&rig));
    assert_int_equal(worker_rig_stats(&rig).joined, 0);
}

/* ---- an engine that fails ---- */

static void tries_a_job_again_that_the_engine_failed(void **state) {
    static const struct engine_null_options faulty = {.answer_bytes = 8, .break_first = 2};
    worker_rig_start(&rig, "again", NULL, &faulty);
    worker_rig_until_ready(&rig);
    PRODUCE("again");
    expect_result("again", "done");
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).engine_failures, 2);
    assert_true(status_is("again", "attempt", "1")); /* it was never anybody else's */
}

/* Steps until the worker says that it has failed. */
static void step_until_failed(const char *why) {
    char err[256];
    enum worker_status status = WORKER_OK;
    for (int64_t end = now_ms() + WORKER_RIG_WAIT_MS_MAX; status == WORKER_OK;) {
        assert_true(now_ms() < end);
        status = worker_step(rig.worker, 5, err, sizeof err);
    }
    assert_int_equal(status, WORKER_FAILED);
    assert_non_null(strstr(err, why));
}

static void gives_up_on_an_engine_that_fails_three_times_in_a_row(void **state) {
    static const struct engine_null_options broken = {.answer_bytes = 8, .break_first = 1000};
    worker_rig_start(&rig, "broken", NULL, &broken);
    worker_rig_until_ready(&rig);
    PRODUCE("first");
    STEP_WHILE(worker_rig_stats(&rig).engine_failures < 2);
    PRODUCE("second");
    step_until_failed("3 times in a row");
    assert_false(worker_rig_stats(&rig).is_ready);
    worker_drain(rig.worker);
    worker_rig_until_drained(&rig);
    assert_true(worker_rig_stats(&rig).given_back_in_drain >= 1);
    assert_true(status_is("second", "owner", NULL));
    assert_true(status_is("second", "deaths", NULL));
}

static void gives_everything_back_when_the_engine_has_died(void **state) {
    static const struct engine_null_options dying = {
        .answer_bytes = 8, .delay_us = 100000, .fail_after = 1};
    worker_rig_start(&rig, "dead", NULL, &dying);
    worker_rig_until_ready(&rig);
    PRODUCE("last");
    PRODUCE("beside-1");
    PRODUCE("beside-2");
    step_until_failed("fail_after");
    worker_drain(rig.worker);
    worker_rig_until_drained(&rig);
    struct worker_stats stats = worker_rig_stats(&rig);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.done + stats.given_back_in_drain, 3);
    assert_true(status_is("beside-2", "owner", NULL));
}

/* ---- farewells ---- */

static void poll_member(rd_kafka_t *member) {
    rd_kafka_message_t *message = rd_kafka_consumer_poll(member, 0);
    if (message != NULL) {
        rd_kafka_message_destroy(message);
    }
}

static bool keeps_on(rd_kafka_t *member) {
    poll_member(member);
    return true;
}

static void lets_what_runs_go_on_for_its_grace_when_its_partition_goes(void **state) {
    static const char *const words[] = {"--kafka.session.timeout.ms", "6000", "--revoke-grace-ms",
                                        "5000", NULL}; /* longer than a rebalance there */
    start_worker("grace", words, ENDLESS_US);
    for (int32_t i = 0; i < WORKER_RIG_PARTITIONS; i++) {
        char value[96];
        snprintf(value, sizeof value, "{\"request_id\": \"runs-%d\", \"prompt\": \"x\"}", i);
        worker_rig_produce(&rig, i, NULL, value, strlen(value), NULL);
    }
    STEP_WHILE(!status_is("runs-0", "state", "running") ||
               !status_is("runs-3", "state", "running"));
    rd_kafka_t *member = worker_rig_join(&rig, "grace");
    STEP_WHILE(worker_rig_stats(&rig).source.partition_count == WORKER_RIG_PARTITIONS &&
               keeps_on(member));
    assert_int_equal(worker_rig_stats(&rig).in_engine, WORKER_RIG_PARTITIONS);
    STEP_WHILE(worker_rig_stats(&rig).joined < WORKER_RIG_PARTITIONS / 2 && keeps_on(member));
    assert_int_equal(worker_rig_stats(&rig).given_back, 0);
    STEP_WHILE(worker_rig_stats(&rig).in_engine > WORKER_RIG_PARTITIONS / 2 && keeps_on(member));
    int free_count = 0;
    for (int i = 0; i < WORKER_RIG_PARTITIONS; i++) {
        char id[24];
        snprintf(id, sizeof id, "runs-%d", i);
        free_count += status_is(id, "owner", NULL);
        assert_true(status_is(id, "deaths", NULL)); /* giving back is no death */
    }
    assert_int_equal(free_count, WORKER_RIG_PARTITIONS / 2);
    rd_kafka_consumer_close(member);
    rd_kafka_destroy(member);
}

static int running_count(int count) {
    int running = 0;
    for (int i = 0; i < count; i++) {
        char id[24];
        snprintf(id, sizeof id, "leave-%d", i);
        running += status_is(id, "state", "running");
    }
    return running;
}

/* With room for two in the engine: what waits goes back at once, what runs is finished. */
static void leaves_first_and_finishes_what_runs_after(void **state) {
    static const struct engine_null_options small = {
        .max_queue_size = 2, .answer_bytes = 8, .delay_us = 1000000};
    static const char *const words[] = {"--max-queue-size", "2", "--max-batch-size", "1", NULL};
    worker_rig_start(&rig, "leave", words, &small);
    worker_rig_until_ready(&rig);
    for (int i = 0; i < 5; i++) {
        char id[24];
        snprintf(id, sizeof id, "leave-%d", i);
        PRODUCE(id);
    }
    STEP_WHILE(running_count(5) < 2 || worker_rig_stats(&rig).in_flight == 2);
    uint32_t waiting_count = worker_rig_stats(&rig).in_flight - 2;
    worker_drain(rig.worker);
    worker_rig_step(&rig);
    assert_int_equal(worker_rig_stats(&rig).given_back, waiting_count); /* before they have left */
    assert_int_equal(worker_rig_stats(&rig).in_flight, 2);
    worker_rig_until_drained(&rig);
    struct worker_stats stats = worker_rig_stats(&rig);
    assert_int_equal(stats.source.partition_count, 0);
    assert_int_equal(stats.done, 2);
    assert_int_equal(stats.given_back_in_drain, waiting_count);
    for (int i = 0; i < 2; i++) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        assert_true(worker_rig_has_header(&record, "status", "done"));
        assert_true(status_is(record.key, "state", "done"));
        worker_rig_free(&record);
    }
    assert_true(worker_rig_has_no_result(&rig));
}

static void finishes_first_and_leaves_after_when_redis_is_away(void **state) {
    static const char *const words[] = {"--redis.claim-timeout-ms", "30", "--redis.timeout-ms",
                                        "300", NULL};
    start_worker("away", words, 300000);
    PRODUCE("away-0");
    PRODUCE("away-1");
    STEP_WHILE(worker_rig_stats(&rig).in_engine < 2);
    redis_server_kill(&rig.redis);
    STEP_WHILE(worker_rig_stats(&rig).store.is_up);
    worker_drain(rig.worker);
    STEP_WHILE(worker_rig_stats(&rig).done < 2 &&
               worker_rig_stats(&rig).source.partition_count > 0);
    assert_int_equal(worker_rig_stats(&rig).done, 2); /* while the partitions were still ours */
    worker_rig_until_drained(&rig);
    assert_int_equal(committed_sum("away"), 2);
    redis_server_restart(&rig.redis);
}

static void gives_back_what_a_drain_has_no_time_for(void **state) {
    static const char *const words[] = {"--drain-timeout-ms", "200", NULL};
    start_worker("drain", words, ENDLESS_US);
    PRODUCE("endless");
    STEP_WHILE(!status_is("endless", "state", "running"));
    worker_drain(rig.worker);
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).given_back_in_drain, 1);
    assert_true(status_is("endless", "owner", NULL));
    assert_true(status_is("endless", "deaths", NULL));
    assert_true(worker_rig_has_no_result(&rig));
}

static void forgets_parked_jobs_when_it_drains(void **state) {
    start_worker("parked", NULL, 0);
    worker_rig_redis(&rig, "HSET solfleet:job:{parked} state running owner other/1 attempt 1 "
                           "lease_until " FAR);
    PRODUCE("parked");
    STEP_WHILE(worker_rig_stats(&rig).parked == 0);
    worker_drain(rig.worker);
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).given_back, 0); /* it never was its to give */
    assert_true(status_is("parked", "owner", "other/1"));
}

/* ---- the rest ---- */

static int open_rig(void **state) {
    worker_rig_open(&rig);
    return 0;
}

static int close_rig(void **state) {
    worker_rig_close(&rig);
    return 0;
}

/* The topics are those of all cases: nothing is left for the next. */
static int stop_worker(void **state) {
    worker_rig_stop(&rig);
    while (!worker_rig_has_no_result(&rig)) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        worker_rig_free(&record);
    }
    return 0;
}

#define CASE(name) cmocka_unit_test_teardown(name, stop_worker)
TEST_MAIN_WITH(open_rig, close_rig, CASE(answers_all_records_of_a_job_that_runs_by_one_result),
               CASE(keeps_the_lease_of_what_runs),
               CASE(stops_what_it_runs_when_its_lease_is_lost_and_waits_for_the_other),
               CASE(runs_suspects_alone_one_at_a_time),
               CASE(says_of_no_more_jobs_that_they_run_than_can),
               CASE(stops_consuming_when_too_many_are_parked),
               CASE(heeds_an_answer_to_its_claim_that_comes_late),
               CASE(gives_an_id_to_the_record_that_redis_knows),
               CASE(tries_a_job_again_that_the_engine_failed),
               CASE(gives_up_on_an_engine_that_fails_three_times_in_a_row),
               CASE(gives_everything_back_when_the_engine_has_died),
               CASE(lets_what_runs_go_on_for_its_grace_when_its_partition_goes),
               CASE(leaves_first_and_finishes_what_runs_after),
               CASE(finishes_first_and_leaves_after_when_redis_is_away),
               CASE(gives_back_what_a_drain_has_no_time_for),
               CASE(forgets_parked_jobs_when_it_drains))
