/* The worker and jobs that others have, have ended, or have died of: each answer to a claim. What
 * another process did is written into Redis by hand. One worker for all cases; its lease is short,
 * its engine answers at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker.h"
#include "engine/clock.h"
#include "schemas/result.h"
#include "tests/support/test.h"
#include "tests/support/worker_rig.h"

#define GROUP "test-worker-claims"
#define FAR "99999999999999" /* a lease that never lapses */

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

/* As another process left it: owner, lease, attempt, the attempt that ran, deaths. */
static void held(const char *id, const char *owner, const char *lease_until, const char *attempt,
                 const char *running_attempt, const char *deaths) {
    worker_rig_redis(&rig,
                     "HSET solfleet:job:{%s} state running queued_at 1 owner %s claim 0:0:1 "
                     "lease_until %s attempt %s running_attempt %s deaths %s",
                     id, owner, lease_until, attempt, running_attempt, deaths);
}

static void expect_status(const char *id, const char *field, const char *expected) {
    char *value = worker_rig_status(&rig, id, field);
    if (expected == NULL) {
        assert_null(value);
    } else {
        assert_non_null(value);
        assert_string_equal(value, expected);
    }
    free(value);
}

static uint64_t computed_count(void) {
    struct engine_stats stats;
    engine_stats(rig.engine, &stats);
    return stats.requests_total;
}

/* The next result, decoded; its id and status are as given. */
static struct result next_result(const char *id, enum result_status status) {
    struct worker_rig_record record = worker_rig_next_result(&rig);
    struct result result;
    struct job_error error;
    assert_string_equal(record.key, id);
    assert_int_equal(result_decode(record.value, record.value_bytes, &result, &error), 0);
    assert_int_equal(result.status, status);
    worker_rig_free(&record);
    return result;
}

static void expect_quiet(void) {
    worker_rig_until_drained(&rig);
    assert_true(worker_rig_has_no_result(&rig));
    assert_true(worker_rig_has_no_letter(&rig));
    assert_int_equal(worker_rig_stats(&rig).parked, 0);
}

static void settles_a_parked_job_when_the_other_worker_has_ended(void **state) {
    uint64_t before = worker_rig_stats(&rig).duplicates, computed = computed_count();
    held("ends", "other/1", FAR, "1", "1", "0");
    worker_rig_produce_job(&rig, "ends");
    STEP_WHILE(worker_rig_stats(&rig).parked == 0);
    assert_false(worker_is_drained(rig.worker));
    worker_rig_redis(&rig, "HSET solfleet:job:{ends} state done");
    STEP_WHILE(worker_rig_stats(&rig).duplicates == before);
    expect_quiet();
    assert_int_equal(computed_count(), computed);
    expect_status("ends", "attempt", "1");
}

static void takes_a_parked_job_over_when_its_lease_lapses(void **state) {
    held("lapses", "other/1", FAR, "3", "2", "0");
    worker_rig_produce_job(&rig, "lapses");
    STEP_WHILE(worker_rig_stats(&rig).parked == 0);
    assert_true(worker_rig_has_no_result(&rig));
    worker_rig_redis(&rig, "HSET solfleet:job:{lapses} lease_until 1");
    struct result result = next_result("lapses", RESULT_DONE);
    assert_int_equal(result.attempt, 4);
    result_deinit(&result);
    expect_quiet();
    expect_status("lapses", "worker", "rig");
    expect_status("lapses", "deaths", "0"); /* it had not begun to run in its last attempt */
}

static void takes_over_at_once_from_an_earlier_process_of_its_name(void **state) {
    held("heir", "rig/0123456789abcdef", FAR, "1", "1", "0");
    worker_rig_produce_job(&rig, "heir");
    struct result result = next_result("heir", RESULT_DONE);
    assert_int_equal(result.attempt, 2);
    result_deinit(&result);
    expect_quiet();
    expect_status("heir", "deaths", "1");
    expect_status("heir", "owner", NULL);
}

static void publishes_the_outcome_that_stands_sealed(void **state) {
    static const char sealed[] =
        "{\"version\":1,\"request_id\":\"sealed\",\"status\":\"done\",\"text\":\"as it was\"}";
    uint64_t computed = computed_count();
    held("sealed", "other/1", "1", "1", "1", "0");
    worker_rig_redis(&rig,
                     "HSET solfleet:job:{sealed} sealed done finished_at 5 prompt_tokens 3 "
                     "completion_tokens 7 result %s",
                     sealed);
    worker_rig_produce_job(&rig, "sealed");
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, "sealed");
    assert_string_equal(record.value, sealed);
    assert_true(worker_rig_has_header(&record, "status", "done"));
    worker_rig_free(&record);
    expect_quiet();
    assert_int_equal(computed_count(), computed);
    expect_status("sealed", "state", "done");
    expect_status("sealed", "finished_at", "5");
    expect_status("sealed", "completion_tokens", "7");
    expect_status("sealed", "result", sealed);
}

static void fails_poison_and_dead_letters_it_without_running_it(void **state) {
    uint64_t computed = computed_count();
    held("poison", "other/1", "1", "3", "3", "2");
    worker_rig_produce_job(&rig, "poison");
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.key, "poison");
    assert_true(worker_rig_has_header(&letter, "solfleet-code", "poison"));
    assert_int_not_equal(letter.value_bytes, 0);
    worker_rig_free(&letter);
    struct result result = next_result("poison", RESULT_FAILED);
    assert_int_equal(result.error.code, ERROR_POISON);
    result_deinit(&result);
    expect_quiet();
    assert_int_equal(computed_count(), computed);
    assert_int_equal(worker_rig_stats(&rig).poisoned, 1);
    expect_status("poison", "state", "failed");
    expect_status("poison", "error_code", "poison");
}

static void publishes_what_was_sealed_of_a_record_that_is_no_job(void **state) {
    static const char bad[] = "{\"request_id\": \"sealed-bad\", \"prompt\": 5}";
    held("sealed-bad", "other/1", "1", "1", "0", "0");
    worker_rig_redis(&rig,
                     "HSET solfleet:job:{sealed-bad} sealed failed finished_at 5 result %s "
                     "error_code invalid_field",
                     "{\"version\":1,\"request_id\":\"sealed-bad\",\"status\":\"failed\"}");
    worker_rig_produce(&rig, -1, NULL, bad, strlen(bad), NULL);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.value, bad); /* whether the first one went out is not known */
    assert_true(worker_rig_has_header(&letter, "solfleet-code", "invalid_field"));
    worker_rig_free(&letter);
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, "sealed-bad");
    assert_true(worker_rig_has_header(&record, "status", "failed"));
    worker_rig_free(&record);
    expect_quiet();
    expect_status("sealed-bad", "state", "failed");
}

static void answers_a_job_whose_client_had_cancelled_it_without_running_it(void **state) {
    uint64_t computed = computed_count();
    worker_rig_queue(&rig, "unwanted");
    worker_rig_redis(&rig, "HSET solfleet:job:{unwanted} cancel_requested 1");
    worker_rig_produce_job(&rig, "unwanted");
    struct result result = next_result("unwanted", RESULT_CANCELLED);
    assert_int_equal(result.finish_reason, FINISH_CANCELLED);
    result_deinit(&result);
    expect_quiet();
    assert_int_equal(computed_count(), computed);
    expect_status("unwanted", "state", "cancelled");
    expect_status("unwanted", "error_code", "cancelled");
}

static void computes_a_job_whose_key_is_unusable_without_a_status(void **state) {
    worker_rig_redis(&rig, "SET solfleet:job:{odd} x");
    worker_rig_produce_job(&rig, "odd");
    struct result result = next_result("odd", RESULT_DONE);
    result_deinit(&result);
    expect_quiet();
}

static int start(void **state) {
    static const char *const words[] = {"--kafka.session.timeout.ms", "6000", NULL};
    worker_rig_open(&rig);
    worker_rig_start(&rig, GROUP, words, NULL);
    worker_rig_until_ready(&rig);
    return 0;
}

static int stop(void **state) {
    worker_rig_close(&rig);
    return 0;
}

TEST_MAIN_WITH(start, stop, cmocka_unit_test(settles_a_parked_job_when_the_other_worker_has_ended),
               cmocka_unit_test(takes_a_parked_job_over_when_its_lease_lapses),
               cmocka_unit_test(takes_over_at_once_from_an_earlier_process_of_its_name),
               cmocka_unit_test(publishes_the_outcome_that_stands_sealed),
               cmocka_unit_test(fails_poison_and_dead_letters_it_without_running_it),
               cmocka_unit_test(publishes_what_was_sealed_of_a_record_that_is_no_job),
               cmocka_unit_test(answers_a_job_whose_client_had_cancelled_it_without_running_it),
               cmocka_unit_test(computes_a_job_whose_key_is_unusable_without_a_status))
