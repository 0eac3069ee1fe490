#include "consumer/backpressure.h"
#include "tests/support/test.h"

static struct backpressure marks(void) {
    return (struct backpressure){
        .jobs_high = 10, .jobs_low = 4, .bytes_high = 1000, .bytes_low = 400};
}

static void pauses_at_the_high_mark_and_resumes_at_the_low_one(void **state) {
    struct backpressure pressure = marks();
    static const struct {
        uint32_t jobs;
        bool paused;
    } steps[] = {{0, false}, {9, false}, {10, true}, {9, true}, {5, true}, {4, false}, {9, false}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct backpressure_load load = {.jobs = steps[i].jobs};
        assert_int_equal(backpressure_update(&pressure, &load), steps[i].paused);
    }
}

static void pauses_on_bytes_as_on_jobs(void **state) {
    struct backpressure pressure = marks();
    assert_true(backpressure_update(&pressure, &(struct backpressure_load){.bytes = 1000}));
    assert_true(backpressure_update(&pressure, &(struct backpressure_load){.bytes = 401}));
    assert_false(backpressure_update(&pressure, &(struct backpressure_load){.bytes = 400}));
}

static void stays_paused_while_the_engine_is_busy_however_few_the_jobs(void **state) {
    struct backpressure pressure = marks();
    struct backpressure_load load = {.jobs = 1, .engine_is_busy = true};
    assert_true(backpressure_update(&pressure, &load));
    load.engine_is_busy = false;
    assert_false(backpressure_update(&pressure, &load));
}

static void gives_no_room_when_paused_and_the_rest_to_the_high_mark_when_not(void **state) {
    struct backpressure pressure = marks();
    assert_int_equal(backpressure_room(&pressure, 3), 7);
    assert_int_equal(backpressure_room(&pressure, 12), 0);
    pressure.paused = true;
    assert_int_equal(backpressure_room(&pressure, 3), 0);
}

TEST_MAIN(cmocka_unit_test(pauses_at_the_high_mark_and_resumes_at_the_low_one),
          cmocka_unit_test(pauses_on_bytes_as_on_jobs),
          cmocka_unit_test(stays_paused_while_the_engine_is_busy_however_few_the_jobs),
          cmocka_unit_test(gives_no_room_when_paused_and_the_rest_to_the_high_mark_when_not))
