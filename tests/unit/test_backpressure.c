#include "consumer/backpressure.h"
#include "tests/support/test.h"

static struct backpressure marks(void) {
    return (struct backpressure){
        .jobs_high = 10, .jobs_low = 4, .bytes_high = 1000, .bytes_low = 400, .hold_ns = 50};
}

static void takes_again_at_the_low_mark_only(void **state) {
    struct backpressure pressure = marks();
    static const struct {
        uint32_t jobs;
        enum backpressure_advice advice;
    } steps[] = {{0, BACKPRESSURE_TAKE},  {9, BACKPRESSURE_TAKE}, {10, BACKPRESSURE_HOLD},
                 {9, BACKPRESSURE_HOLD},  {5, BACKPRESSURE_HOLD}, {4, BACKPRESSURE_TAKE},
                 {11, BACKPRESSURE_HOLD}, {0, BACKPRESSURE_TAKE}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct backpressure_load load = {.jobs = steps[i].jobs};
        assert_int_equal(backpressure_update(&pressure, &load, 0), steps[i].advice);
    }
}

static void pauses_when_it_stays_full(void **state) {
    struct backpressure pressure = marks();
    struct backpressure_load full = {.jobs = 10}, low = {.jobs = 4};
    assert_int_equal(backpressure_deadline_ns(&pressure), INT64_MAX);
    assert_int_equal(backpressure_update(&pressure, &full, 100), BACKPRESSURE_HOLD);
    assert_int_equal(backpressure_deadline_ns(&pressure), 150);
    assert_int_equal(backpressure_update(&pressure, &full, 149), BACKPRESSURE_HOLD);
    assert_int_equal(backpressure_update(&pressure, &full, 150), BACKPRESSURE_PAUSE);
    assert_int_equal(backpressure_deadline_ns(&pressure), INT64_MAX);
    assert_int_equal(backpressure_update(&pressure, &full, 151), BACKPRESSURE_PAUSE);
    assert_int_equal(backpressure_update(&pressure, &low, 152), BACKPRESSURE_TAKE);
    assert_int_equal(backpressure_update(&pressure, &full, 153), BACKPRESSURE_HOLD);
}

static void looks_at_bytes_as_at_jobs(void **state) {
    struct backpressure pressure = marks();
    struct backpressure_load load = {.bytes = 1000};
    assert_int_equal(backpressure_update(&pressure, &load, 0), BACKPRESSURE_HOLD);
    load.bytes = 401;
    assert_int_equal(backpressure_update(&pressure, &load, 0), BACKPRESSURE_HOLD);
    load.bytes = 400;
    assert_int_equal(backpressure_update(&pressure, &load, 0), BACKPRESSURE_TAKE);
}

static void is_full_while_the_engine_is_busy_however_few_the_jobs(void **state) {
    struct backpressure pressure = marks();
    struct backpressure_load load = {.jobs = 1, .engine_is_busy = true};
    assert_int_equal(backpressure_update(&pressure, &load, 0), BACKPRESSURE_HOLD);
    load.engine_is_busy = false;
    assert_int_equal(backpressure_update(&pressure, &load, 0), BACKPRESSURE_TAKE);
}

TEST_MAIN(cmocka_unit_test(takes_again_at_the_low_mark_only),
          cmocka_unit_test(pauses_when_it_stays_full), cmocka_unit_test(looks_at_bytes_as_at_jobs),
          cmocka_unit_test(is_full_while_the_engine_is_busy_however_few_the_jobs))
