#include "schemas/dead_letter.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/json_writer.h"
#include "tests/support/example.h"
#include "tests/support/test.h"

/* The headers as the JSON object that the contract describes them with. */
static void assert_equals_example(const struct dead_letter *letter, const char *name) {
    struct dead_letter_headers headers;
    struct json_writer writer;
    assert_true(dead_letter_write_headers(letter, &headers));
    json_writer_init(&writer, 0);
    json_writer_begin_object(&writer);
    for (uint32_t i = 0; i < headers.count; i++) {
        json_writer_key(&writer, headers.list[i].name);
        json_writer_string(&writer, headers.list[i].value);
    }
    json_writer_end_object(&writer);
    char *written = json_writer_finish(&writer, NULL);
    char *expected = example_read(name);
    assert_string_equal(written, expected);
    free(expected);
    free(written);
}

static void assert_headers(const struct dead_letter *letter, const char *const (*expected)[2],
                           size_t count) {
    struct dead_letter_headers headers;
    assert_true(dead_letter_write_headers(letter, &headers));
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
    assert_true(dead_letter_write_headers(&letter, &headers));
    assert_int_equal(headers.count, DEAD_LETTER_HEADERS_MAX);
    assert_string_equal(headers.list[5].value, "-9223372036854775808");
    assert_string_equal(headers.list[6].value, "4294967295");
    assert_string_equal(headers.list[8].value, "0");
}

static void writes_the_published_example(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_INVALID_FIELD, "params.temperature",
                    "must be a number from 0 to 2");
    const struct dead_letter letter = {
        .error = &error, .topic = "solfleet.jobs", .partition = 4, .offset = 1033, .attempt = 1};
    assert_equals_example(&letter, "dead_letter_field.json");
}

TEST_MAIN(cmocka_unit_test(writes_the_published_example), cmocka_unit_test(says_why_and_where_from),
          cmocka_unit_test(tells_size_and_digest_of_a_value_that_is_left_out),
          cmocka_unit_test(has_room_for_all_headers_at_their_longest))
