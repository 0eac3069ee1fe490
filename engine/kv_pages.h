/* The pages of a KV cache: which are free, which are kept though nobody holds them, and how many
 * sequences hold each of the rest.
 *
 * Numbers only: page 0 is the scratch page of padded rows and is never given out. A page that is
 * marked as kept stays as it is when its last holder goes; such idle pages are given out again when
 * no other is free, the one that has been idle longest first. One thread. Memory: reserved by
 * kv_pages_init. Refuses to know what a page stores and who holds it. */
#ifndef SOLFLEET_ENGINE_KV_PAGES_H
#define SOLFLEET_ENGINE_KV_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define KV_PAGES_SCRATCH 0
#define KV_PAGES_NONE (-1)
#define KV_PAGES_MAX (1u << 28) /* page numbers are i32 on the device */

struct kv_page {
    uint32_t references;
    bool is_kept;
    int32_t older, newer; /* among the idle: kept, without a reference */
};

struct kv_pages {
    uint32_t page_count; /* the scratch page included */
    uint32_t free_count;
    uint32_t idle_count;
    int32_t *free;         /* [page_count]; a stack: the page freed last is given out next */
    struct kv_page *pages; /* [page_count]; the scratch page's links are the ends of the idle */
};

/* False when memory ran out; *pages is then zeroed. page_count >= 2. */
bool kv_pages_init(struct kv_pages *pages, uint32_t page_count) __attribute__((warn_unused_result));
void kv_pages_deinit(struct kv_pages *pages); /* accepts zeroed */

/* A page with one reference, or KV_PAGES_NONE when all are held. *was_kept: it was idle, and what
 * it stores is lost to whoever had it kept. */
int32_t kv_pages_take(struct kv_pages *pages, bool *was_kept);
/* What kv_pages_take would give as its call `index` (from 0) from now; KV_PAGES_NONE: none. */
int32_t kv_pages_foresee(const struct kv_pages *pages, uint32_t index);
/* One more holder of a page that is held or idle. */
void kv_pages_share(struct kv_pages *pages, int32_t page);
/* One holder less; the last one frees the page, or leaves it idle if it is kept. */
void kv_pages_release(struct kv_pages *pages, int32_t page);
/* From now on a held page is kept. */
void kv_pages_keep(struct kv_pages *pages, int32_t page);

/* Held pages, the scratch page left out. */
uint32_t kv_pages_used_count(const struct kv_pages *pages);
/* Pages that kv_pages_take could give out one after another. */
uint32_t kv_pages_available_count(const struct kv_pages *pages);

#endif
