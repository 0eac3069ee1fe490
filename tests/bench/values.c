#include "tests/bench/values.h"

#define DEVIATIONS 6 /* uniform numbers added: near enough to normal, of deviation sqrt(6 / 12) */

static uint32_t values_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    return (uint32_t)(*state >> 33);
}

/* Of the given deviation, cut at 127. */
static int8_t values_normal(uint64_t *state, double deviation) {
    double sum = -0.5 * DEVIATIONS;
    for (int i = 0; i < DEVIATIONS; i++) {
        sum += (double)values_next(state) * 0x1p-31;
    }
    double value = sum * 1.41421356 * deviation;
    return (int8_t)(value > 127 ? 127 : value < -127 ? -127 : value);
}

void values_weights(int8_t *values, uint32_t n, uint32_t k) {
    uint64_t state = 1;
    for (size_t i = 0; i < (size_t)n * k; i++) {
        values[i] = values_normal(&state, 33);
    }
}

void values_rows(int8_t *values, uint32_t rows, uint32_t k) {
    uint64_t state = 2;
    for (uint32_t t = 0; t < rows; t++) {
        int8_t *row = values + (size_t)t * k;
        for (uint32_t i = 0; i < k; i++) {
            row[i] = values_normal(&state, i % 97 == 0 ? 40 : 12);
        }
        row[values_next(&state) % k] = 127;
    }
}
