/* Exact INT8 sums by VNNI. Private to kernels.
 *
 * vpdpbusd adds four products of unsigned and signed bytes to each 32-bit lane. Weights are stored
 * plus 128 (0 .. 255, so that -128 is like any other) and are the unsigned operand; activations are
 * the signed one. sum (w + 128) q = sum w q + 128 sum q, so a chain starts at -128 sum q.
 *
 * Nothing overflows or saturates: a product is within 255 * 128 < 2^15; what a lane holds on its
 * way is sum w q over the inputs done, less 128 sum q over those to come, so within K * 128 * 128
 * <= 2^16 * 2^14 = 2^30. */
#ifndef SOLFLEET_KERNELS_X86_AVX512_INT8_H
#define SOLFLEET_KERNELS_X86_AVX512_INT8_H

#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx512/weight.h"

#define AVX512_I8_ROWS 6u /* with a whole tile: 24 sums, four weights and an input in registers */
#define AVX512_I8_BLOCK 192u /* rows whose starts are computed at once */

/* -128 * sum of a row: what each of its sums starts from. */
static inline int32_t avx512_i8_start(const int8_t *q, uint32_t k) {
    const __m512i weight = _mm512_set1_epi8((char)-128); /* unsigned: 128 */
    __m512i sum = _mm512_setzero_si512();
    uint32_t whole = k & ~63u;
    for (uint32_t i = 0; i < whole; i += 64) {
        sum = _mm512_dpbusd_epi32(sum, weight, _mm512_loadu_si512(q + i));
    }
    __mmask64 rest = ((__mmask64)1 << (k - whole)) - 1;
    sum = _mm512_dpbusd_epi32(sum, weight, _mm512_maskz_loadu_epi8(rest, q + whole));
    return -_mm512_reduce_add_epi32(sum);
}

/* Four inputs of a row in every lane. */
static inline __m512i avx512_i8_inputs(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

/* One step of `rows` rows, inputs at q + r * stride, and `panels` panels side by side; both are
 * constants where this is inlined. */
static inline __attribute__((always_inline)) void
avx512_i8_step(const uint8_t *weights, const int8_t *q, size_t stride, const uint32_t rows,
               const uint32_t panels, __m512i sum[][AVX512_I8_PANELS]) {
    __m512i w[AVX512_I8_PANELS];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < panels; p++) {
        w[p] = _mm512_load_si512(weights + (size_t)p * AVX512_PANEL_STEP_BYTES);
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
        __m512i inputs = avx512_i8_inputs(q + r * stride);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], w[p], inputs);
        }
    }
}

/* Weights that are fetched to the second cache while others are computed: at each step the line at
 * `at` and the one second_bytes further; then `at` moves on. */
struct avx512_i8_ahead {
    const char *at;
    size_t second_bytes, step_bytes;
};

static inline __attribute__((always_inline)) void avx512_i8_fetch(struct avx512_i8_ahead *ahead) {
    _mm_prefetch(ahead->at, _MM_HINT_T1);
    _mm_prefetch(ahead->at + ahead->second_bytes, _MM_HINT_T1);
    ahead->at += ahead->step_bytes;
}

/* out[r][p] = sums of panel p's 16 outputs for row r, whose inputs are at q + r * k. step_bytes:
 * from one step of the tile that holds the panels to the next. */
static inline __attribute__((always_inline)) void
avx512_i8_tile(const uint8_t *weights, const size_t step_bytes, uint32_t k, const int8_t *q,
               const int32_t *start, struct avx512_i8_ahead ahead, const uint32_t rows,
               const uint32_t panels, __m512i out[][AVX512_I8_PANELS]) {
    __m512i sum[AVX512_I8_ROWS][AVX512_I8_PANELS];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            sum[r][p] = _mm512_set1_epi32(start[r]);
        }
    }
    /* Inputs of the step that K ends in: those past K count as 0, and are not ours to read. */
    int8_t last[AVX512_I8_ROWS][AVX2_STEP] = {{0}};
    uint32_t whole = k / AVX2_STEP, rest = k % AVX2_STEP;
    for (uint32_t r = 0; r < rows && rest > 0; r++) {
        memcpy(last[r], q + (size_t)(r + 1) * k - rest, rest);
    }
    /* Whole steps, then the last: one loop for both, or gcc no longer adds to the sums in place. */
#pragma GCC unroll 1
    for (uint32_t part = 0; part < 2; part++) {
        const int8_t *inputs = part == 0 ? q : last[0];
        size_t stride = part == 0 ? k : AVX2_STEP;
        uint32_t steps = part == 0 ? whole : rest > 0;
        for (uint32_t i = 0; i < steps; i++) {
            avx512_i8_fetch(&ahead);
            avx512_i8_step(weights, inputs + (size_t)i * AVX2_STEP, stride, rows, panels, sum);
            weights += step_bytes;
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            out[r][p] = sum[r][p];
        }
    }
}

#endif
