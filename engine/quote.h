#ifndef SOLFLEET_ENGINE_QUOTE_H
#define SOLFLEET_ENGINE_QUOTE_H

/* A quotation: the beginning of foreign bytes, made fit for a message that people read.
 *
 * Pure; any thread; no memory of its own. Refuses to know encodings: whatever is not printable
 * ASCII becomes one '?'. */

#include <stddef.h>

enum {
    QUOTE_SHOWN_BYTES = 40,
    QUOTE_BYTES = QUOTE_SHOWN_BYTES + 4, /* room for "..." and the terminator */
};

struct quote {
    char text[QUOTE_BYTES];
};

/* The first 40 bytes, with "..." where that is not all. A line break shows as a space. */
struct quote quote_of(const char *data, size_t bytes);

#endif
