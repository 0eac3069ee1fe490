#include "consumer/bench_statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/clock.h"

static int bench_statistics_compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void bench_statistics_sort(double *values, size_t count) {
    if (count > 0) {
        qsort(values, count, sizeof *values, bench_statistics_compare);
    }
}

double bench_statistics_percentile(const double *sorted, size_t count, double percent) {
    assert(percent > 0 && percent <= 100);
    if (count == 0) {
        return 0;
    }
    /* A hair less, so that 99 % of 100 is rank 99 although 0.99 is no binary fraction. */
    double rank = ceil((double)count * percent / 100 - 1e-9);
    size_t index = rank < 1 ? 0 : (size_t)rank - 1;
    return sorted[index < count ? index : count - 1];
}

double bench_statistics_median(double *values, size_t count) {
    bench_statistics_sort(values, count);
    return bench_statistics_percentile(values, count, 50);
}

double bench_statistics_rate(double count, int64_t ns) {
    return ns > 0 ? count * (double)CLOCK_NS_PER_S / (double)ns : 0;
}
