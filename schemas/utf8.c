#include "schemas/utf8.h"

#include <assert.h>
#include <string.h>

enum {
    REPLACEMENT = 0xFFFD,
};

/* What a lead byte asks of the bytes after it. Only the second byte has a range of its own: that
 * alone excludes overlong forms, surrogates and values above U+10FFFF. */
struct lead {
    size_t bytes; /* of the whole sequence; 0: not a lead byte */
    uint8_t second_min;
    uint8_t second_max;
};

static struct lead lead_of(uint8_t byte) {
    if (byte < 0x80) {
        return (struct lead){1, 0, 0};
    }
    if (byte < 0xC2 || byte > 0xF4) {
        return (struct lead){0, 0, 0};
    }
    if (byte < 0xE0) {
        return (struct lead){2, 0x80, 0xBF};
    }
    if (byte < 0xF0) {
        return (struct lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    }
    return (struct lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
}

struct utf8_step utf8_next(const char *text, size_t bytes) {
    assert(bytes > 0);
    const uint8_t first = (uint8_t)text[0];
    const struct lead lead = lead_of(first);
    if (lead.bytes == 0) {
        return (struct utf8_step){UTF8_BAD, REPLACEMENT, 1};
    }
    if (lead.bytes == 1) {
        return (struct utf8_step){UTF8_WHOLE, first, 1};
    }

    uint32_t code_point = first & (0x7Fu >> lead.bytes);
    for (size_t i = 1; i < lead.bytes; i++) {
        if (i == bytes) {
            return (struct utf8_step){UTF8_CUT, REPLACEMENT, i};
        }
        const uint8_t next = (uint8_t)text[i];
        const uint8_t min = i == 1 ? lead.second_min : 0x80;
        const uint8_t max = i == 1 ? lead.second_max : 0xBF;
        if (next < min || next > max) {
            return (struct utf8_step){UTF8_BAD, REPLACEMENT, i};
        }
        code_point = (code_point << 6) | (next & 0x3Fu);
    }
    return (struct utf8_step){UTF8_WHOLE, code_point, lead.bytes};
}

static bool is_ascii8(const char *text) {
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return (word & 0x8080808080808080u) == 0;
}

bool utf8_is_valid(const char *text, size_t bytes, size_t *bad_at) {
    size_t at = 0;
    while (at < bytes) {
        if ((uint8_t)text[at] < 0x80) { /* most text, most of the time */
            at += bytes - at >= 8 && is_ascii8(text + at) ? 8 : 1;
            continue;
        }
        const struct utf8_step step = utf8_next(text + at, bytes - at);
        if (step.kind != UTF8_WHOLE) {
            if (bad_at != NULL) {
                *bad_at = at;
            }
            return false;
        }
        at += step.bytes;
    }
    return true;
}
