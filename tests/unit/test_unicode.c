#include "engine/unicode.h"

#include "engine/unicode_tables.h"
#include "tests/support/test.h"

static void classifies_what_tokenizers_stumble_over(void **state) {
    static const struct {
        uint32_t code_point;
        enum unicode_class class;
    } cases[] = {
        {'a', UNICODE_LETTER},     {'Z', UNICODE_LETTER},    {'@', UNICODE_OTHER},
        {'[', UNICODE_OTHER},      {'`', UNICODE_OTHER},     {'{', UNICODE_OTHER},
        {'0', UNICODE_NUMBER},     {'9', UNICODE_NUMBER},    {'_', UNICODE_OTHER},
        {0x00, UNICODE_OTHER},     {0x08, UNICODE_OTHER},    {0x09, UNICODE_SPACE},
        {0x0D, UNICODE_SPACE},     {0x0E, UNICODE_OTHER},    {0x1C, UNICODE_OTHER},
        {0x7F, UNICODE_OTHER},     {0x85, UNICODE_SPACE},    {0xA0, UNICODE_SPACE},
        {0xAA, UNICODE_LETTER},    {0xB2, UNICODE_NUMBER},   {0xBD, UNICODE_NUMBER},
        {0xD7, UNICODE_OTHER},     {0x0301, UNICODE_OTHER},  {0x0660, UNICODE_NUMBER},
        {0x0966, UNICODE_NUMBER},  {0x180E, UNICODE_OTHER},  {0x200B, UNICODE_OTHER},
        {0x200D, UNICODE_OTHER},   {0x2028, UNICODE_SPACE},  {0x2029, UNICODE_SPACE},
        {0x202F, UNICODE_SPACE},   {0x2168, UNICODE_NUMBER}, {0x3000, UNICODE_SPACE},
        {0x3007, UNICODE_NUMBER},  {0x4F60, UNICODE_LETTER}, {0x9FFF, UNICODE_LETTER},
        {0xFEFF, UNICODE_OTHER},   {0xFF11, UNICODE_NUMBER}, {0x1F600, UNICODE_OTHER},
        {0x20000, UNICODE_LETTER}, {0xE0001, UNICODE_OTHER}, {0x10FFFF, UNICODE_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (unicode_class_of(cases[i].code_point) != cases[i].class) {
            fail_msg("U+%04X is not of class %d", (unsigned)cases[i].code_point,
                     (int)cases[i].class);
        }
    }
}

static void keeps_its_tables_in_order_and_apart(void **state) {
    const struct {
        const struct unicode_range *ranges;
        size_t count;
        enum unicode_class class;
    } tables[] = {
        {unicode_tables_letters, unicode_tables_letters_count, UNICODE_LETTER},
        {unicode_tables_numbers, unicode_tables_numbers_count, UNICODE_NUMBER},
        {unicode_tables_spaces, unicode_tables_spaces_count, UNICODE_SPACE},
    };
    for (size_t t = 0; t < 3; t++) {
        assert_true(tables[t].count > 0);
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct unicode_range range = tables[t].ranges[i];
            assert_true(range.first <= range.last);
            assert_true(i == 0 || tables[t].ranges[i - 1].last + 1 < range.first);
            /* The table asked first wins, so agreement here means that they do not overlap. */
            for (uint32_t c = range.first; c <= range.last; c++) {
                assert_int_equal(unicode_class_of(c), tables[t].class);
            }
        }
    }
}

/* The totals of Unicode 16.0: what a damaged table would miss. */
static void knows_as_many_as_the_standard_counts(void **state) {
    size_t counts[4] = {0};
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        counts[unicode_class_of(code_point)]++;
    }
    assert_int_equal(counts[UNICODE_LETTER], 141028);
    assert_int_equal(counts[UNICODE_NUMBER], 1911);
    assert_int_equal(counts[UNICODE_SPACE], 25);
}

TEST_MAIN(cmocka_unit_test(classifies_what_tokenizers_stumble_over),
          cmocka_unit_test(keeps_its_tables_in_order_and_apart),
          cmocka_unit_test(knows_as_many_as_the_standard_counts))
