/* engine/kv_cache: what is shared with whom, and the books beside a plain version of them. */
#include "engine/kv_cache.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

enum { TOKENS_MAX = 96, HOLD_PAGES = 10 };

static uint64_t hash_alike(const struct prefix_key *key, uint64_t generation) {
    (void)key;
    (void)generation;
    return 0;
}

struct holder {
    int32_t pages[HOLD_PAGES];
    int32_t tokens[TOKENS_MAX];
    struct kv_hold hold;
    struct kv_prompt prompt;
};

/* A prompt of `count` tokens: `same` first ones that all prompts have, then those of `kind`. */
static void holder_init(struct holder *holder, uint32_t count, uint32_t same, int32_t kind,
                        const char *owner) {
    memset(holder, 0, sizeof *holder);
    for (uint32_t i = 0; i < count; i++) {
        holder->tokens[i] = i < same ? (int32_t)i : 1000 * kind + (int32_t)i;
    }
    holder->hold.pages = holder->pages;
    holder->prompt =
        (struct kv_prompt){.tokens = holder->tokens, .token_count = count, .owner = owner};
}

static void begin(struct kv_cache *cache, struct holder *holder, uint32_t page_count) {
    assert_true(kv_cache_begin(cache, &holder->hold, &holder->prompt, page_count));
}

/* How many pages such a prompt finds in the cache. */
static uint32_t reused_by(struct kv_cache *cache, struct holder *holder) {
    begin(cache, holder, 7);
    uint32_t count = holder->hold.reused_count;
    kv_cache_release(cache, &holder->hold);
    return count;
}

static void open_filled(struct kv_cache *cache, const struct holder *first) {
    struct holder copy = *first;
    copy.hold.pages = copy.pages;
    copy.prompt.tokens = copy.tokens;
    assert_true(kv_cache_init(cache, 30, true, hash_alike));
    begin(cache, &copy, 7);
    assert_int_equal(copy.hold.reused_count, 0);
    kv_cache_offer(cache, &copy.hold, &copy.prompt, copy.prompt.token_count);
    kv_cache_release(cache, &copy.hold);
    assert_int_equal(kv_pages_used_count(&cache->pages), 0);
}

static void shares_whole_pages_before_the_last_token_of_a_prompt(void **state) {
    static const struct {
        uint32_t tokens, shared;
    } cases[] = {{1, 0}, {16, 0}, {17, 1}, {32, 1}, {33, 2}, {96, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kv_cache cache;
        struct holder one, two;
        holder_init(&one, cases[i].tokens, 0, 1, "a");
        holder_init(&two, cases[i].tokens, 0, 1, "a");
        open_filled(&cache, &one);
        assert_int_equal(reused_by(&cache, &two), cases[i].shared);
        kv_cache_deinit(&cache);
    }
}

static void shares_as_far_as_prompts_are_alike(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 90, 40, 1, "a");
    open_filled(&cache, &one);
    holder_init(&two, 90, 40, 2, "a");
    assert_int_equal(reused_by(&cache, &two), 2); /* of 40 tokens alike, 32 are whole pages */
    holder_init(&two, 34, 34, 1, "a");
    assert_int_equal(reused_by(&cache, &two), 2);
    holder_init(&two, 90, 40, 1, "a");
    two.tokens[0]++; /* nothing can be alike behind another beginning */
    assert_int_equal(reused_by(&cache, &two), 0);
    kv_cache_deinit(&cache);
}

static void keeps_tenants_apart_but_for_what_no_client_wrote(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 90, 90, 1, "a");
    one.prompt.shared_tokens = 47; /* pages 0 and 1; a client's token is in page 2 */
    open_filled(&cache, &one);
    holder_init(&two, 90, 90, 1, "b");
    two.prompt.shared_tokens = 47;
    assert_int_equal(reused_by(&cache, &two), 2);
    two.prompt.owner = "";
    assert_int_equal(reused_by(&cache, &two), 2);
    two.prompt.owner = "a";
    assert_int_equal(reused_by(&cache, &two), 5);
    two.prompt.shared_tokens = 0; /* the same tokens from a client are not the program's */
    assert_int_equal(reused_by(&cache, &two), 0);
    kv_cache_deinit(&cache);
}

static void offers_nothing_that_is_not_computed(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 90, 0, 1, "a");
    holder_init(&two, 90, 0, 1, "a");
    assert_true(kv_cache_init(&cache, 30, true, NULL));
    begin(&cache, &one, 6);
    assert_int_equal(reused_by(&cache, &two), 0);
    kv_cache_offer(&cache, &one.hold, &one.prompt, 31);
    assert_int_equal(reused_by(&cache, &two), 1);
    kv_cache_offer(&cache, &one.hold, &one.prompt, 48);
    kv_cache_release(&cache, &one.hold); /* as a job does whose later rows were bad */
    assert_int_equal(reused_by(&cache, &two), 3);
    kv_cache_deinit(&cache);
}

static void takes_over_what_another_offered_first(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 40, 0, 1, "a");
    holder_init(&two, 40, 0, 1, "a");
    assert_true(kv_cache_init(&cache, 30, true, NULL));
    begin(&cache, &one, 3);
    begin(&cache, &two, 3); /* both compute */
    assert_int_equal(two.hold.reused_count, 0);
    kv_cache_offer(&cache, &one.hold, &one.prompt, 40);
    two.hold.is_changed = false;
    kv_cache_offer(&cache, &two.hold, &two.prompt, 40);
    assert_true(two.hold.is_changed);
    assert_int_equal(two.pages[0], one.pages[0]);
    assert_int_equal(two.pages[1], one.pages[1]);
    assert_int_not_equal(two.pages[2], one.pages[2]);
    assert_int_equal(kv_pages_used_count(&cache.pages), 4);
    kv_cache_release(&cache, &one.hold);
    kv_cache_release(&cache, &two.hold);
    assert_int_equal(kv_pages_used_count(&cache.pages), 0);
    assert_int_equal(cache.pages.idle_count, 2);
    kv_cache_deinit(&cache);
}

static void gives_up_the_end_of_a_prompt_before_its_beginning(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 90, 0, 1, "a");
    open_filled(&cache, &one); /* 29 pages: 24 free and 5 kept */
    for (uint32_t left = 5; left > 0; left--) {
        struct kv_page *ends = &cache.pages.pages[KV_PAGES_SCRATCH];
        bool was_kept = false;
        while (!was_kept) {
            int32_t page = kv_pages_take(&cache.pages, &was_kept);
            if (was_kept) {
                prefix_cache_forget(&cache.prefixes, page);
            }
        }
        assert_int_equal(cache.pages.idle_count, left - 1);
        assert_true(left == 1 || ends->newer != KV_PAGES_SCRATCH);
        struct prefix_key key = {.tokens = one.tokens, .owner = "a"};
        for (uint32_t i = 0; i < left - 1; i++) {
            key.tokens = one.tokens + i * KV_PAGE_TOKENS;
            key.parent = prefix_cache_find(&cache.prefixes, &key);
            assert_int_not_equal(key.parent, KV_PAGES_NONE);
        }
    }
    holder_init(&two, 90, 0, 1, "a");
    assert_false(kv_cache_begin(&cache, &two.hold, &two.prompt, 6)); /* all held by this test */
    assert_int_equal(two.hold.page_count, 0);
    kv_cache_deinit(&cache);
}

static void holds_nothing_when_there_are_too_few_pages(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 40, 0, 1, "a");
    assert_true(kv_cache_init(&cache, 6, true, NULL)); /* 5 pages */
    begin(&cache, &one, 3);
    kv_cache_offer(&cache, &one.hold, &one.prompt, 40);
    holder_init(&two, 80, 40, 2, "a");
    assert_false(kv_cache_begin(&cache, &two.hold, &two.prompt, 6));
    assert_int_equal(two.hold.page_count, 0);
    assert_int_equal(kv_pages_used_count(&cache.pages), 3);
    assert_true(kv_cache_grow(&cache, &one.hold, 5));
    assert_false(kv_cache_grow(&cache, &one.hold, 6));
    assert_int_equal(one.hold.page_count, 5);
    kv_cache_release(&cache, &one.hold);
    holder_init(&two, 40, 0, 1, "a");
    begin(&cache, &two, 5); /* the two kept pages are its own, the other three are new */
    assert_int_equal(two.hold.reused_count, 2);
    kv_cache_release(&cache, &two.hold);
    kv_cache_deinit(&cache);
}

static void shares_nothing_when_told_not_to(void **state) {
    struct kv_cache cache;
    struct holder one, two;
    holder_init(&one, 90, 0, 1, "a");
    holder_init(&two, 90, 0, 1, "a");
    assert_true(kv_cache_init(&cache, 30, false, NULL));
    begin(&cache, &one, 7);
    kv_cache_offer(&cache, &one.hold, &one.prompt, 90);
    kv_cache_release(&cache, &one.hold);
    assert_int_equal(cache.pages.idle_count, 0);
    assert_int_equal(reused_by(&cache, &two), 0);
    kv_cache_deinit(&cache);
}

/* ---------------------------------------------------------------- the obvious version */

enum { BOOK_PAGES = 40, HOLDERS = 12 };

/* What a page holds, written down in full: who may see it and every token up to its end. */
struct content {
    bool is_offered;
    char owner[8];
    uint32_t token_count;
    int32_t tokens[TOKENS_MAX];
};

struct book {
    struct kv_cache cache;
    struct holder holders[HOLDERS];
    uint32_t computed[HOLDERS];
    struct content contents[BOOK_PAGES];
};

static struct content content_of(const struct holder *holder, uint32_t page) {
    struct content content = {.is_offered = true, .token_count = (page + 1) * KV_PAGE_TOKENS};
    bool is_everyones = content.token_count <= holder->prompt.shared_tokens;
    snprintf(content.owner, sizeof content.owner, "%s", is_everyones ? "*" : holder->prompt.owner);
    memcpy(content.tokens, holder->tokens, content.token_count * sizeof *content.tokens);
    return content;
}

static bool is_alike(const struct content *a, const struct content *b) {
    return a->is_offered == b->is_offered && strcmp(a->owner, b->owner) == 0 &&
           a->token_count == b->token_count &&
           memcmp(a->tokens, b->tokens, a->token_count * sizeof *a->tokens) == 0;
}

/* What was reused is what this prompt's own pages would hold, and nobody else's. */
static void assert_may_see(const struct book *book, const struct holder *holder) {
    for (uint32_t i = 0; i < holder->hold.reused_count; i++) {
        struct content wanted = content_of(holder, i);
        assert_true(is_alike(&book->contents[holder->pages[i]], &wanted));
    }
}

/* Every page is free, idle and offered, or held by exactly as many as it says. */
static void assert_books(const struct book *book) {
    uint32_t held[BOOK_PAGES] = {0}, free_count = 0, idle_count = 0;
    for (uint32_t h = 0; h < HOLDERS; h++) {
        for (uint32_t i = 0; i < book->holders[h].hold.page_count; i++) {
            held[book->holders[h].pages[i]]++;
        }
    }
    assert_int_equal(held[KV_PAGES_SCRATCH], 0);
    for (uint32_t page = 1; page < BOOK_PAGES; page++) {
        const struct kv_page *entry = &book->cache.pages.pages[page];
        assert_int_equal(entry->references, held[page]);
        assert_int_equal(entry->is_kept, book->cache.prefixes.entries[page].is_used);
        assert_int_equal(entry->is_kept, book->contents[page].is_offered);
        free_count += held[page] == 0 && !entry->is_kept;
        idle_count += held[page] == 0 && entry->is_kept;
    }
    assert_int_equal(book->cache.pages.free_count, free_count);
    assert_int_equal(book->cache.pages.idle_count, idle_count);
}

/* New pages of a hold, from `first` on, hold nothing that anybody may see. */
static void book_take(struct book *book, const struct holder *holder, uint32_t first) {
    for (uint32_t i = first; i < holder->hold.page_count; i++) {
        book->contents[holder->pages[i]] = (struct content){.is_offered = false};
    }
}

static void book_begin(struct book *book, uint32_t h, uint64_t *random) {
    static const char *const owners[] = {"", "a", "b"};
    struct holder *holder = &book->holders[h];
    uint32_t count = 1 + (uint32_t)(test_random(random) % TOKENS_MAX);
    uint32_t same = (uint32_t)(test_random(random) % (count + 1));
    holder_init(holder, count, same, (int32_t)(test_random(random) % 3),
                owners[test_random(random) % 3]);
    holder->prompt.shared_tokens = same < 40 ? same : 40;
    uint32_t pages = (count + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS + 1;
    if (kv_cache_begin(&book->cache, &holder->hold, &holder->prompt, pages)) {
        assert_may_see(book, holder);
        book_take(book, holder, holder->hold.reused_count);
        book->computed[h] = holder->hold.reused_count * KV_PAGE_TOKENS;
    } else {
        assert_int_equal(holder->hold.page_count, 0);
    }
}

static void book_compute(struct book *book, uint32_t h, uint64_t *random) {
    struct holder *holder = &book->holders[h];
    uint32_t left = holder->prompt.token_count - book->computed[h];
    book->computed[h] += (uint32_t)(test_random(random) % (left + 1));
    kv_cache_offer(&book->cache, &holder->hold, &holder->prompt, book->computed[h]);
    for (uint32_t i = 0; i < holder->hold.offered_count; i++) {
        struct content content = content_of(holder, i);
        const struct content *is = &book->contents[holder->pages[i]];
        assert_true(!is->is_offered || is_alike(is, &content));
        book->contents[holder->pages[i]] = content;
    }
}

static void keeps_every_page_free_cached_or_held_with_the_exact_count(void **state) {
    static struct book book;
    uint64_t random = test_seed();
    uint32_t reused = 0;
    memset(&book, 0, sizeof book);
    assert_true(kv_cache_init(&book.cache, BOOK_PAGES, true, hash_alike));
    for (int i = 0; i < 50000; i++) {
        uint32_t h = (uint32_t)(test_random(&random) % HOLDERS);
        struct holder *holder = &book.holders[h];
        uint32_t before = holder->hold.page_count;
        if (before == 0) {
            book_begin(&book, h, &random);
            reused += holder->hold.reused_count;
        } else if (test_random(&random) % 4 == 0) { /* ends, is cancelled or preempted */
            kv_cache_release(&book.cache, &holder->hold);
        } else if (test_random(&random) % 3 == 0 && before < HOLD_PAGES) {
            bool has_grown = kv_cache_grow(&book.cache, &holder->hold, before + 1);
            assert_int_equal(has_grown, holder->hold.page_count == before + 1);
            assert_true(has_grown || kv_pages_available_count(&book.cache.pages) == 0);
            book_take(&book, holder, before);
        } else {
            book_compute(&book, h, &random);
        }
        assert_books(&book);
    }
    assert_true(reused > 1000);
    kv_cache_deinit(&book.cache);
}

TEST_MAIN(cmocka_unit_test(shares_whole_pages_before_the_last_token_of_a_prompt),
          cmocka_unit_test(shares_as_far_as_prompts_are_alike),
          cmocka_unit_test(keeps_tenants_apart_but_for_what_no_client_wrote),
          cmocka_unit_test(offers_nothing_that_is_not_computed),
          cmocka_unit_test(takes_over_what_another_offered_first),
          cmocka_unit_test(gives_up_the_end_of_a_prompt_before_its_beginning),
          cmocka_unit_test(holds_nothing_when_there_are_too_few_pages),
          cmocka_unit_test(shares_nothing_when_told_not_to),
          cmocka_unit_test(keeps_every_page_free_cached_or_held_with_the_exact_count))
