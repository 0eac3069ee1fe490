/* A KV cache's books: the pages that each sequence holds, some of them shared with others.
 *
 * Puts the counts of kv_pages and the keys of prefix_cache together. Shared are whole pages of a
 * prompt, and never the one with its last token: that token is always computed, so nothing that is
 * shared is ever written again and nothing is copied. A page is offered to others once its rows
 * have been computed and were good; where another sequence offered the same page first, that page
 * is taken over and the own one given back. Two sequences that begin in the same step both compute.
 *
 * A page that nobody holds stays in the cache until pages are needed. A sequence's later pages go
 * before its earlier ones, so whatever is in the cache can be reached from the beginning.
 *
 * One thread. Memory: reserved by kv_cache_init; the list of a hold belongs to its owner. Refuses
 * to know jobs, steps and devices. */
#ifndef SOLFLEET_ENGINE_KV_CACHE_H
#define SOLFLEET_ENGINE_KV_CACHE_H

#include "engine/kv_pages.h"
#include "engine/prefix_cache.h"

struct kv_cache {
    struct kv_pages pages;
    struct prefix_cache prefixes;
    bool shares; /* false: every sequence computes its prompt by itself */
};

/* The prompt of a sequence, as far as sharing goes. */
struct kv_prompt {
    const int32_t *tokens;
    uint32_t token_count;
    uint32_t shared_tokens; /* of the first ones: no byte of them came from a client */
    const char *owner;      /* the tenant; "" where the job names none */
};

/* What one sequence holds. */
struct kv_hold {
    int32_t *pages;         /* [the most it will hold] */
    uint32_t page_count;    /* held */
    uint32_t reused_count;  /* of the first ones: found in the cache when it began */
    uint32_t offered_count; /* of the first ones: in the cache */
    bool is_changed;        /* pages since whoever copies the list has cleared this */
};

/* False when memory ran out; *cache is then zeroed. `hash` may be NULL; see prefix_cache.h. */
bool kv_cache_init(struct kv_cache *cache, uint32_t page_count, bool shares,
                   prefix_cache_hash *hash) __attribute__((warn_unused_result));
void kv_cache_deinit(struct kv_cache *cache); /* accepts zeroed */

/* Pages of a prompt that may be shared. */
uint32_t kv_cache_shareable_count(uint32_t prompt_tokens);

/* Holds page_count pages for an empty hold, the first ones from the cache where it has them. False
 * leaves it empty: there are not so many. */
bool kv_cache_begin(struct kv_cache *cache, struct kv_hold *hold, const struct kv_prompt *prompt,
                    uint32_t page_count) __attribute__((warn_unused_result));
/* Holds more, up to page_count in all. False: there are not so many; what was got is kept. */
bool kv_cache_grow(struct kv_cache *cache, struct kv_hold *hold, uint32_t page_count)
    __attribute__((warn_unused_result));
/* Offers what of the prompt is computed, its first `computed_tokens` positions, to others. */
void kv_cache_offer(struct kv_cache *cache, struct kv_hold *hold, const struct kv_prompt *prompt,
                    uint32_t computed_tokens);
/* Gives all pages up; those that were offered stay in the cache while there is room. */
void kv_cache_release(struct kv_cache *cache, struct kv_hold *hold);

#endif
