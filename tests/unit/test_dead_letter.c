#include "schemas/dead_letter.h"

#include <string.h>

#include "tests/support/test.h"

static void assert_headers(const struct dead_letter *letter, const char *const (*expected)[2],
                           size_t count) {
    struct dead_letter_headers headers;
    dead_letter_write_headers(letter, &headers);
    assert_int_equal(headers.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(headers.list[i].name, expected[i][0]);
        assert_string_equal(headers.list[i].value, expected[i][1]);
    }
}

static void says_why_and_where_from(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_INVALID_FIELD, "params.seed", "must be an integer");
    const struct dead_letter letter = {.error = &error,
                                       .topic = "solfleet.jobs",
                                       .partition = 11,
                                       .offset = 9007199254740993,
                                       .attempt = 1,
                                       .value = "{}",
                                       .value_bytes = 2};
    static const char *const expected[][2] = {{"solfleet-code", "invalid_field"},
                                              {"solfleet-field", "params.seed"},
                                              {"solfleet-message", "must be an integer"},
                                              {"solfleet-topic", "solfleet.jobs"},
                                              {"solfleet-partition", "11"},
                                              {"solfleet-offset", "9007199254740993"},
                                              {"solfleet-attempt", "1"}};
    assert_headers(&letter, expected, 7);
}

static void tells_size_and_digest_of_a_value_that_is_left_out(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_TOO_LARGE, NULL, "3 bytes");
    const struct dead_letter letter = {
        .error = &error, .topic = "t", .value = "abc", .value_bytes = 3, .value_left_out = true};
    static const char *const expected[][2] = {
        {"solfleet-code", "too_large"},
        {"solfleet-message", "3 bytes"},
        {"solfleet-topic", "t"},
        {"solfleet-partition", "0"},
        {"solfleet-offset", "0"},
        {"solfleet-attempt", "0"},
        {"solfleet-value-sha256",
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"solfleet-value-bytes", "3"}};
    assert_headers(&letter, expected, 8);
}

static void has_room_for_all_headers_at_their_longest(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_UNSUPPORTED_VERSION, "f", "m");
    const struct dead_letter letter = {.error = &error,
                                       .topic = "t",
                                       .partition = INT32_MIN,
                                       .offset = INT64_MIN,
                                       .attempt = UINT32_MAX,
                                       .value = NULL,
                                       .value_left_out = true};
    struct dead_letter_headers headers;
    dead_letter_write_headers(&letter, &headers);
    assert_int_equal(headers.count, DEAD_LETTER_HEADERS_MAX);
    assert_string_equal(headers.list[5].value, "-9223372036854775808");
    assert_string_equal(headers.list[6].value, "4294967295");
    assert_string_equal(headers.list[8].value, "0");
}

TEST_MAIN(cmocka_unit_test(says_why_and_where_from),
          cmocka_unit_test(tells_size_and_digest_of_a_value_that_is_left_out),
          cmocka_unit_test(has_room_for_all_headers_at_their_longest))
