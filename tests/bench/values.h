/* INT8 values as real models have them: what a kernel may do with them depends on their size.
 *
 * Deterministic; any thread. */
#ifndef SOLFLEET_TESTS_BENCH_VALUES_H
#define SOLFLEET_TESTS_BENCH_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Weights [n, k]: near normal, the largest of an output being three to four deviations. */
void values_weights(int8_t *values, uint32_t n, uint32_t k);
/* Rows [rows, k] as the quantiser leaves them: one input of a row is 127, and most are small beside
 * it; one in a hundred stands out. On SmolLM2-135M kernels find about this much room. */
void values_rows(int8_t *values, uint32_t rows, uint32_t k);

#endif
