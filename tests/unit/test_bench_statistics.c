#include "consumer/bench_statistics.h"

#include <stdlib.h>

#include "tests/support/test.h"

static void percentile_is_a_value_that_was_measured(void **state) {
    double values[100];
    for (int i = 0; i < 100; i++) {
        values[i] = 100 - i;
    }
    bench_statistics_sort(values, 100);
    assert_true(bench_statistics_percentile(values, 100, 1) == 1);
    assert_true(bench_statistics_percentile(values, 100, 50) == 50);
    assert_true(bench_statistics_percentile(values, 100, 99) == 99);
    assert_true(bench_statistics_percentile(values, 100, 99.1) == 100);
    assert_true(bench_statistics_percentile(values, 100, 100) == 100);
}

static void percentile_of_few_values_is_the_nearest_rank(void **state) {
    const double one[] = {7};
    const double three[] = {1, 2, 9};
    assert_true(bench_statistics_percentile(one, 1, 0.1) == 7);
    assert_true(bench_statistics_percentile(one, 1, 99) == 7);
    assert_true(bench_statistics_percentile(three, 3, 33) == 1);
    assert_true(bench_statistics_percentile(three, 3, 34) == 2);
    assert_true(bench_statistics_percentile(three, 3, 99) == 9);
    assert_true(bench_statistics_percentile(three, 0, 50) == 0);
}

/* The definition itself: the smallest value that enough values are not above. */
static double obvious_percentile(const double *sorted, size_t count, double percent) {
    for (size_t i = 0; i < count; i++) {
        if ((double)(i + 1) * 100 >= percent * (double)count) {
            return sorted[i];
        }
    }
    return sorted[count - 1];
}

static void percentile_agrees_with_its_definition_on_random_samples(void **state) {
    uint64_t random = test_seed();
    for (int round = 0; round < 2000; round++) {
        double values[64];
        size_t count = 1 + test_random(&random) % 64;
        for (size_t i = 0; i < count; i++) {
            values[i] = (double)(test_random(&random) % 50);
        }
        bench_statistics_sort(values, count);
        for (size_t i = 1; i < count; i++) {
            assert_true(values[i - 1] <= values[i]);
        }
        double percent = (double)(1 + test_random(&random) % 100);
        assert_true(bench_statistics_percentile(values, count, percent) ==
                    obvious_percentile(values, count, percent));
    }
}

static void median_sorts_by_itself(void **state) {
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};
    assert_true(bench_statistics_median(odd, 3) == 5);
    assert_true(bench_statistics_median(even, 4) == 2);
    assert_true(bench_statistics_median(NULL, 0) == 0);
}

static void rate_counts_by_the_second(void **state) {
    assert_true(bench_statistics_rate(50, 2000000000) == 25);
    assert_true(bench_statistics_rate(50, 0) == 0);
}

TEST_MAIN(cmocka_unit_test(percentile_is_a_value_that_was_measured),
          cmocka_unit_test(percentile_of_few_values_is_the_nearest_rank),
          cmocka_unit_test(percentile_agrees_with_its_definition_on_random_samples),
          cmocka_unit_test(median_sorts_by_itself), cmocka_unit_test(rate_counts_by_the_second))
