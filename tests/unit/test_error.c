#include "schemas/error.h"

#include <string.h>

#include "schemas/utf8.h"
#include "tests/support/test.h"

static void every_code_has_a_name_that_reads_back(void **state) {
    for (int code = ERROR_NONE + 1; code < ERROR_CODE_COUNT; code++) {
        enum error_code read = ERROR_NONE;
        assert_true(error_code_parse(error_code_name((enum error_code)code), &read));
        assert_int_equal(read, code);
    }
}

static void an_unknown_name_is_no_code(void **state) {
    const char *const names[] = {"", "none", "INVALID_JSON", "invalid_json ", "invalid"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum error_code read = ERROR_POISON;
        assert_false(error_code_parse(names[i], &read));
        assert_int_equal(read, ERROR_POISON);
    }
}

static void setting_an_error_formats_its_message_and_returns_its_code(void **state) {
    struct job_error error;
    assert_int_equal(error_set(&error, ERROR_TOO_LARGE, "text", "%d bytes of %s", 7, "this"),
                     ERROR_TOO_LARGE);
    assert_int_equal(error.code, ERROR_TOO_LARGE);
    assert_string_equal(error.field, "text");
    assert_string_equal(error.message, "7 bytes of this");
    (void)error_set(&error, ERROR_EXPIRED, NULL, "late");
    assert_string_equal(error.field, "");
}

static void a_long_message_is_cut_before_the_code_point_that_does_not_fit(void **state) {
    struct job_error error;
    char text[2 * ERROR_MESSAGE_BYTES_MAX];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) {
            memcpy(text + i, "\xE9\xA2\x98", 4);
        }
        (void)error_set(&error, ERROR_INTERNAL, text, "%s", text);
        assert_true(utf8_is_valid(error.message, strlen(error.message), NULL));
        assert_true(utf8_is_valid(error.field, strlen(error.field), NULL));
        assert_in_range(strlen(error.message), ERROR_MESSAGE_BYTES_MAX - 3,
                        ERROR_MESSAGE_BYTES_MAX - 1);
        assert_null(strchr(error.message, '?'));
    }
}

static void bytes_that_are_not_utf8_become_question_marks(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_INTERNAL, "a\xFF", "%s", "x\xC3(\xE2\x82");
    assert_string_equal(error.field, "a?");
    assert_string_equal(error.message, "x?(?");
}

static void an_error_may_be_rewritten_from_its_own_text(void **state) {
    struct job_error error;
    (void)error_set(&error, ERROR_INTERNAL, "seed", "low");
    (void)error_set(&error, ERROR_INVALID_FIELD, error.field, "too %s, %s", error.message, "so");
    assert_string_equal(error.field, "seed");
    assert_string_equal(error.message, "too low, so");
}

TEST_MAIN(cmocka_unit_test(every_code_has_a_name_that_reads_back),
          cmocka_unit_test(an_unknown_name_is_no_code),
          cmocka_unit_test(setting_an_error_formats_its_message_and_returns_its_code),
          cmocka_unit_test(a_long_message_is_cut_before_the_code_point_that_does_not_fit),
          cmocka_unit_test(bytes_that_are_not_utf8_become_question_marks),
          cmocka_unit_test(an_error_may_be_rewritten_from_its_own_text))
