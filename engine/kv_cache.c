#include "engine/kv_cache.h"

#include <assert.h>
#include <string.h>

bool kv_cache_init(struct kv_cache *cache, uint32_t page_count, bool shares,
                   prefix_cache_hash *hash) {
    memset(cache, 0, sizeof *cache);
    cache->shares = shares;
    if (!kv_pages_init(&cache->pages, page_count) ||
        (shares && !prefix_cache_init(&cache->prefixes, page_count, hash))) {
        kv_cache_deinit(cache);
        return false;
    }
    return true;
}

void kv_cache_deinit(struct kv_cache *cache) {
    kv_pages_deinit(&cache->pages);
    prefix_cache_deinit(&cache->prefixes);
    memset(cache, 0, sizeof *cache);
}

uint32_t kv_cache_shareable_count(uint32_t prompt_tokens) {
    assert(prompt_tokens >= 1);
    return (prompt_tokens - 1) / KV_PAGE_TOKENS;
}

/* The key of the prompt's page `index`, when the pages before it are in the cache. */
static struct prefix_key kv_cache_key(const struct kv_hold *hold, const struct kv_prompt *prompt,
                                      uint32_t index) {
    uint32_t end = (index + 1) * KV_PAGE_TOKENS;
    return (struct prefix_key){.parent = index == 0 ? KV_PAGES_SCRATCH : hold->pages[index - 1],
                               .tokens = prompt->tokens + (size_t)index * KV_PAGE_TOKENS,
                               .owner = end <= prompt->shared_tokens ? NULL : prompt->owner};
}

static void kv_cache_find(struct kv_cache *cache, struct kv_hold *hold,
                          const struct kv_prompt *prompt) {
    uint32_t count = kv_cache_shareable_count(prompt->token_count);
    for (uint32_t i = 0; i < count && cache->shares; i++) {
        struct prefix_key key = kv_cache_key(hold, prompt, i);
        int32_t page = prefix_cache_find(&cache->prefixes, &key);
        if (page == KV_PAGES_NONE) {
            return;
        }
        kv_pages_share(&cache->pages, page);
        hold->pages[hold->page_count++] = page;
    }
}

bool kv_cache_begin(struct kv_cache *cache, struct kv_hold *hold, const struct kv_prompt *prompt,
                    uint32_t page_count) {
    assert(hold->page_count == 0 && page_count > kv_cache_shareable_count(prompt->token_count));
    kv_cache_find(cache, hold, prompt);
    hold->reused_count = hold->page_count;
    hold->offered_count = hold->page_count;
    if (page_count - hold->page_count > kv_pages_available_count(&cache->pages)) {
        kv_cache_release(cache, hold);
        return false;
    }
    bool is_whole = kv_cache_grow(cache, hold, page_count);
    assert(is_whole); /* counted above */
    return true;
}

bool kv_cache_grow(struct kv_cache *cache, struct kv_hold *hold, uint32_t page_count) {
    while (hold->page_count < page_count) {
        bool was_kept;
        int32_t page = kv_pages_take(&cache->pages, &was_kept);
        if (page == KV_PAGES_NONE) {
            return false;
        }
        if (was_kept) {
            prefix_cache_forget(&cache->prefixes, page);
        }
        hold->pages[hold->page_count++] = page;
        hold->is_changed = true;
    }
    return true;
}

void kv_cache_offer(struct kv_cache *cache, struct kv_hold *hold, const struct kv_prompt *prompt,
                    uint32_t computed_tokens) {
    uint32_t shareable = kv_cache_shareable_count(prompt->token_count);
    uint32_t computed = computed_tokens / KV_PAGE_TOKENS;
    uint32_t count = computed < shareable ? computed : shareable;
    for (uint32_t i = hold->offered_count; i < count && cache->shares; i++) {
        struct prefix_key key = kv_cache_key(hold, prompt, i);
        int32_t other = prefix_cache_find(&cache->prefixes, &key);
        if (other == KV_PAGES_NONE) {
            prefix_cache_add(&cache->prefixes, &key, hold->pages[i]);
            kv_pages_keep(&cache->pages, hold->pages[i]);
        } else {
            kv_pages_share(&cache->pages, other);
            kv_pages_release(&cache->pages, hold->pages[i]);
            hold->pages[i] = other;
            hold->is_changed = true;
        }
        hold->offered_count = i + 1;
    }
}

void kv_cache_release(struct kv_cache *cache, struct kv_hold *hold) {
    while (hold->page_count > 0) {
        kv_pages_release(&cache->pages, hold->pages[--hold->page_count]);
    }
    hold->reused_count = 0;
    hold->offered_count = 0;
    hold->is_changed = true;
}
