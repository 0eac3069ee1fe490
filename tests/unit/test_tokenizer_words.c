#include "engine/tokenizer_words.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

/* The words of a text with a bar between them. */
static const char *cut(enum tokenizer_words_rule rule, const char *text) {
    static char out[512];
    size_t out_bytes = 0;
    size_t bytes = strlen(text);
    while (bytes > 0) {
        const size_t word_bytes = tokenizer_words_next(rule, text, bytes);
        assert_true(word_bytes > 0 && word_bytes <= bytes);
        out_bytes += (size_t)snprintf(out + out_bytes, sizeof out - out_bytes, "%s%.*s",
                                      out_bytes > 0 ? "|" : "", (int)word_bytes, text);
        text += word_bytes;
        bytes -= word_bytes;
    }
    out[out_bytes] = 0;
    return out;
}

struct example {
    const char *text;
    const char *words;
};

static void check(enum tokenizer_words_rule rule, const struct example *examples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(cut(rule, examples[i].text), examples[i].words);
    }
}

static void cuts_as_gpt2_does(void **state) {
    static const struct example examples[] = {
        {"Hello world", "Hello| world"},
        {"it's he'll we'd they've I'm we're can't", "it|'s| he|'ll| we|'d| they|'ve| I|'m| we|'re|"
                                                    " can|'t"},
        {"IT'S 'S ''s 'x", "IT|'|S| '|S| ''|s| '|x"},
        {"'", "'"},
        {"'l", "'|l"},
        {"'re", "'re"},
        {"a1b22 333", "a|1|b|22| 333"},
        {"x  y   z", "x| | y|  | z"},
        {"end  ", "end|  "},
        {"  start", " | start"},
        {"a\n\nb", "a|\n|\n|b"},
        {"a\n  b", "a|\n | b"},
        {"a\r\nb", "a|\r|\n|b"},
        {"a \n b", "a| \n| b"},
        {"f(x)+=1;", "f|(|x|)+=|1|;"},
        {" ", " "},
        {"\t\t", "\t\t"},
        {"\tx", "\t|x"},
    };
    check(TOKENIZER_WORDS_GPT2, examples, sizeof examples / sizeof examples[0]);
}

static void takes_each_number_alone_first_where_the_rule_says_so(void **state) {
    static const struct example examples[] = {
        {"a1b22 333", "a|1|b|2|2| |3|3|3"},
        {"x  7", "x|  |7"},
        {"x \n7 y", "x| \n|7| y"},
        {"3.14", "3|.|1|4"},
        {"\xD9\xA3\xD9\xA4", "\xD9\xA3|\xD9\xA4"},                 /* Arabic digits */
        {"x\xC2\xB2\xE2\x85\xA7 y", "x|\xC2\xB2|\xE2\x85\xA7| y"}, /* squared, Roman eight */
        {"\xE4\xBA\x8C"
         "1\xE5\x88\x86",
         "\xE4\xBA\x8C|1|\xE5\x88\x86"}, /* Han: letters */
    };
    check(TOKENIZER_WORDS_DIGITS_THEN_GPT2, examples, sizeof examples / sizeof examples[0]);
}

static void knows_white_space_and_marks_of_all_scripts(void **state) {
    static const struct example examples[] = {
        {"a\xE2\x80\xA8\xE2\x80\xA9"
         "b",
         "a|\xE2\x80\xA8|\xE2\x80\xA9|b"}, /* U+2028 U+2029 */
        {"a\xC2\xA0"
         "b",
         "a|\xC2\xA0|b"},                                            /* no-break space */
        {"a\xE3\x80\x80\xE3\x80\x80", "a|\xE3\x80\x80\xE3\x80\x80"}, /* ideographic */
        {"e\xCC\x81t\xC3\xA9", "e|\xCC\x81|t\xC3\xA9"},              /* combining acute */
        {"a\xE2\x80\x8B"
         "b",
         "a|\xE2\x80\x8B|b"}, /* zero width space */
        {"\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C", "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C"},
        {" \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
         " \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80"}, /* emoji joined by ZWJ */
    };
    check(TOKENIZER_WORDS_GPT2, examples, sizeof examples / sizeof examples[0]);
}

static void takes_bytes_that_are_no_utf8_as_punctuation(void **state) {
    static const struct example examples[] = {
        {"a\xFF\xFE"
         "b",
         "a|\xFF\xFE|b"},
        {" \x80x", " \x80|x"},
        {"\xE4\xBD", "\xE4\xBD"},
        {"x\xE4\xBD"
         "1",
         "x|\xE4\xBD|1"},
    };
    check(TOKENIZER_WORDS_GPT2, examples, sizeof examples / sizeof examples[0]);
    check(TOKENIZER_WORDS_DIGITS_THEN_GPT2, examples, sizeof examples / sizeof examples[0]);
}

static void finds_rules_by_exact_name_only(void **state) {
    enum tokenizer_words_rule rule;
    assert_true(tokenizer_words_find((struct text_span){"smollm", 6}, &rule));
    assert_int_equal(rule, TOKENIZER_WORDS_DIGITS_THEN_GPT2);
    assert_true(tokenizer_words_find((struct text_span){"gpt-2", 5}, &rule));
    assert_int_equal(rule, TOKENIZER_WORDS_GPT2);
    assert_false(tokenizer_words_find((struct text_span){"smollm", 5}, &rule));
    assert_false(tokenizer_words_find((struct text_span){"gpt-22", 6}, &rule));
    assert_false(tokenizer_words_find((struct text_span){"default", 7}, &rule));
    assert_false(tokenizer_words_find((struct text_span){NULL, 0}, &rule));
}

TEST_MAIN(cmocka_unit_test(cuts_as_gpt2_does),
          cmocka_unit_test(takes_each_number_alone_first_where_the_rule_says_so),
          cmocka_unit_test(knows_white_space_and_marks_of_all_scripts),
          cmocka_unit_test(takes_bytes_that_are_no_utf8_as_punctuation),
          cmocka_unit_test(finds_rules_by_exact_name_only))
