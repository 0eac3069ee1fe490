#include "engine/quote.h"

#include <string.h>

#include "tests/support/test.h"

static void shows_short_bytes_whole(void **state) {
    assert_string_equal(quote_of("", 0).text, "");
    assert_string_equal(quote_of(NULL, 0).text, "");
    assert_string_equal(quote_of("gpt2", 4).text, "gpt2");
    assert_string_equal(quote_of("a\nb\tc", 5).text, "a b c");
}

static void cuts_long_bytes_and_says_so(void **state) {
    char data[100];
    memset(data, 'x', sizeof data);
    struct quote quote = quote_of(data, QUOTE_SHOWN_BYTES);
    assert_int_equal(strlen(quote.text), QUOTE_SHOWN_BYTES);
    quote = quote_of(data, QUOTE_SHOWN_BYTES + 1);
    assert_int_equal(strlen(quote.text), QUOTE_SHOWN_BYTES + 3);
    assert_string_equal(quote.text + QUOTE_SHOWN_BYTES, "...");
}

static void lets_no_byte_through_that_could_harm_a_terminal(void **state) {
    for (int byte = 0; byte < 256; byte++) {
        const char data = (char)byte;
        const char shown = quote_of(&data, 1).text[0];
        assert_true(shown >= ' ' && shown <= '~');
    }
    assert_string_equal(quote_of("\x1B[2J\0\xE4", 6).text, "?[2J??");
}

TEST_MAIN(cmocka_unit_test(shows_short_bytes_whole), cmocka_unit_test(cuts_long_bytes_and_says_so),
          cmocka_unit_test(lets_no_byte_through_that_could_harm_a_terminal))
