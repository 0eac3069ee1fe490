/* A prefix cache: which page holds the keys and values of which beginning of a prompt.
 *
 * A page is found by what came before it (the page of the 16 tokens before, which stands for all
 * preceding ones), its own 16 tokens and its owner; all of that is compared, the hash only says
 * where to look. The owner is a tenant, or nobody where every token so far is the program's own.
 * Checkpoint, policy, numerics and the type of keys and values need no place in a key: a cache
 * belongs to one engine, which has one of each.
 *
 * A page that leaves the cache takes its generation with it, so nothing that was entered behind it
 * can be found behind another page in its place. One thread. Memory: reserved by prefix_cache_init,
 * an entry a page. Refuses to know who holds pages and when they are given up. */
#ifndef SOLFLEET_ENGINE_PREFIX_CACHE_H
#define SOLFLEET_ENGINE_PREFIX_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/kv_pages.h"
#include "kernels/ops.h"
#include "schemas/job.h"

struct prefix_key {
    int32_t parent;        /* the page of the tokens before; KV_PAGES_SCRATCH: there are none */
    const int32_t *tokens; /* [KV_PAGE_TOKENS] */
    const char *owner;     /* a tenant, "" where a job names none; NULL: nobody's */
};

/* Where to look for a key; `generation` is its parent's. For tests that force collisions. */
typedef uint64_t prefix_cache_hash(const struct prefix_key *key, uint64_t generation);

struct prefix_entry {
    bool is_used;
    bool has_owner;
    int32_t parent;
    uint64_t parent_generation;
    uint64_t generation; /* how many times the page has left the cache */
    uint32_t bucket;
    int32_t next; /* in the bucket; KV_PAGES_NONE ends it */
    int32_t tokens[KV_PAGE_TOKENS];
    char owner[JOB_TENANT_BYTES_MAX + 1];
};

struct prefix_cache {
    prefix_cache_hash *hash;
    struct prefix_entry *entries; /* [page_count], by page */
    int32_t *buckets;             /* [bucket_count]; a power of two */
    uint32_t page_count, bucket_count;
};

/* False when memory ran out; *cache is then zeroed. `hash` may be NULL: the usual one. */
bool prefix_cache_init(struct prefix_cache *cache, uint32_t page_count, prefix_cache_hash *hash)
    __attribute__((warn_unused_result));
void prefix_cache_deinit(struct prefix_cache *cache); /* accepts zeroed */

/* The page of a key, or KV_PAGES_NONE. */
int32_t prefix_cache_find(const struct prefix_cache *cache, const struct prefix_key *key);
/* Enters a page that is in no other entry, under a key that is not found. */
void prefix_cache_add(struct prefix_cache *cache, const struct prefix_key *key, int32_t page);
/* Takes a page out that is in the cache. */
void prefix_cache_forget(struct prefix_cache *cache, int32_t page);

#endif
