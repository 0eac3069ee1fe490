/* consumer/worker_deadline: a record's age becomes a moment once, and no wall clock changes it. */
#include "consumer/worker_deadline.h"

#include "consumer/worker_state.h"
#include "tests/support/test.h"

#define MS CLOCK_NS_PER_MS

static struct clock machine;
static struct config config;
static struct worker worker;

/* A record that comes now, dated so much before; the deadline that it has. */
static int64_t deadline_of(int64_t age_ms, int64_t timeout_ms) {
    struct inflight_job job = {.timestamp_unix_ms = clock_unix_ms(&machine) - age_ms,
                               .job = {.timeout_ms = timeout_ms}};
    worker_deadline_note(&worker, &job);
    assert_int_equal(job.job.deadline_ns, job.deadline_ns);
    return job.deadline_ns;
}

static int begin(void **state) {
    clock_init_virtual(&machine, 5000 * MS, 1700000000000);
    config = (struct config){.max_clock_skew_ms = 1000};
    worker = (struct worker){.options.clock = &machine, .config = &config};
    return 0;
}

static void counts_from_the_records_timestamp(void **state) {
    assert_int_equal(deadline_of(0, 300), 5300 * MS);
    assert_int_equal(deadline_of(200, 300), 5100 * MS);
    assert_int_equal(deadline_of(200, 0), 0); /* none */
}

static void takes_what_has_passed_for_passed_however_long_ago(void **state) {
    assert_int_equal(deadline_of(300, 300), 1);
    assert_int_equal(deadline_of(1700000000000, 7LL * 24 * 3600 * 1000), 1); /* dated 1970 */
}

static void takes_the_future_for_now_and_counts_what_is_too_far(void **state) {
    assert_int_equal(deadline_of(-1000, 300), 5300 * MS);
    assert_int_equal(worker.stats.from_the_future, 0);
    assert_int_equal(deadline_of(-1001, 300), 5300 * MS);
    assert_int_equal(deadline_of(-3600000, 300), 5300 * MS);
    assert_int_equal(worker.stats.from_the_future, 2);
}

/* Waiting since before the wall clock jumped by a day, back and forth. */
static void ends_what_waits_by_the_monotonic_clock_alone(void **state) {
    static const int64_t jumps_ms[] = {86400000, -86400000};
    for (int i = 0; i < 2; i++) {
        begin(state);
        struct inflight_job job = {.timestamp_unix_ms = clock_unix_ms(&machine),
                                   .job = {.timeout_ms = 300}};
        worker_deadline_note(&worker, &job);
        machine.start_unix_ms += jumps_ms[i];
        clock_advance(&machine, 299 * MS);
        assert_true(job.deadline_ns > clock_monotonic_ns(&machine));
        clock_advance(&machine, MS);
        assert_true(job.deadline_ns <= clock_monotonic_ns(&machine));
    }
}

#define FRESH(test) cmocka_unit_test_setup(test, begin)

TEST_MAIN(FRESH(counts_from_the_records_timestamp),
          FRESH(takes_what_has_passed_for_passed_however_long_ago),
          FRESH(takes_the_future_for_now_and_counts_what_is_too_far),
          FRESH(ends_what_waits_by_the_monotonic_clock_alone))
