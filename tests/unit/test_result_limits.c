#include "consumer/result_limits.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/result.h"
#include "schemas/utf8.h"
#include "tests/support/test.h"

static struct result result_of(char *text) {
    struct result result;
    result_init(&result);
    strcpy(result.request_id, "r-1");
    strcpy(result.answer_sha256,
           "00000000000000000000000000000000000000000000000000000000000000ab");
    result.status = RESULT_DONE;
    result.text = text;
    return result;
}

static struct result decoded(const char *bytes, size_t size) {
    struct result result;
    struct job_error error;
    if (result_decode(bytes, size, &result, &error) != ERROR_NONE) {
        fail_msg("%s %s", error.field, error.message);
    }
    return result;
}

/* Encodes, shortens to `bytes_max`, and decodes what came out; false when nothing did. */
static bool shortened(const struct result *whole, size_t bytes_max, struct result *out) {
    size_t whole_bytes, size = 0;
    char *bytes = result_encode(whole, &whole_bytes);
    assert_non_null(bytes);
    char *shorter = result_limits_shorten(bytes, whole_bytes, bytes_max, &size);
    free(bytes);
    if (shorter == NULL) {
        return false;
    }
    assert_true(size <= bytes_max);
    assert_int_equal(strlen(shorter), size);
    *out = decoded(shorter, size);
    free(shorter);
    return true;
}

static size_t encoded_bytes(const struct result *result) {
    size_t size;
    free(result_encode(result, &size));
    return size;
}

static void leaves_out_the_solution_and_keeps_the_text_where_that_is_enough(void **state) {
    char text[] = "## Approach\nsort", analysis[] = "sort";
    struct result whole = result_of(text), less;
    whole.solution.present = true;
    whole.solution.analysis = analysis;
    assert_true(shortened(&whole, encoded_bytes(&whole) - 60, &less));
    assert_false(less.solution.present);
    assert_string_equal(less.text, text);
    assert_true(less.truncated && less.cut.present && less.cut.solution);
    assert_int_equal(less.cut.text_bytes, strlen(text));
    assert_string_equal(less.answer_sha256, whole.answer_sha256);
    result_deinit(&less);
}

static void cuts_a_text_of_one_kind_to_the_last_byte_that_fits(void **state) {
    char text[2001];
    memset(text, 'x', 2000);
    text[2000] = '\0';
    struct result whole = result_of(text), less;
    size_t around = encoded_bytes(&whole) - 2000;
    assert_true(shortened(&whole, around + 1000, &less));
    assert_int_equal(less.cut.text_bytes, 2000);
    assert_false(less.cut.solution);
    /* `cut` takes its own room. */
    assert_in_range(strlen(less.text), 1000 - 50 - UTF8_BYTES_MAX, 1000);
    result_deinit(&less);
}

static void cuts_between_two_code_points_at_any_size(void **state) {
    char text[] = "a\xC3\xA9\xE4\xB8\xA4\xF0\x9F\x98\x80\"\\\n\x01 b\xE4\xB8\xA4\xE4\xB8\xA4\xE4"
                  "\xB8\xA4\xF0\x9F\x98\x80\xF0\x9F\x98\x80 end of it";
    struct result whole = result_of(text), less;
    size_t most = encoded_bytes(&whole) + 60, least = SIZE_MAX, longest = 0;
    for (size_t bytes_max = most; bytes_max > 100; bytes_max--) {
        if (!shortened(&whole, bytes_max, &less)) {
            continue;
        }
        size_t bytes = strlen(less.text);
        assert_true(utf8_is_valid(less.text, bytes, NULL));
        assert_memory_equal(less.text, text, bytes);
        assert_true(bytes <= least); /* less room never gives more text */
        least = bytes;
        longest = bytes > longest ? bytes : longest;
        result_deinit(&less);
    }
    assert_int_equal(longest, strlen(text));
    assert_int_equal(least, 0);
}

static void gives_up_when_what_stands_around_the_text_is_too_large(void **state) {
    char text[] = "answer";
    struct result whole = result_of(text), less;
    assert_false(shortened(&whole, 200, &less));
}

static void has_nothing_to_shorten_in_a_failure(void **state) {
    struct result whole = result_of(NULL), less;
    whole.status = RESULT_FAILED;
    error_set(&whole.error, ERROR_POISON, NULL, "it kills its workers");
    assert_false(shortened(&whole, encoded_bytes(&whole) - 1, &less));
}

static void remembers_the_first_size_when_it_is_cut_again(void **state) {
    char text[3001];
    memset(text, 'x', 3000);
    text[3000] = '\0';
    struct result whole = result_of(text), once, twice;
    assert_true(shortened(&whole, 2500, &once));
    assert_true(shortened(&once, 1500, &twice));
    assert_int_equal(twice.cut.text_bytes, 3000);
    assert_true(strlen(twice.text) < strlen(once.text));
    result_deinit(&once);
    result_deinit(&twice);
}

static void refuses_what_is_no_result(void **state) {
    size_t size;
    assert_null(result_limits_shorten("no json", 7, 100, &size));
}

TEST_MAIN(cmocka_unit_test(leaves_out_the_solution_and_keeps_the_text_where_that_is_enough),
          cmocka_unit_test(cuts_a_text_of_one_kind_to_the_last_byte_that_fits),
          cmocka_unit_test(cuts_between_two_code_points_at_any_size),
          cmocka_unit_test(gives_up_when_what_stands_around_the_text_is_too_large),
          cmocka_unit_test(has_nothing_to_shorten_in_a_failure),
          cmocka_unit_test(remembers_the_first_size_when_it_is_cut_again),
          cmocka_unit_test(refuses_what_is_no_result))
