/* Exact INT8 sums of a panel of 16 outputs. Private to kernels.
 *
 * vpmaddubsw multiplies an unsigned by a signed byte and saturates pair sums at 16 bits. |w| is the
 * unsigned operand; the activation, its bits flipped where w < 0, the signed one: ~q = -q - 1, so
 *
 *   w q = |w| q           where w >= 0,
 *   w q = |w| ~q + |w|    where w < 0,
 *
 * and a sum starts from the |w| of its negative weights, known when they are packed (weight.h).
 * Flipping is an exclusive or, which more ports take than vpsignb: those of the multipliers are
 * the narrow place. With |q| <= 127 and |w| <= 128 a flipped q is -128 at least and 127 at most, so
 * a pair is within -32,768 .. 32,512 and every sum exact. (With the roles swapped a weight of -128
 * would come out with the wrong sign.)
 *
 * On its way a lane holds sum w q over the inputs done and sum |w| over negative weights to come:
 * within 2^16 * 2^14 = 2^30. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_INT8_H
#define SOLFLEET_KERNELS_X86_AVX2_INT8_H

#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx2/weight.h"

#define AVX2_I8_ROWS 3u /* rows that share the loads of a panel: more ran slower (workshop) */

/* Four inputs of a row in every lane. Inlined as one load that broadcasts. */
static inline __m256i avx2_i8_inputs(const void *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* One step of `rows` rows, whose inputs are at q + r * stride; `rows` is a constant where this is
 * inlined. A row's inputs are loaded once for both halves of the panel. The empty statement keeps
 * gcc from holding a zero in a register that the sums need. */
static inline __attribute__((always_inline)) void avx2_i8_rows_step(const int8_t *weights,
                                                                    const int8_t *q, size_t stride,
                                                                    const uint32_t rows,
                                                                    __m256i sum[][2]) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i zero = _mm256_setzero_si256();
    __asm__("" : "+x"(zero));
    __m256i magnitude[2], negative[2];
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; half++) {
        __m256i w = _mm256_load_si256((const __m256i *)(const void *)weights + half);
        magnitude[half] = _mm256_abs_epi8(w);
        negative[half] = _mm256_cmpgt_epi8(zero, w);
    }
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        __m256i inputs = avx2_i8_inputs(q + r * stride);
#pragma GCC unroll 2
        for (uint32_t half = 0; half < 2; half++) {
            __m256i flipped = _mm256_xor_si256(inputs, negative[half]);
            __m256i pairs = _mm256_maddubs_epi16(magnitude[half], flipped);
            sum[r][half] = _mm256_add_epi32(sum[r][half], _mm256_madd_epi16(pairs, one));
        }
    }
}

/* Few rows, straight from where they are (many: int8_block.h).
 * out[r] = sums of the panel's 16 outputs for row r, whose inputs are at q + r * k. */
static inline __attribute__((always_inline)) void avx2_i8_panel(const int8_t *panel, uint32_t k,
                                                                const int8_t *q,
                                                                const uint32_t rows,
                                                                __m256i out[][2]) {
    const __m256i *start = (const __m256i *)(const void *)panel;
    const int8_t *weights = panel + avx2_panel_weights(k);
    __m256i sum[AVX2_I8_ROWS][2];
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = _mm256_load_si256(start);
        sum[r][1] = _mm256_load_si256(start + 1);
    }
    const size_t stride = k;
    uint32_t rest = k % AVX2_STEP;
    for (uint32_t steps = k / AVX2_STEP; steps > 0; steps--) {
        avx2_i8_rows_step(weights, q, stride, rows, sum);
        weights += AVX2_STEP_BYTES;
        q += AVX2_STEP;
    }
    if (rest > 0) { /* weights past K are zero, but what lies past a row is not ours to read */
        int8_t last[AVX2_I8_ROWS][AVX2_STEP] = {{0}};
        for (uint32_t r = 0; r < rows; r++) {
            memcpy(last[r], q + r * stride, rest);
        }
        avx2_i8_rows_step(weights, last[0], AVX2_STEP, rows, sum);
    }
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        out[r][0] = sum[r][0];
        out[r][1] = sum[r][1];
    }
}

#endif
