/* engine/bucket. */
#include "engine/bucket.h"

#include "tests/support/test.h"

static void has_the_edges_of_the_recurrence(void **state) {
    static const uint32_t edges[] = {16, 20, 24, 29, 35, 42, 51, 62, 75, 90};
    for (uint32_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        assert_int_equal(bucket_edge(i), edges[i]);
        assert_int_equal(bucket_index(edges[i]), i);
        assert_int_equal(bucket_index(edges[i] + 1), i + 1);
    }
}

static void holds_lengths_that_differ_by_less_than_a_fifth(void **state) {
    uint32_t shortest = 17; /* of the current bucket */
    for (uint32_t tokens = 17; tokens < 100000; tokens++) {
        if (bucket_index(tokens) != bucket_index(shortest)) {
            assert_int_equal(bucket_index(tokens), bucket_index(shortest) + 1);
            shortest = tokens;
        }
        assert_true((uint64_t)tokens * 10 < (uint64_t)shortest * 12);
    }
}

static void takes_every_length(void **state) {
    assert_int_equal(bucket_index(0), 0);
    assert_int_equal(bucket_index(1), 0);
    assert_int_equal(bucket_index(UINT32_MAX), BUCKET_COUNT_MAX - 1);
    assert_int_equal(bucket_edge(BUCKET_COUNT_MAX - 1), UINT32_MAX);
    assert_true(bucket_edge(BUCKET_COUNT_MAX - 2) > 1000000);
}

TEST_MAIN(cmocka_unit_test(has_the_edges_of_the_recurrence),
          cmocka_unit_test(holds_lengths_that_differ_by_less_than_a_fifth),
          cmocka_unit_test(takes_every_length))
