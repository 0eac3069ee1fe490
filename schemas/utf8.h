#ifndef SOLFLEET_SCHEMAS_UTF8_H
#define SOLFLEET_SCHEMAS_UTF8_H

/* UTF-8, read one code point at a time: no overlong forms, no surrogates, nothing above U+10FFFF.
 *
 * Pure functions: any thread, no memory. Knows no policy: U+0000 is a code point like any other,
 * and what to do about a bad byte is the caller's affair. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UTF8_BYTES_MAX = 4, /* of one code point */
};

enum utf8_kind {
    UTF8_WHOLE, /* a code point of `bytes` bytes */
    UTF8_CUT,   /* the text ends inside a code point; `bytes` is all that is left, 1 to 3 */
    UTF8_BAD,   /* `bytes` bytes (1 to 3) belong to no code point; one U+FFFD stands for them */
};

struct utf8_step {
    enum utf8_kind kind;
    uint32_t code_point; /* U+FFFD unless whole */
    size_t bytes;
};

/* Looks at the front of a text that is not empty. A bad run is the maximal subpart of the Unicode
 * standard (chapter 3.9), so replacing each bad step gives what other careful decoders give. */
struct utf8_step utf8_next(const char *text, size_t bytes);

/* Tells whether the whole text is UTF-8; if not, *bad_at (may be NULL) is where it first fails. */
bool utf8_is_valid(const char *text, size_t bytes, size_t *bad_at);

#endif
