/* engine/kv_pages. */
#include "engine/kv_pages.h"

#include "tests/support/test.h"

static int32_t take(struct kv_pages *pages) {
    bool was_kept;
    return kv_pages_take(pages, &was_kept);
}

static void never_gives_out_the_scratch_page(void **state) {
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, 4));
    for (int i = 0; i < 3; i++) {
        int32_t page = take(&pages);
        assert_in_range(page, 1, 3);
    }
    assert_int_equal(take(&pages), KV_PAGES_NONE);
    kv_pages_deinit(&pages);
}

static void frees_a_shared_page_with_its_last_holder(void **state) {
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, 2));
    int32_t page = take(&pages);
    kv_pages_share(&pages, page);
    kv_pages_release(&pages, page);
    assert_int_equal(take(&pages), KV_PAGES_NONE);
    kv_pages_release(&pages, page);
    assert_int_equal(take(&pages), page);
    kv_pages_deinit(&pages);
}

static void gives_out_free_pages_first_then_the_one_idle_longest(void **state) {
    struct kv_pages pages;
    int32_t held[4];
    bool was_kept = false;
    assert_true(kv_pages_init(&pages, 5));
    for (int i = 0; i < 4; i++) {
        held[i] = take(&pages);
    }
    for (int i = 0; i < 3; i++) {
        kv_pages_keep(&pages, held[i]);
    }
    kv_pages_release(&pages, held[1]);
    kv_pages_release(&pages, held[0]);
    kv_pages_release(&pages, held[2]);
    kv_pages_release(&pages, held[3]);
    kv_pages_share(&pages, held[1]); /* idle no longer */
    kv_pages_release(&pages, held[1]);
    assert_int_equal(kv_pages_used_count(&pages), 0);
    static const int foreseen[] = {3, 0, 2, 1};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(kv_pages_foresee(&pages, i), held[foreseen[i]]);
    }
    assert_int_equal(kv_pages_foresee(&pages, 4), KV_PAGES_NONE);
    assert_int_equal(kv_pages_take(&pages, &was_kept), held[3]);
    assert_false(was_kept);
    static const int order[] = {0, 2, 1};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kv_pages_take(&pages, &was_kept), held[order[i]]);
        assert_true(was_kept);
    }
    assert_int_equal(take(&pages), KV_PAGES_NONE);
    kv_pages_deinit(&pages);
}

enum { PAGES = 20 };

struct plain_page {
    uint32_t references;
    bool is_kept;
    int idle_since;
};

static void check_taken(struct plain_page *plain, int32_t page, bool was_kept) {
    int oldest = -1, has_free = 0;
    for (int p = 1; p < PAGES; p++) {
        bool is_idle = plain[p].references == 0 && plain[p].is_kept;
        has_free |= plain[p].references == 0 && !plain[p].is_kept;
        if (is_idle && (oldest < 0 || plain[p].idle_since < plain[oldest].idle_since)) {
            oldest = p;
        }
    }
    assert_true(has_free || page == oldest); /* -1: none */
    if (page != KV_PAGES_NONE) {
        assert_int_equal(plain[page].references, 0);
        assert_int_equal(was_kept, plain[page].is_kept);
        assert_int_equal(was_kept, !has_free);
        plain[page] = (struct plain_page){.references = 1};
    }
}

static void change(struct kv_pages *pages, struct plain_page *plain, int now, uint64_t *random) {
    int32_t page = 1 + (int32_t)(test_random(random) % (PAGES - 1));
    struct plain_page *entry = &plain[page];
    bool was_kept;
    switch (test_random(random) % 6) {
    case 0:
    case 1:
        page = kv_pages_take(pages, &was_kept);
        check_taken(plain, page, was_kept);
        return;
    case 2:
        if (entry->references > 0 || entry->is_kept) {
            kv_pages_share(pages, page);
            entry->references++;
        }
        return;
    case 3:
        if (entry->references > 0) {
            kv_pages_keep(pages, page);
            entry->is_kept = true;
        }
        return;
    default:
        if (entry->references > 0) {
            kv_pages_release(pages, page);
            entry->references--;
            entry->idle_since = now;
        }
    }
}

static void agrees_with_plain_counters_on_random_use(void **state) {
    uint64_t random = test_seed();
    struct plain_page plain[PAGES] = {{0}};
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, PAGES));
    for (int i = 0; i < 20000; i++) {
        uint32_t used = 0, idle = 0;
        change(&pages, plain, i, &random);
        for (int p = 1; p < PAGES; p++) {
            used += plain[p].references > 0;
            idle += plain[p].references == 0 && plain[p].is_kept;
        }
        assert_int_equal(kv_pages_used_count(&pages), used);
        assert_int_equal(pages.idle_count, idle);
        assert_int_equal(kv_pages_available_count(&pages), PAGES - 1 - used);
    }
    kv_pages_deinit(&pages);
}

TEST_MAIN(cmocka_unit_test(never_gives_out_the_scratch_page),
          cmocka_unit_test(frees_a_shared_page_with_its_last_holder),
          cmocka_unit_test(gives_out_free_pages_first_then_the_one_idle_longest),
          cmocka_unit_test(agrees_with_plain_counters_on_random_use))
