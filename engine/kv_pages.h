/* The pages of a KV cache: which are free, and how many sequences hold each that is not.
 *
 * Numbers only: page 0 is the scratch page of padded rows and is never given out. One thread.
 * Memory: reserved by kv_pages_init. Refuses to know what a page stores and who holds it. */
#ifndef SOLFLEET_ENGINE_KV_PAGES_H
#define SOLFLEET_ENGINE_KV_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define KV_PAGES_SCRATCH 0
#define KV_PAGES_NONE (-1)
#define KV_PAGES_MAX (1u << 28) /* page numbers are i32 on the device */

struct kv_pages {
    uint32_t page_count; /* the scratch page included */
    uint32_t free_count;
    int32_t *free;        /* [page_count]; a stack: the page freed last is given out next */
    uint32_t *references; /* [page_count]; 0 = free */
};

/* False when memory ran out; *pages is then zeroed. page_count >= 2. */
bool kv_pages_init(struct kv_pages *pages, uint32_t page_count) __attribute__((warn_unused_result));
void kv_pages_deinit(struct kv_pages *pages); /* accepts zeroed */

/* A page with one reference, or KV_PAGES_NONE when none is free. */
int32_t kv_pages_take(struct kv_pages *pages);
/* One more holder of a page that is held. */
void kv_pages_share(struct kv_pages *pages, int32_t page);
/* One holder less; the last one frees the page. */
void kv_pages_release(struct kv_pages *pages, int32_t page);

/* Held pages, the scratch page left out. */
uint32_t kv_pages_used_count(const struct kv_pages *pages);

#endif
