#include "engine/unicode.h"

#include <stdbool.h>

#include "engine/unicode_tables.h"

static bool contains(const struct unicode_range *ranges, size_t count, uint32_t code_point) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code_point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && ranges[low].first <= code_point;
}

static enum unicode_class ascii_class_of(uint32_t code_point) {
    const uint32_t lower = code_point | 0x20u;
    if (lower >= 'a' && lower <= 'z') {
        return UNICODE_LETTER;
    }
    if (code_point >= '0' && code_point <= '9') {
        return UNICODE_NUMBER;
    }
    if (code_point == ' ' || (code_point >= '\t' && code_point <= '\r')) {
        return UNICODE_SPACE;
    }
    return UNICODE_OTHER;
}

enum unicode_class unicode_class_of(uint32_t code_point) {
    if (code_point < 0x80) {
        return ascii_class_of(code_point);
    }
    if (contains(unicode_tables_letters, unicode_tables_letters_count, code_point)) {
        return UNICODE_LETTER;
    }
    if (contains(unicode_tables_numbers, unicode_tables_numbers_count, code_point)) {
        return UNICODE_NUMBER;
    }
    if (contains(unicode_tables_spaces, unicode_tables_spaces_count, code_point)) {
        return UNICODE_SPACE;
    }
    return UNICODE_OTHER;
}
