#include "tests/support/counted_pages.h"

#include "tests/support/test.h"

static bool counted_pages_begin(void *context, uint32_t handle, uint32_t page_count,
                                uint32_t *computed_tokens) {
    struct counted_pages *pages = context;
    assert_int_equal(pages->held[handle], 0);
    if (page_count > pages->total - pages->held_total) {
        return false;
    }
    pages->held[handle] = page_count;
    pages->held_total += page_count;
    *computed_tokens = pages->cached_tokens[handle];
    return true;
}

static bool counted_pages_grow(void *context, uint32_t handle) {
    struct counted_pages *pages = context;
    if (pages->held_total == pages->total) {
        return false;
    }
    pages->held[handle]++;
    pages->held_total++;
    return true;
}

static void counted_pages_release(void *context, uint32_t handle) {
    struct counted_pages *pages = context;
    assert_true(pages->held[handle] > 0);
    pages->held_total -= pages->held[handle];
    pages->held[handle] = 0;
}

void counted_pages_init(struct scheduler *scheduler, const struct scheduler_limits *limits,
                        struct counted_pages *counted) {
    struct scheduler_pages pages = {counted, counted_pages_begin, counted_pages_grow,
                                    counted_pages_release};
    *counted = (struct counted_pages){.total = limits->pages_total};
    assert_true(scheduler_init(scheduler, limits, &pages));
}

uint32_t counted_pages_of(uint32_t tokens) {
    return (tokens + 15) / 16;
}
