#include "consumer/offset_metadata.h"

#include <assert.h>
#include <string.h>

#define PREFIX "sf1:"
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define RUN_BITS 5
#define RUN_CHARS_MAX 13 /* 63 bits */
#define MORE 32u

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t offset_metadata_put(char *out, int64_t run) {
    size_t size = 0;
    uint64_t left = (uint64_t)run;
    do {
        unsigned digit = (unsigned)(left % MORE);
        left >>= RUN_BITS;
        out[size++] = alphabet[digit + (left > 0 ? MORE : 0)];
    } while (left > 0);
    return size;
}

size_t offset_metadata_encode(int64_t mark, const struct offset_range *ranges, size_t count,
                              char *text, size_t text_bytes_max) {
    size_t used = PREFIX_BYTES;
    int64_t at = mark;
    for (size_t i = 0; i < count; i++) {
        char pair[2 * RUN_CHARS_MAX];
        assert(ranges[i].begin >= at && ranges[i].end > ranges[i].begin);
        size_t size = offset_metadata_put(pair, ranges[i].begin - at);
        size += offset_metadata_put(pair + size, ranges[i].end - ranges[i].begin);
        if (used + size > text_bytes_max) {
            break;
        }
        memcpy(text + used, pair, size);
        used += size;
        at = ranges[i].end;
    }
    if (used == PREFIX_BYTES) {
        text[0] = '\0';
        return 0;
    }
    memcpy(text, PREFIX, PREFIX_BYTES);
    text[used] = '\0';
    return used;
}

/* The value of a character; MORE * 2 for one that is none of ours. */
static unsigned offset_metadata_digit(char c) {
    const char *at = c != '\0' ? strchr(alphabet, c) : NULL;
    return at != NULL ? (unsigned)(at - alphabet) : 2 * MORE;
}

/* Takes a run off the text; false when it is broken or too long for an offset. */
static bool offset_metadata_take(const char **text, size_t *left, int64_t *run) {
    uint64_t value = 0;
    for (unsigned i = 0; i < RUN_CHARS_MAX && i < *left; i++) {
        unsigned digit = offset_metadata_digit((*text)[i]);
        if (digit >= 2 * MORE) {
            return false;
        }
        uint64_t bits = digit % MORE;
        if (RUN_BITS * i >= 60 && bits >= 8) { /* would be beyond an int64_t */
            return false;
        }
        value |= bits << (RUN_BITS * i);
        if (digit < MORE) {
            *text += i + 1;
            *left -= i + 1;
            *run = (int64_t)value;
            return true;
        }
    }
    return false;
}

/* Moves an offset on by a run; false beyond the largest. */
static bool offset_metadata_move(int64_t *at, int64_t run) {
    return !__builtin_add_overflow(*at, run, at);
}

static bool offset_metadata_read(int64_t at, const char *text, size_t left,
                                 struct offset_range *ranges, size_t *count) {
    while (left > 0) {
        int64_t unsettled, settled;
        if (*count == OFFSET_METADATA_RANGES_MAX ||
            !offset_metadata_take(&text, &left, &unsettled) ||
            !offset_metadata_take(&text, &left, &settled) || settled == 0 ||
            (unsettled == 0 && *count > 0) || !offset_metadata_move(&at, unsettled)) {
            return false;
        }
        ranges[*count].begin = at;
        if (!offset_metadata_move(&at, settled)) {
            return false;
        }
        ranges[(*count)++].end = at;
    }
    return true;
}

bool offset_metadata_decode(int64_t mark, const void *text, size_t text_bytes,
                            struct offset_range *ranges, size_t *count) {
    *count = 0;
    if (text_bytes == 0) {
        return true;
    }
    if (mark < 0 || text_bytes <= PREFIX_BYTES || text_bytes > OFFSET_METADATA_BYTES_MAX ||
        memcmp(text, PREFIX, PREFIX_BYTES) != 0 ||
        !offset_metadata_read(mark, (const char *)text + PREFIX_BYTES, text_bytes - PREFIX_BYTES,
                              ranges, count)) {
        *count = 0;
        return false;
    }
    return true;
}
