#include "consumer/replay_letter.h"

#include <string.h>

#include "tests/support/test.h"

static struct record_header header(const char *name, const char *value) {
    return (struct record_header){.name = name, .value = value, .value_bytes = strlen(value)};
}

static struct record record_of(const char *key, const char *value) {
    return (struct record){.key = key,
                           .key_bytes = key != NULL ? strlen(key) : 0,
                           .value = value,
                           .value_bytes = value != NULL ? strlen(value) : 0};
}

static struct replay_letter letter_of(const char *key, const char *value,
                                      struct record_header *headers, size_t count) {
    struct record record = record_of(key, value);
    struct replay_letter letter;
    assert_true(replay_letter_read(&letter, &record, headers, count));
    return letter;
}

static void keeps_the_records_own_headers_in_their_order(void **state) {
    struct record_header headers[] = {
        header("traceparent", "00-1"),  header("solfleet-code", "poison"),
        header("tenant", "t"),          header("solfleet-topic", "jobs"),
        header("solfleet-offset", "7"), header("solfleet-other", "mine")};
    struct replay_letter letter = letter_of("k", "{}", headers, 6);
    assert_int_equal(letter.code, ERROR_POISON);
    assert_int_equal(letter.header_count, 3);
    assert_string_equal(headers[0].name, "traceparent");
    assert_string_equal(headers[1].name, "tenant");
    assert_string_equal(headers[2].name, "solfleet-other");
    assert_true(replay_letter_is_of(&letter, "jobs"));
    assert_false(replay_letter_is_of(&letter, "jobs2"));
    assert_false(replay_letter_is_of(&letter, "job"));
}

static void is_no_letter_without_a_code(void **state) {
    struct record_header headers[] = {header("status", "done")};
    assert_int_equal(letter_of("k", "{}", headers, 1).code, ERROR_NONE);
    assert_int_equal(letter_of("k", "{}", headers, 0).code, ERROR_NONE);
}

static void takes_a_code_of_a_later_version_as_a_letter(void **state) {
    struct record_header headers[] = {header("solfleet-code", "of_tomorrow")};
    assert_int_equal(letter_of("k", "{}", headers, 1).code, ERROR_INTERNAL);
}

static void finds_the_id_in_the_value_then_in_the_key(void **state) {
    struct record_header code[] = {header("solfleet-code", "invalid_field")};
    assert_string_equal(letter_of("key", "{\"request_id\":\"in\"}", code, 1).request_id, "in");
    assert_string_equal(letter_of("key", "no json", code, 1).request_id, "key");
    assert_string_equal(letter_of("no id!", "no json", code, 1).request_id, "");
    assert_string_equal(letter_of(NULL, NULL, code, 1).request_id, "");
}

static void says_that_the_value_was_left_out(void **state) {
    struct record_header headers[] = {header("solfleet-code", "too_large"),
                                      header("solfleet-value-sha256", "ab"),
                                      header("solfleet-value-bytes", "5242880")};
    struct replay_letter letter = letter_of("id-1", "", headers, 3);
    assert_true(letter.value_left_out);
    assert_memory_equal(letter.left_out_bytes.value, "5242880", 7);
    assert_string_equal(letter.request_id, "id-1");
}

static void fingerprints_the_value_as_a_claim_does(void **state) {
    struct record_header code[] = {header("solfleet-code", "poison")};
    assert_string_equal(letter_of("k", "abc", code, 1).fingerprint,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_MAIN(cmocka_unit_test(keeps_the_records_own_headers_in_their_order),
          cmocka_unit_test(is_no_letter_without_a_code),
          cmocka_unit_test(takes_a_code_of_a_later_version_as_a_letter),
          cmocka_unit_test(finds_the_id_in_the_value_then_in_the_key),
          cmocka_unit_test(says_that_the_value_was_left_out),
          cmocka_unit_test(fingerprints_the_value_as_a_claim_does))
