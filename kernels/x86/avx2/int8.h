/* Exact INT8 sums of a panel of 16 outputs. Private to kernels.
 *
 * vpmaddubsw multiplies an unsigned by a signed byte and saturates pair sums at 16 bits. |w| is the
 * unsigned operand and the activation takes the sign of w: with |q| <= 127 and |w| <= 128 a pair
 * is at most 2 * 127 * 128 = 32,512, so every sum is exact. (With the roles swapped a weight of
 * -128 would come out with the wrong sign.) */
#ifndef SOLFLEET_KERNELS_X86_AVX2_INT8_H
#define SOLFLEET_KERNELS_X86_AVX2_INT8_H

#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx2/weight.h"

#define AVX2_I8_ROWS 4u /* rows that share the loads of a panel: 8 sums in registers */

/* Adds four inputs (the bytes of `inputs`) times the weights of 8 outputs. */
static inline __m256i avx2_i8_step(__m256i sum, __m256i inputs, __m256i w, __m256i magnitude) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(inputs, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Four inputs of a row in every lane. Inlined as one load that broadcasts. */
static inline __m256i avx2_i8_inputs(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* One step of `rows` rows, whose inputs are at q + r * stride; `rows` is a constant where this is
 * inlined. One half of the panel after the other: the sums and one half fit the 16 registers. */
static inline __attribute__((always_inline)) void avx2_i8_rows_step(const int8_t *weights,
                                                                    const int8_t *q, size_t stride,
                                                                    const uint32_t rows,
                                                                    __m256i sum[][2]) {
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; half++) {
        __m256i w = _mm256_load_si256((const __m256i *)(const void *)weights + half);
        __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            __m256i inputs = avx2_i8_inputs(q + r * stride);
            sum[r][half] = avx2_i8_step(sum[r][half], inputs, w, magnitude);
        }
    }
}

/* out[r] = sums of the panel's 16 outputs for row r, whose inputs are at q + r * k. */
static inline __attribute__((always_inline)) void avx2_i8_panel(const int8_t *panel, uint32_t k,
                                                                const int8_t *q,
                                                                const uint32_t rows,
                                                                __m256i out[][2]) {
    __m256i sum[AVX2_I8_ROWS][2];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    }
    uint32_t whole = k / AVX2_STEP * AVX2_STEP;
    for (uint32_t i = 0; i < whole; i += AVX2_STEP) {
        avx2_i8_rows_step(panel + (size_t)i * REFERENCE_PANEL, q + i, k, rows, sum);
    }
    if (whole < k) { /* weights past K are zero, but what lies past a row is not ours to read */
        int8_t last[AVX2_I8_ROWS][AVX2_STEP] = {{0}};
        for (uint32_t r = 0; r < rows; r++) {
            memcpy(last[r], q + (size_t)r * k + whole, k - whole);
        }
        avx2_i8_rows_step(panel + (size_t)whole * REFERENCE_PANEL, last[0], AVX2_STEP, rows, sum);
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; r++) {
        out[r][0] = sum[r][0];
        out[r][1] = sum[r][1];
    }
}

#endif
