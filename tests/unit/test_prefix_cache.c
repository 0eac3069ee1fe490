/* engine/prefix_cache: what a key covers, with hashes that all collide too. */
#include "engine/prefix_cache.h"

#include <string.h>

#include "tests/support/test.h"

enum { PAGES = 16 };

static uint64_t hash_alike(const struct prefix_key *key, uint64_t generation) {
    (void)key;
    (void)generation;
    return 7;
}

static struct prefix_key key_of(int32_t parent, const int32_t *tokens, const char *owner) {
    return (struct prefix_key){.parent = parent, .tokens = tokens, .owner = owner};
}

static void fill(int32_t *tokens, int32_t first) {
    for (int32_t i = 0; i < (int32_t)KV_PAGE_TOKENS; i++) {
        tokens[i] = first + i;
    }
}

/* Keys that differ in one thing each are different keys, whatever their hashes. */
static void check_keys(prefix_cache_hash *hash) {
    struct prefix_cache cache;
    int32_t a[KV_PAGE_TOKENS], b[KV_PAGE_TOKENS];
    fill(a, 100);
    fill(b, 100);
    b[KV_PAGE_TOKENS - 1]++;
    assert_true(prefix_cache_init(&cache, PAGES, hash));
    const struct prefix_key keys[] = {
        key_of(0, a, NULL),  key_of(0, a, ""),    key_of(0, a, "one"), key_of(0, a, "two"),
        key_of(0, b, NULL),  key_of(0, b, "one"), key_of(1, a, NULL),  key_of(1, a, "one"),
        key_of(2, a, "one"), key_of(1, b, NULL),
    };
    enum { KEYS = sizeof keys / sizeof keys[0] };
    for (int32_t i = 0; i < KEYS; i++) {
        assert_int_equal(prefix_cache_find(&cache, &keys[i]), KV_PAGES_NONE);
        prefix_cache_add(&cache, &keys[i], i + 1);
    }
    for (int32_t i = 0; i < KEYS; i++) {
        assert_int_equal(prefix_cache_find(&cache, &keys[i]), i + 1);
    }
    for (int32_t i = KEYS - 1; i >= 0; i -= 2) { /* out of the middle of a bucket as well */
        prefix_cache_forget(&cache, i + 1);
    }
    for (int32_t i = 2; i < KEYS; i++) { /* behind 1 and 2: those of which went or stayed */
        bool is_gone = i % 2 == 1 || keys[i].parent == 2;
        assert_int_equal(prefix_cache_find(&cache, &keys[i]), is_gone ? KV_PAGES_NONE : i + 1);
    }
    prefix_cache_deinit(&cache);
}

static void compares_parent_tokens_and_owner_in_full(void **state) {
    check_keys(NULL);
}

static void compares_keys_whose_hashes_collide(void **state) {
    check_keys(hash_alike);
}

static void finds_nothing_behind_a_page_that_left_and_came_back(void **state) {
    struct prefix_cache cache;
    int32_t first[KV_PAGE_TOKENS], other[KV_PAGE_TOKENS], next[KV_PAGE_TOKENS];
    fill(first, 1);
    fill(other, 2);
    fill(next, 3);
    assert_true(prefix_cache_init(&cache, PAGES, hash_alike));
    const struct prefix_key root = key_of(KV_PAGES_SCRATCH, first, NULL);
    const struct prefix_key behind = key_of(5, next, NULL);
    prefix_cache_add(&cache, &root, 5);
    prefix_cache_add(&cache, &behind, 6);
    assert_int_equal(prefix_cache_find(&cache, &behind), 6);
    prefix_cache_forget(&cache, 5);
    const struct prefix_key instead = key_of(KV_PAGES_SCRATCH, other, NULL);
    prefix_cache_add(&cache, &instead, 5); /* the same page for another beginning */
    assert_int_equal(prefix_cache_find(&cache, &behind), KV_PAGES_NONE);
    assert_int_equal(prefix_cache_find(&cache, &root), KV_PAGES_NONE);
    prefix_cache_deinit(&cache);
}

static void holds_owners_of_any_length_apart(void **state) {
    struct prefix_cache cache;
    int32_t tokens[KV_PAGE_TOKENS];
    char one[JOB_TENANT_BYTES_MAX + 1], two[JOB_TENANT_BYTES_MAX + 1];
    fill(tokens, 1);
    memset(one, 'x', sizeof one);
    one[JOB_TENANT_BYTES_MAX] = '\0';
    memcpy(two, one, sizeof two);
    two[JOB_TENANT_BYTES_MAX - 1] = 'y';
    assert_true(prefix_cache_init(&cache, PAGES, hash_alike));
    const struct prefix_key a = key_of(0, tokens, one), b = key_of(0, tokens, two);
    prefix_cache_add(&cache, &a, 1);
    assert_int_equal(prefix_cache_find(&cache, &b), KV_PAGES_NONE);
    assert_int_equal(prefix_cache_find(&cache, &a), 1);
    prefix_cache_deinit(&cache);
}

TEST_MAIN(cmocka_unit_test(compares_parent_tokens_and_owner_in_full),
          cmocka_unit_test(compares_keys_whose_hashes_collide),
          cmocka_unit_test(finds_nothing_behind_a_page_that_left_and_came_back),
          cmocka_unit_test(holds_owners_of_any_length_apart))
