/* Pages by count: what a scheduler asks for its pages, where only their number matters.
 *
 * Every failure fails the running case. The test's memory. Knows no page by name. */
#ifndef SOLFLEET_TESTS_SUPPORT_COUNTED_PAGES_H
#define SOLFLEET_TESTS_SUPPORT_COUNTED_PAGES_H

#include "engine/scheduler.h"

enum { COUNTED_PAGES_HANDLES = 64 };

struct counted_pages {
    uint32_t total, held_total;
    uint32_t held[COUNTED_PAGES_HANDLES];
    uint32_t cached_tokens[COUNTED_PAGES_HANDLES]; /* what `begin` finds computed */
};

/* Makes a scheduler that holds its pages here; `counted` must outlive it. */
void counted_pages_init(struct scheduler *scheduler, const struct scheduler_limits *limits,
                        struct counted_pages *counted);

/* Pages for so many tokens. */
uint32_t counted_pages_of(uint32_t tokens);

#endif
