/* A stream of well mixed numbers from any seed (splitmix64): equal seeds give equal benchmarks.
 *
 * The caller's state; one thread a state. Not for secrets. */
#ifndef SOLFLEET_CONSUMER_BENCH_RANDOM_H
#define SOLFLEET_CONSUMER_BENCH_RANDOM_H

#include <stdint.h>

uint64_t bench_random_next(uint64_t *state);
/* Evenly in 0 <= x < bound; bound >= 1. */
uint32_t bench_random_below(uint64_t *state, uint32_t bound);
/* Evenly in 0 < x <= 1. */
double bench_random_unit(uint64_t *state);

#endif
