/* Text of others on a terminal. */
#include "consumer/terminal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static char *cleaned(const char *text, size_t bytes) {
    char *out = NULL;
    size_t out_bytes = 0;
    FILE *to = open_memstream(&out, &out_bytes);
    terminal_print_clean(to, text, bytes);
    fclose(to);
    return out;
}

static void assert_cleaned(const char *text, const char *expected) {
    char *out = cleaned(text, strlen(text));
    assert_string_equal(out, expected);
    free(out);
}

static void leaves_plain_text_newlines_and_tabs(void **state) {
    assert_cleaned("def f(x):\n\treturn x\n", "def f(x):\n\treturn x\n");
    assert_cleaned("时间复杂度 O(n) \xF0\x9F\x99\x82", "时间复杂度 O(n) \xF0\x9F\x99\x82");
}

static void shows_escapes_as_symbols(void **state) {
    assert_cleaned("\x1b[31mred\x1b]0;title\x07",
                   "\xE2\x90\x9B[31mred\xE2\x90\x9B]0;title\xE2\x90\x87");
    assert_cleaned("a\rb\x7F", "a\xE2\x90\x8D"
                               "b\xE2\x90\xA1");
}

static void shows_c1_controls_and_direction_marks_as_replacement(void **state) {
    assert_cleaned("\xC2\x9B"
                   "31m",
                   "\xEF\xBF\xBD"
                   "31m");
    assert_cleaned("a\xE2\x80\xAE"
                   "b",
                   "a\xEF\xBF\xBD"
                   "b");
}

static void shows_bad_bytes_as_replacement(void **state) {
    assert_cleaned("a\xFF", "a\xEF\xBF\xBD");
    assert_cleaned("\xE4\xB8", "\xEF\xBF\xBD");
}

static void writes_bytes_as_they_are_into_a_file(void **state) {
    FILE *to = tmpfile();
    terminal_print(to, "a\x1b[0m\xFF", 6);
    rewind(to);
    char back[16] = "";
    assert_int_equal(fread(back, 1, sizeof back, to), 6);
    assert_memory_equal(back, "a\x1b[0m\xFF", 6);
    fclose(to);
}

TEST_MAIN(cmocka_unit_test(leaves_plain_text_newlines_and_tabs),
          cmocka_unit_test(shows_escapes_as_symbols),
          cmocka_unit_test(shows_c1_controls_and_direction_marks_as_replacement),
          cmocka_unit_test(shows_bad_bytes_as_replacement),
          cmocka_unit_test(writes_bytes_as_they_are_into_a_file))
