#include "consumer/carried_headers.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void allows_names_for_tracing_in_any_case_and_no_others(void **state) {
    assert_true(carried_headers_allow("traceparent"));
    assert_true(carried_headers_allow("X-Correlation-ID"));
    assert_false(carried_headers_allow("authorization"));
    assert_false(carried_headers_allow("traceparents"));
    assert_false(carried_headers_allow(""));
}

static void copies_values_as_they_are_null_ones_too(void **state) {
    char value[] = "a\0b";
    struct record_header headers[] = {
        {"secret", "x", 1}, {"traceparent", value, 3}, {"baggage", NULL, 0}, {"tracestate", "", 0}};
    struct carried_headers carried = {0};
    carried_headers_copy(&carried, headers, 4);
    memset(value, 'z', sizeof value);
    assert_int_equal(carried.count, 3);
    assert_string_equal(carried.list[0].name, "traceparent");
    assert_memory_equal(carried.list[0].value, "a\0b", 3);
    assert_null(carried.list[1].value);
    assert_non_null(carried.list[2].value);
    assert_int_equal(carried.list[2].value_bytes, 0);
    carried_headers_deinit(&carried);
    carried_headers_deinit(&carried);
}

static void carries_no_more_than_its_bounds(void **state) {
    struct record_header headers[CARRIED_HEADERS_MAX + 4];
    struct carried_headers carried = {0};
    for (size_t i = 0; i < CARRIED_HEADERS_MAX + 4; i++) {
        headers[i] = (struct record_header){"baggage", "v", 1};
    }
    carried_headers_copy(&carried, headers, CARRIED_HEADERS_MAX + 4);
    assert_int_equal(carried.count, CARRIED_HEADERS_MAX);
    carried_headers_deinit(&carried);

    char *large = calloc(1, CARRIED_HEADERS_BYTES_MAX);
    headers[0] = (struct record_header){"baggage", large, CARRIED_HEADERS_BYTES_MAX - 8};
    headers[1] = (struct record_header){"baggage", "v", 1};
    carried_headers_copy(&carried, headers, 2);
    assert_int_equal(carried.count, 1);
    carried_headers_deinit(&carried);
    headers[0].value_bytes = SIZE_MAX / 2;
    carried_headers_copy(&carried, headers, 1);
    assert_int_equal(carried.count, 0);
    carried_headers_deinit(&carried);
    free(large);
}

TEST_MAIN(cmocka_unit_test(allows_names_for_tracing_in_any_case_and_no_others),
          cmocka_unit_test(copies_values_as_they_are_null_ones_too),
          cmocka_unit_test(carries_no_more_than_its_bounds))
