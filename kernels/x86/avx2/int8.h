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

static inline int32_t avx2_i8_load(const int8_t *q, uint32_t count) {
    int32_t inputs = 0;
    memcpy(&inputs, q, count);
    return inputs;
}

/* sum[r] = sums of the panel's 16 outputs for row r; `rows` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void avx2_i8_panel(const int8_t *panel, uint32_t k,
                                                                const int8_t *const *q,
                                                                const uint32_t rows,
                                                                __m256i sum[][2]) {
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    }
    uint32_t steps = avx2_steps(k);
    for (uint32_t step = 0; step < steps; step++) {
        const __m256i *at = (const __m256i *)(const void *)(panel + (size_t)step * 64u);
        __m256i w0 = _mm256_load_si256(at), w1 = _mm256_load_si256(at + 1);
        __m256i m0 = _mm256_abs_epi8(w0), m1 = _mm256_abs_epi8(w1);
        uint32_t left = k - step * AVX2_STEP;
        for (uint32_t r = 0; r < rows; r++) {
            const int8_t *from = q[r] + step * AVX2_STEP;
            int32_t four =
                left >= AVX2_STEP ? avx2_i8_load(from, AVX2_STEP) : avx2_i8_load(from, left);
            __m256i inputs = _mm256_set1_epi32(four);
            sum[r][0] = avx2_i8_step(sum[r][0], inputs, w0, m0);
            sum[r][1] = avx2_i8_step(sum[r][1], inputs, w1, m1);
        }
    }
}

#endif
