#include "engine/kv_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The idle pages form a ring through the scratch page: its `newer` is the oldest of them, its
 * `older` the newest. */

bool kv_pages_init(struct kv_pages *pages, uint32_t page_count) {
    assert(page_count >= 2 && page_count <= KV_PAGES_MAX);
    memset(pages, 0, sizeof *pages);
    pages->free = calloc(page_count, sizeof *pages->free);
    pages->pages = calloc(page_count, sizeof *pages->pages);
    if (pages->free == NULL || pages->pages == NULL) {
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
    free(pages->pages);
    memset(pages, 0, sizeof *pages);
}

static struct kv_page *kv_pages_at(struct kv_pages *pages, int32_t page) {
    assert(page > KV_PAGES_SCRATCH && (uint32_t)page < pages->page_count);
    return &pages->pages[page];
}

static void kv_pages_link_idle(struct kv_pages *pages, int32_t page) {
    struct kv_page *ends = &pages->pages[KV_PAGES_SCRATCH];
    struct kv_page *entry = &pages->pages[page];
    entry->older = ends->older;
    entry->newer = KV_PAGES_SCRATCH;
    pages->pages[entry->older].newer = page;
    ends->older = page;
    pages->idle_count++;
}

static void kv_pages_unlink_idle(struct kv_pages *pages, int32_t page) {
    const struct kv_page *entry = &pages->pages[page];
    pages->pages[entry->older].newer = entry->newer;
    pages->pages[entry->newer].older = entry->older;
    pages->idle_count--;
}

int32_t kv_pages_take(struct kv_pages *pages, bool *was_kept) {
    int32_t page = KV_PAGES_NONE;
    *was_kept = false;
    if (pages->free_count > 0) {
        page = pages->free[--pages->free_count];
    } else if (pages->idle_count > 0) {
        page = pages->pages[KV_PAGES_SCRATCH].newer;
        kv_pages_unlink_idle(pages, page);
        *was_kept = true;
    } else {
        return KV_PAGES_NONE;
    }
    assert(pages->pages[page].references == 0 && pages->pages[page].is_kept == *was_kept);
    pages->pages[page].is_kept = false;
    pages->pages[page].references = 1;
    return page;
}

int32_t kv_pages_foresee(const struct kv_pages *pages, uint32_t index) {
    if (index < pages->free_count) {
        return pages->free[pages->free_count - 1 - index];
    }
    if (index >= kv_pages_available_count(pages)) {
        return KV_PAGES_NONE;
    }
    int32_t page = pages->pages[KV_PAGES_SCRATCH].newer;
    for (uint32_t left = index - pages->free_count; left > 0; left--) {
        page = pages->pages[page].newer;
    }
    return page;
}

void kv_pages_share(struct kv_pages *pages, int32_t page) {
    struct kv_page *entry = kv_pages_at(pages, page);
    assert(entry->references > 0 || entry->is_kept);
    if (entry->references == 0) {
        kv_pages_unlink_idle(pages, page);
    }
    entry->references++;
}

void kv_pages_release(struct kv_pages *pages, int32_t page) {
    struct kv_page *entry = kv_pages_at(pages, page);
    assert(entry->references > 0);
    if (--entry->references > 0) {
        return;
    }
    if (entry->is_kept) {
        kv_pages_link_idle(pages, page);
    } else {
        pages->free[pages->free_count++] = page;
    }
}

void kv_pages_keep(struct kv_pages *pages, int32_t page) {
    struct kv_page *entry = kv_pages_at(pages, page);
    assert(entry->references > 0);
    entry->is_kept = true;
}

uint32_t kv_pages_used_count(const struct kv_pages *pages) {
    return pages->page_count - 1 - kv_pages_available_count(pages);
}

uint32_t kv_pages_available_count(const struct kv_pages *pages) {
    return pages->free_count + pages->idle_count;
}
