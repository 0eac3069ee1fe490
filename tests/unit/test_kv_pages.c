/* engine/kv_pages. */
#include "engine/kv_pages.h"

#include "tests/support/test.h"

static void never_gives_out_the_scratch_page(void **state) {
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, 4));
    for (int i = 0; i < 3; i++) {
        int32_t page = kv_pages_take(&pages);
        assert_in_range(page, 1, 3);
    }
    assert_int_equal(kv_pages_take(&pages), KV_PAGES_NONE);
    kv_pages_deinit(&pages);
}

static void frees_a_shared_page_with_its_last_holder(void **state) {
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, 2));
    int32_t page = kv_pages_take(&pages);
    kv_pages_share(&pages, page);
    kv_pages_release(&pages, page);
    assert_int_equal(kv_pages_take(&pages), KV_PAGES_NONE);
    kv_pages_release(&pages, page);
    assert_int_equal(kv_pages_take(&pages), page);
    kv_pages_deinit(&pages);
}

static void agrees_with_plain_counters_on_random_use(void **state) {
    enum { PAGES = 20 };
    uint64_t random = test_seed();
    uint32_t held[PAGES] = {0};
    struct kv_pages pages;
    assert_true(kv_pages_init(&pages, PAGES));
    for (int i = 0; i < 20000; i++) {
        int32_t page = (int32_t)(test_random(&random) % PAGES);
        uint32_t used = 0;
        switch (test_random(&random) % 3) {
        case 0:
            page = kv_pages_take(&pages);
            if (page != KV_PAGES_NONE) {
                assert_int_equal(held[page]++, 0);
            }
            break;
        case 1:
            if (held[page] > 0) {
                kv_pages_share(&pages, page);
                held[page]++;
            }
            break;
        default:
            if (held[page] > 0) {
                kv_pages_release(&pages, page);
                held[page]--;
            }
        }
        for (int p = 1; p < PAGES; p++) {
            used += held[p] > 0;
        }
        assert_int_equal(kv_pages_used_count(&pages), used);
        assert_true(page != KV_PAGES_NONE || used == PAGES - 1); /* none only when none is free */
    }
    kv_pages_deinit(&pages);
}

TEST_MAIN(cmocka_unit_test(never_gives_out_the_scratch_page),
          cmocka_unit_test(frees_a_shared_page_with_its_last_holder),
          cmocka_unit_test(agrees_with_plain_counters_on_random_use))
