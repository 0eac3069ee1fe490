/* Statistics of a benchmark's samples: percentiles by the nearest rank, rates.
 *
 * Pure functions; the caller's arrays, which they sort. Any thread. Refuses to know what was
 * measured. */
#ifndef SOLFLEET_CONSUMER_BENCH_STATISTICS_H
#define SOLFLEET_CONSUMER_BENCH_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* Sorts ascending. Values are finite. */
void bench_statistics_sort(double *values, size_t count);

/* The smallest value that at least `percent` of all are not above: a value that was measured, never
 * one between two. Sorted values; 0 < percent <= 100; 0 when there are none. */
double bench_statistics_percentile(const double *sorted, size_t count, double percent);

/* Sorts, and gives the 50th percentile. */
double bench_statistics_median(double *values, size_t count);

/* Things a second; 0 when no time passed. */
double bench_statistics_rate(double count, int64_t ns);

#endif
