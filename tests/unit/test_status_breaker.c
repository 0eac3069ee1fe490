#include "consumer/status_breaker.h"

#include "engine/clock.h"
#include "tests/support/test.h"

static int64_t at_ms(int64_t ms) {
    return ms * CLOCK_NS_PER_MS;
}

static void opens_at_misses_in_a_row_only(void **state) {
    struct status_breaker breaker = {.misses_max = 2};
    status_breaker_missed(&breaker, false, 0);
    status_breaker_answered(&breaker, false);
    status_breaker_missed(&breaker, false, 0);
    assert_true(status_breaker_allows(&breaker, 0));
    assert_false(status_breaker_begin(&breaker));
    status_breaker_missed(&breaker, false, 0);
    assert_false(status_breaker_allows(&breaker, at_ms(99)));
    assert_int_equal(status_breaker_deadline_ns(&breaker), at_ms(100));
    assert_int_equal(breaker.opened_total, 1);
}

static void lets_one_probe_through_after_its_pause(void **state) {
    struct status_breaker breaker = {.misses_max = 1};
    status_breaker_missed(&breaker, false, 0);
    assert_true(status_breaker_allows(&breaker, at_ms(100)));
    assert_true(status_breaker_begin(&breaker));
    assert_false(status_breaker_allows(&breaker, at_ms(10000)));
    assert_int_equal(status_breaker_deadline_ns(&breaker), INT64_MAX);
    status_breaker_answered(&breaker, false); /* of a call from before: proves nothing */
    status_breaker_missed(&breaker, false, at_ms(10000));
    assert_false(status_breaker_allows(&breaker, at_ms(10000)));
    status_breaker_answered(&breaker, true);
    assert_true(status_breaker_allows(&breaker, at_ms(10000)));
    assert_int_equal(breaker.opened_total, 1);
}

static void doubles_its_pause_with_each_probe_that_fails(void **state) {
    struct status_breaker breaker = {.misses_max = 1};
    static const int64_t pauses_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    int64_t now_ms = 0;
    status_breaker_missed(&breaker, false, 0);
    for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0]; i++) {
        now_ms += pauses_ms[i];
        assert_false(status_breaker_allows(&breaker, at_ms(now_ms) - 1));
        assert_true(status_breaker_allows(&breaker, at_ms(now_ms)));
        status_breaker_begin(&breaker);
        status_breaker_missed(&breaker, true, at_ms(now_ms));
    }
    status_breaker_begin(&breaker);
    status_breaker_answered(&breaker, true);
    status_breaker_missed(&breaker, false, at_ms(now_ms));
    assert_true(status_breaker_allows(&breaker, at_ms(now_ms + 100))); /* from the start again */
}

TEST_MAIN(cmocka_unit_test(opens_at_misses_in_a_row_only),
          cmocka_unit_test(lets_one_probe_through_after_its_pause),
          cmocka_unit_test(doubles_its_pause_with_each_probe_that_fails))
