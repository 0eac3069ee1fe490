#include "engine/kv_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool kv_pages_init(struct kv_pages *pages, uint32_t page_count) {
    assert(page_count >= 2 && page_count <= KV_PAGES_MAX);
    memset(pages, 0, sizeof *pages);
    pages->free = calloc(page_count, sizeof *pages->free);
    pages->references = calloc(page_count, sizeof *pages->references);
    if (pages->free == NULL || pages->references == NULL) {
        kv_pages_deinit(pages);
        return false;
    }
    pages->page_count = page_count;
    for (uint32_t page = page_count - 1; page > KV_PAGES_SCRATCH; page--) {
        pages->free[pages->free_count++] = (int32_t)page;
    }
    return true;
}

void kv_pages_deinit(struct kv_pages *pages) {
    free(pages->free);
    free(pages->references);
    memset(pages, 0, sizeof *pages);
}

int32_t kv_pages_take(struct kv_pages *pages) {
    if (pages->free_count == 0) {
        return KV_PAGES_NONE;
    }
    int32_t page = pages->free[--pages->free_count];
    assert(pages->references[page] == 0);
    pages->references[page] = 1;
    return page;
}

static bool kv_pages_is_held(const struct kv_pages *pages, int32_t page) {
    return page > KV_PAGES_SCRATCH && (uint32_t)page < pages->page_count &&
           pages->references[page] > 0;
}

void kv_pages_share(struct kv_pages *pages, int32_t page) {
    assert(kv_pages_is_held(pages, page));
    pages->references[page]++;
}

void kv_pages_release(struct kv_pages *pages, int32_t page) {
    assert(kv_pages_is_held(pages, page));
    if (--pages->references[page] == 0) {
        pages->free[pages->free_count++] = page;
    }
}

uint32_t kv_pages_used_count(const struct kv_pages *pages) {
    return pages->page_count - 1 - pages->free_count;
}
