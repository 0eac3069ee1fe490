/* Eight bytes of a JSON string looked at together, for the reader and the writer of JSON.
 *
 * Pure, any thread. Knows nothing of where the string ends. */
#ifndef SOLFLEET_SCHEMAS_JSON_SCAN_H
#define SOLFLEET_SCHEMAS_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define JSON_SCAN_BYTES 8

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte must be the lowest");

/* Nonzero if a byte of the word is below `limit` (<= 0x80); the lowest bit set tells which first,
 * since a borrow that falsifies a byte comes from a lower one that is below the limit. */
static inline uint64_t json_scan_below(uint64_t word, uint64_t limit) {
    return (word - 0x0101010101010101u * limit) & ~word & 0x8080808080808080u;
}

/* How many of the eight bytes come before the first quote, backslash or control character. */
static inline size_t json_scan_plain(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    const uint64_t found = json_scan_below(word, 0x20) |
                           json_scan_below(word ^ 0x2222222222222222u, 1) |
                           json_scan_below(word ^ 0x5C5C5C5C5C5C5C5Cu, 1);
    return found == 0 ? JSON_SCAN_BYTES : (size_t)__builtin_ctzll(found) / 8;
}

#endif
