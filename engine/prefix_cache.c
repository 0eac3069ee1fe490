#include "engine/prefix_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint64_t prefix_cache_mix(uint64_t state, uint64_t value) {
    state = (state ^ value) * 0x9E3779B97F4A7C15u;
    return state ^ (state >> 29);
}

static uint64_t prefix_cache_hash_key(const struct prefix_key *key, uint64_t generation) {
    uint64_t state = prefix_cache_mix((uint64_t)key->parent, generation);
    for (uint32_t i = 0; i < KV_PAGE_TOKENS; i++) {
        state = prefix_cache_mix(state, (uint32_t)key->tokens[i]);
    }
    for (const char *at = key->owner; at != NULL && *at != '\0'; at++) {
        state = prefix_cache_mix(state, (unsigned char)*at);
    }
    return prefix_cache_mix(state, key->owner != NULL);
}

static uint32_t prefix_cache_bucket_count(uint32_t page_count) {
    uint32_t count = 2;
    while (count < page_count) {
        count *= 2;
    }
    return count;
}

bool prefix_cache_init(struct prefix_cache *cache, uint32_t page_count, prefix_cache_hash *hash) {
    assert(page_count >= 2 && page_count <= KV_PAGES_MAX);
    memset(cache, 0, sizeof *cache);
    cache->hash = hash != NULL ? hash : prefix_cache_hash_key;
    cache->page_count = page_count;
    cache->bucket_count = prefix_cache_bucket_count(page_count);
    cache->entries = calloc(page_count, sizeof *cache->entries);
    cache->buckets = malloc(cache->bucket_count * sizeof *cache->buckets);
    if (cache->entries == NULL || cache->buckets == NULL) {
        prefix_cache_deinit(cache);
        return false;
    }
    for (uint32_t i = 0; i < cache->bucket_count; i++) {
        cache->buckets[i] = KV_PAGES_NONE;
    }
    return true;
}

void prefix_cache_deinit(struct prefix_cache *cache) {
    free(cache->entries);
    free(cache->buckets);
    memset(cache, 0, sizeof *cache);
}

static uint64_t prefix_cache_generation(const struct prefix_cache *cache, int32_t page) {
    assert(page >= KV_PAGES_SCRATCH && (uint32_t)page < cache->page_count);
    return cache->entries[page].generation;
}

static uint32_t prefix_cache_bucket(const struct prefix_cache *cache,
                                    const struct prefix_key *key) {
    uint64_t hash = cache->hash(key, prefix_cache_generation(cache, key->parent));
    return (uint32_t)(hash & (cache->bucket_count - 1));
}

static bool prefix_cache_matches(const struct prefix_cache *cache, const struct prefix_entry *entry,
                                 const struct prefix_key *key) {
    return entry->parent == key->parent &&
           entry->parent_generation == prefix_cache_generation(cache, key->parent) &&
           memcmp(entry->tokens, key->tokens, sizeof entry->tokens) == 0 &&
           entry->has_owner == (key->owner != NULL) &&
           (key->owner == NULL || strcmp(entry->owner, key->owner) == 0);
}

int32_t prefix_cache_find(const struct prefix_cache *cache, const struct prefix_key *key) {
    int32_t page = cache->buckets[prefix_cache_bucket(cache, key)];
    while (page != KV_PAGES_NONE && !prefix_cache_matches(cache, &cache->entries[page], key)) {
        page = cache->entries[page].next;
    }
    return page;
}

void prefix_cache_add(struct prefix_cache *cache, const struct prefix_key *key, int32_t page) {
    assert(page > KV_PAGES_SCRATCH && (uint32_t)page < cache->page_count);
    struct prefix_entry *entry = &cache->entries[page];
    assert(!entry->is_used);
    entry->is_used = true;
    entry->parent = key->parent;
    entry->parent_generation = prefix_cache_generation(cache, key->parent);
    memcpy(entry->tokens, key->tokens, sizeof entry->tokens);
    entry->has_owner = key->owner != NULL;
    if (key->owner != NULL) {
        size_t bytes = strlen(key->owner);
        assert(bytes < sizeof entry->owner);
        memcpy(entry->owner, key->owner, bytes + 1);
    }
    entry->bucket = prefix_cache_bucket(cache, key);
    entry->next = cache->buckets[entry->bucket];
    cache->buckets[entry->bucket] = page;
}

void prefix_cache_forget(struct prefix_cache *cache, int32_t page) {
    assert(page > KV_PAGES_SCRATCH && (uint32_t)page < cache->page_count);
    struct prefix_entry *entry = &cache->entries[page];
    assert(entry->is_used);
    int32_t *link = &cache->buckets[entry->bucket];
    while (*link != page) {
        link = &cache->entries[*link].next;
    }
    *link = entry->next;
    entry->is_used = false;
    entry->generation++;
}
