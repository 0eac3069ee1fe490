#include "schemas/utf8.h"

#include <string.h>

#include "tests/support/test.h"

static size_t encode(uint32_t code_point, char *out) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    const size_t bytes = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(marks[bytes] | code_point);
    return bytes;
}

static void reads_every_code_point_and_no_surrogate(void **state) {
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        char text[5];
        const size_t bytes = encode(code_point, text);
        text[bytes] = 'x';
        const struct utf8_step step = utf8_next(text, bytes + 1);
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            assert_int_equal(step.kind, UTF8_BAD);
            assert_int_equal(step.bytes, 1);
            continue;
        }
        assert_int_equal(step.kind, UTF8_WHOLE);
        assert_int_equal(step.code_point, code_point);
        assert_int_equal(step.bytes, bytes);
    }
}

static void tells_a_cut_code_point_from_a_bad_one(void **state) {
    for (uint32_t code_point = 0x80; code_point < 0x110000; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            continue;
        }
        char text[5];
        const size_t bytes = encode(code_point, text);
        for (size_t cut = 1; cut < bytes; cut++) {
            const struct utf8_step at_end = utf8_next(text, cut);
            assert_int_equal(at_end.kind, UTF8_CUT);
            assert_int_equal(at_end.bytes, cut);
            char broken[5];
            memcpy(broken, text, cut);
            broken[cut] = 'x';
            const struct utf8_step inside = utf8_next(broken, cut + 1);
            assert_int_equal(inside.kind, UTF8_BAD);
            assert_int_equal(inside.bytes, cut);
        }
    }
}

static void refuses_overlong_forms_and_what_lies_beyond_unicode(void **state) {
    static const char *const bad[] = {
        "\x80",
        "\xBF",
        "\xC0\x80",
        "\xC1\xBF",
        "\xE0\x80\x80",
        "\xE0\x9F\xBF",
        "\xED\xA0\x80",
        "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80",
        "\xF5\x80",
        "\xFE",
        "\xFF",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct utf8_step step = utf8_next(bad[i], strlen(bad[i]));
        assert_int_equal(step.kind, UTF8_BAD);
        assert_int_equal(step.bytes, 1);
        assert_int_equal(step.code_point, 0xFFFD);
    }
}

/* The example of the Unicode standard, table 3-8. */
static void takes_a_maximal_subpart_as_one_bad_run(void **state) {
    static const char text[] = "a\xF1\x80\x80\xE1\x80\xC2"
                               "b\x80"
                               "c\x80\xBF"
                               "d";
    static const size_t steps[] = {1, 3, 2, 1, 1, 1, 1, 1, 1, 1};
    size_t at = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const struct utf8_step step = utf8_next(text + at, sizeof text - 1 - at);
        assert_int_equal(step.bytes, steps[i]);
        at += step.bytes;
    }
    assert_int_equal(at, sizeof text - 1);
}

static void says_where_a_text_first_fails(void **state) {
    size_t bad_at = 99;
    assert_true(utf8_is_valid("", 0, &bad_at));
    assert_true(utf8_is_valid("na\xC3\xAFve \xE4\xBD\xA0\xF0\x9F\x98\x80", 14, &bad_at));
    assert_true(utf8_is_valid("a\0b", 3, NULL));
    assert_false(utf8_is_valid("\xE4\xBD\xA0\xE4\xBD", 5, &bad_at));
    assert_int_equal(bad_at, 3);
    assert_false(utf8_is_valid("abc\xFF", 4, &bad_at));
    assert_int_equal(bad_at, 3);
    assert_false(utf8_is_valid("\xED\xA0\x80", 3, NULL));
}

TEST_MAIN(cmocka_unit_test(reads_every_code_point_and_no_surrogate),
          cmocka_unit_test(tells_a_cut_code_point_from_a_bad_one),
          cmocka_unit_test(refuses_overlong_forms_and_what_lies_beyond_unicode),
          cmocka_unit_test(takes_a_maximal_subpart_as_one_bad_run),
          cmocka_unit_test(says_where_a_text_first_fails))
