/* Exact INT8 sums of a panel of 16 outputs for blocks of rows. Private to kernels.
 *
 * int8.h widens every product to 32 bits: two of its four instructions a step. Here steps are added
 * at 16 bits and widened once a group, where that is provably exact. Inputs are unsigned, what they
 * are above the least of their group (inputs.h), and weights are signed:
 *
 *   sum w q = sum w u + sum over groups of least * (sum of the group's w).
 *
 * With u <= range, what a 16-bit lane holds on its way is within range times the larger of the sums
 * of |w| over its positive and over its negative weights. Packing knows those; a panel keeps, for
 * each group, the largest range for which all of its lanes stay within 16 bits, and the one that is
 * enough when steps are widened one by one. Real inputs are mostly small against the largest of
 * their row, so nine groups in ten are added at 16 bits (kernels/workshop/README.md). Where even a
 * step might saturate, inputs are taken in two halves, each at most 127: pairs are then within
 * 127 * 256.
 *
 * A lane of 32 bits may wrap on its way; the sum itself fits (|q| <= 127, K <= 2^16). */
#ifndef SOLFLEET_KERNELS_X86_AVX2_INT8_BLOCK_H
#define SOLFLEET_KERNELS_X86_AVX2_INT8_BLOCK_H

#include <immintrin.h>
#include <string.h>

#include "kernels/x86/avx2/inputs.h"
#include "kernels/x86/avx2/int8.h"

/* For lanes of outputs, the sums of four steps' weights, 32 bits each. */
static inline __m256i avx2_group_sum(const int8_t *weights) {
    const __m256i ones = _mm256_set1_epi8(1);
    const __m256i *w = (const __m256i *)(const void *)weights;
    __m256i sum = _mm256_maddubs_epi16(ones, _mm256_load_si256(w));
    for (uint32_t s = 1; s < AVX2_GROUP_STEPS; s++) {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(ones, _mm256_load_si256(w + 2 * s)));
    }
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

/* The sums of a panel's weights by output and group, pairs of groups side by side:
 * i16 [G2 / 2, 16, 2], aligned; for any K within a worker's row of the device. */
static inline void avx2_group_sums(const int8_t *panel, uint32_t k, int16_t *sums) {
    const int8_t *weights = panel + avx2_panel_weights(k);
    uint32_t groups = avx2_groups(k);
    for (uint32_t g = 0; g < groups; g += 2) {
        for (uint32_t half = 0; half < 2; half++) {
            const int8_t *from = weights + (size_t)g * AVX2_GROUP_BYTES + half * 32u;
            __m256i even = avx2_group_sum(from), odd = _mm256_setzero_si256();
            if (g + 1 < groups) {
                odd = _mm256_slli_epi32(avx2_group_sum(from + AVX2_GROUP_BYTES), 16);
            }
            _mm256_store_si256((__m256i *)(void *)(sums + (g + half) * REFERENCE_PANEL),
                               _mm256_blend_epi16(even, odd, 0xAA));
        }
    }
}

/* A pointer that the compiler knows nothing of: it would load inputs for all of the ways below
 * before it has chosen one, and spill what the sums need. */
static inline const uint8_t *avx2_opaque(const uint8_t *pointer) {
    __asm__("" : "+r"(pointer));
    return pointer;
}

static inline __m256i avx2_widen_add(__m256i sum, __m256i pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Four steps, added at 16 bits. */
static inline __attribute__((always_inline)) void
avx2_block_group(const int8_t *weights, const uint8_t *u, const uint32_t rows, __m256i sum[][2]) {
    __m256i pairs[AVX2_BLOCK_ROWS][2];
#pragma GCC unroll 4
    for (uint32_t s = 0; s < AVX2_GROUP_STEPS; s++) {
        const __m256i *w = (const __m256i *)(const void *)(weights + s * AVX2_STEP_BYTES);
        const __m256i left = _mm256_load_si256(w), right = _mm256_load_si256(w + 1);
#pragma GCC unroll 3
        for (uint32_t r = 0; r < rows; r++) {
            __m256i inputs = avx2_i8_inputs(u + (s * rows + r) * AVX2_STEP);
            __m256i one = _mm256_maddubs_epi16(inputs, left);
            __m256i two = _mm256_maddubs_epi16(inputs, right);
            pairs[r][0] = s == 0 ? one : _mm256_add_epi16(pairs[r][0], one);
            pairs[r][1] = s == 0 ? two : _mm256_add_epi16(pairs[r][1], two);
            /* In this order: as a tree they would not fit into registers. */
            __asm__ volatile("" : "+x"(pairs[r][0]), "+x"(pairs[r][1]));
        }
    }
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = avx2_widen_add(sum[r][0], pairs[r][0]);
        sum[r][1] = avx2_widen_add(sum[r][1], pairs[r][1]);
    }
}

/* Four steps, widened one by one; `halve`: inputs in two parts, for any range. */
static inline __attribute__((always_inline)) void
avx2_block_steps(const int8_t *weights, const uint8_t *u, const uint32_t rows, const bool halve,
                 __m256i sum[][2]) {
#pragma GCC unroll 1
    for (uint32_t s = 0; s < AVX2_GROUP_STEPS; s++) {
        const __m256i *w = (const __m256i *)(const void *)(weights + s * AVX2_STEP_BYTES);
        const __m256i left = _mm256_load_si256(w), right = _mm256_load_si256(w + 1);
#pragma GCC unroll 3
        for (uint32_t r = 0; r < rows; r++) {
            __m256i inputs = avx2_i8_inputs(u + (s * rows + r) * AVX2_STEP);
            if (halve) {
                __m256i half = _mm256_avg_epu8(inputs, _mm256_setzero_si256());
                inputs = _mm256_sub_epi8(inputs, half);
                sum[r][0] = avx2_widen_add(sum[r][0], _mm256_maddubs_epi16(half, left));
                sum[r][1] = avx2_widen_add(sum[r][1], _mm256_maddubs_epi16(half, right));
            }
            sum[r][0] = avx2_widen_add(sum[r][0], _mm256_maddubs_epi16(inputs, left));
            sum[r][1] = avx2_widen_add(sum[r][1], _mm256_maddubs_epi16(inputs, right));
        }
    }
}

/* What a block's sums start from: least inputs times sums of weights. */
static inline void avx2_block_start(const int16_t *group_sums, const int16_t *least,
                                    uint32_t groups, __m256i start[2]) {
    start[0] = start[1] = _mm256_setzero_si256();
    for (uint32_t g = 0; g < groups; g += 2) {
        const __m256i *sums = (const __m256i *)(const void *)(group_sums + g * REFERENCE_PANEL);
        int32_t two;
        memcpy(&two, least + g, sizeof two);
        __m256i both = _mm256_set1_epi32(two);
        start[0] = _mm256_add_epi32(start[0], _mm256_madd_epi16(_mm256_load_si256(sums), both));
        start[1] = _mm256_add_epi32(start[1], _mm256_madd_epi16(_mm256_load_si256(sums + 1), both));
    }
}

/* out[r] = sums of the panel's 16 outputs for row r of block `block`, which has `rows` rows, a
 * constant where this is inlined. */
static inline __attribute__((always_inline)) void
avx2_block_panel(const int8_t *panel, const int16_t *group_sums, const struct avx2_inputs *inputs,
                 uint32_t block, uint32_t first, const uint32_t rows, __m256i out[][2]) {
    uint32_t groups = avx2_groups(inputs->k);
    size_t stride = avx2_inputs_groups(inputs->k);
    const uint8_t *u = inputs->q + (size_t)first * groups * AVX2_GROUP;
    const uint8_t *range = inputs->range + block * stride;
    const uint8_t *limits = (const uint8_t *)panel + AVX2_PANEL_START_BYTES;
    const uint8_t *step_limits = limits + groups;
    const int8_t *weights = panel + avx2_panel_weights(inputs->k);
    __m256i start[2], sum[AVX2_BLOCK_ROWS][2];
    avx2_block_start(group_sums, inputs->least + block * stride, groups, start);
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        sum[r][0] = start[0];
        sum[r][1] = start[1];
    }
    for (uint32_t g = 0; g < groups; g++) {
        if (__builtin_expect(range[g] <= limits[g], 1)) {
            avx2_block_group(weights, avx2_opaque(u), rows, sum);
        } else if (range[g] <= avx2_step_limit(step_limits, g)) {
            avx2_block_steps(weights, avx2_opaque(u), rows, false, sum);
        } else {
            avx2_block_steps(weights, avx2_opaque(u), rows, true, sum);
        }
        weights += AVX2_GROUP_BYTES;
        u += rows * AVX2_GROUP;
    }
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        out[r][0] = sum[r][0];
        out[r][1] = sum[r][1];
    }
}

#endif
