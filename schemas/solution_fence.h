/* A code fence of an answer: three or more ` or ~ at the start of a line, and the language that
 * stands behind them.
 *
 * Pure functions; any thread; no memory. */
#ifndef SOLFLEET_SCHEMAS_SOLUTION_FENCE_H
#define SOLFLEET_SCHEMAS_SOLUTION_FENCE_H

#include <stdbool.h>
#include <stddef.h>

struct solution_fence {
    char mark; /* 0: none is open */
    size_t mark_count;
    const char *tag; /* what stands behind the marks; [tag_bytes] */
    size_t tag_bytes;
};

/* True when a line (without its line break) opens a fence. */
bool solution_fence_open(const char *line, size_t line_bytes, struct solution_fence *out);
bool solution_fence_closes(const struct solution_fence *fence, const char *line, size_t line_bytes);

/* The language that a tag names, in our words: `py` is python, `c++` is cpp. False where it names
 * none: then *name is as it was. */
bool solution_fence_language(const char *tag, size_t tag_bytes, char *name, size_t name_bytes);

#endif
