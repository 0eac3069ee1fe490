#include "consumer/since.h"

#include "tests/support/test.h"

/* 2026-11-29T21:00:00Z */
#define NOW 1795986000000

static int64_t since(const char *text) {
    int64_t unix_ms = -1;
    if (!since_parse(text, NOW, &unix_ms)) {
        fail_msg("%s", text);
    }
    return unix_ms;
}

static void takes_unix_milliseconds_as_they_are(void **state) {
    assert_int_equal(since("0"), 0);
    assert_int_equal(since("1795986000000"), NOW);
}

static void takes_how_long_ago_it_was(void **state) {
    assert_int_equal(since("90s"), NOW - 90000);
    assert_int_equal(since("15m"), NOW - 900000);
    assert_int_equal(since("2h"), NOW - 7200000);
    assert_int_equal(since("7d"), NOW - 604800000);
    assert_int_equal(since("0s"), NOW);
}

static void takes_dates_of_iso_8601(void **state) {
    assert_int_equal(since("2026-11-29"), NOW - 21 * 3600000LL);
    assert_int_equal(since("2026-11-29T21:00"), NOW);
    assert_int_equal(since("2026-11-29T20:59:59Z"), NOW - 1000);
    assert_int_equal(since("2026-11-29 20:59:59.5"), NOW - 500);
    assert_int_equal(since("2026-11-29T20:59:59.123456"), NOW - 877);
    assert_int_equal(since("2026-11-29T21:30:00+01:00"), NOW - 1800000);
    assert_int_equal(since("2026-11-29T15:30:00-0530"), NOW);
    assert_int_equal(since("2024-02-29"), 1709164800000);
    assert_int_equal(since("1970-01-01T00:00:00.001Z"), 1);
}

static void refuses_all_else(void **state) {
    static const char *const wrong[] = {"",
                                        "h",
                                        "2w",
                                        "2 h",
                                        "-2h",
                                        "1.5h",
                                        "2hh",
                                        "yesterday",
                                        "1795986000001",
                                        "2026-11-30",
                                        "2026-13-01",
                                        "2026-02-29",
                                        "2026-11-31",
                                        "2026-00-10",
                                        "2026-11-29T",
                                        "2026-11-29T24:00",
                                        "2026-11-29T20:60",
                                        "2026-11-29T20:00:60",
                                        "2026-11-29T20:00:00.",
                                        "2026-11-29T20:00:00X",
                                        "2026-11-29T20:00:00+1",
                                        "2026-11-29T20:00:00+15:00",
                                        "2026-11-29T20:00:00Zx",
                                        "1969-12-31",
                                        "99999999999999999999",
                                        "9999999999d",
                                        "26-11-29"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t unix_ms;
        if (since_parse(wrong[i], NOW, &unix_ms)) {
            fail_msg("%s is taken", wrong[i]);
        }
    }
}

TEST_MAIN(cmocka_unit_test(takes_unix_milliseconds_as_they_are),
          cmocka_unit_test(takes_how_long_ago_it_was), cmocka_unit_test(takes_dates_of_iso_8601),
          cmocka_unit_test(refuses_all_else))
