#include "kernels/x86/avx2/inputs.h"

#include <immintrin.h>
#include <string.h>

static size_t inputs_q_bytes(uint32_t rows, uint32_t k) {
    return kernels_aligned((size_t)rows * avx2_groups(k) * AVX2_GROUP);
}

static size_t inputs_least_bytes(uint32_t rows, uint32_t k) {
    return kernels_aligned(avx2_blocks(rows) * avx2_inputs_groups(k) * sizeof(int16_t));
}

size_t avx2_inputs_bytes(uint32_t rows, uint32_t k) {
    return inputs_q_bytes(rows, k) + inputs_least_bytes(rows, k) +
           kernels_aligned(avx2_blocks(rows) * avx2_inputs_groups(k));
}

struct avx2_inputs avx2_inputs_place(void *memory, uint32_t rows, uint32_t k) {
    uint8_t *q = memory, *least = q + inputs_q_bytes(rows, k);
    return (struct avx2_inputs){.q = q,
                                .least = (int16_t *)(void *)least,
                                .range = least + inputs_least_bytes(rows, k),
                                .rows = rows,
                                .k = k};
}

/* ---------------------------------------------------------------- kernels */

/* The least of 16 unsigned bytes. */
static int32_t inputs_min(__m128i bytes) {
    __m128i pairs = _mm_min_epu8(bytes, _mm_srli_epi16(bytes, 8)); /* high bytes of lanes are 0 */
    return _mm_extract_epi16(_mm_minpos_epu16(pairs), 0);
}

/* A group of a block of `rows` rows, `from` apart by `stride`. */
static inline __attribute__((always_inline)) void inputs_group(const int8_t *from, size_t stride,
                                                               const uint32_t rows, uint8_t *to,
                                                               int16_t *least, uint8_t *range) {
    const __m128i sign = _mm_set1_epi8(-128);
    __m128i row[AVX2_BLOCK_ROWS], low = _mm_set1_epi8(-1), high = _mm_setzero_si128();
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) { /* ordered as unsigned: + 128 */
        row[r] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(from + r * stride)),
                               sign);
        low = _mm_min_epu8(low, row[r]);
        high = _mm_max_epu8(high, row[r]);
    }
    int32_t min = inputs_min(low), max = 255 - inputs_min(_mm_xor_si128(high, _mm_set1_epi8(-1)));
    *least = (int16_t)(min - 128);
    *range = (uint8_t)(max - min);
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        int32_t four[AVX2_GROUP_STEPS];
        __m128i less = _mm_sub_epi8(row[r], _mm_set1_epi8((char)min));
        memcpy(four, &less, sizeof four);
#pragma GCC unroll 4
        for (uint32_t s = 0; s < AVX2_GROUP_STEPS; s++) {
            memcpy(to + (s * rows + r) * AVX2_STEP, &four[s], AVX2_STEP);
        }
    }
}

static inline __attribute__((always_inline)) void inputs_block(const struct avx2_inputs *inputs,
                                                               const int8_t *q, uint32_t block,
                                                               size_t first, const uint32_t rows) {
    uint32_t k = inputs->k, whole = k / AVX2_GROUP, rest = k % AVX2_GROUP;
    size_t groups = avx2_inputs_groups(k);
    const int8_t *from = q + first * k;
    uint8_t *to = inputs->q + first * avx2_groups(k) * AVX2_GROUP;
    int16_t *least = inputs->least + block * groups;
    uint8_t *range = inputs->range + block * groups;
    least[groups - 1] = 0;
    for (uint32_t g = 0; g < whole; g++) {
        inputs_group(from + (size_t)g * AVX2_GROUP, k, rows, to, least + g, range + g);
        to += (size_t)rows * AVX2_GROUP;
    }
    if (rest > 0) { /* past K stands an input that is there: ranges do not grow */
        int8_t last[AVX2_BLOCK_ROWS][AVX2_GROUP];
        for (uint32_t r = 0; r < rows; r++) {
            const int8_t *row = from + r * (size_t)k + (size_t)whole * AVX2_GROUP;
            memset(last[r], row[0], AVX2_GROUP);
            memcpy(last[r], row, rest);
        }
        inputs_group(last[0], AVX2_GROUP, rows, to, least + whole, range + whole);
    }
}

void avx2_inputs_fill(const struct avx2_inputs *inputs, const int8_t *q, uint32_t begin,
                      uint32_t end) {
    for (uint32_t b = begin; b < end; b++) {
        uint32_t first = avx2_block_first(inputs->rows, b);
        if (avx2_block_first(inputs->rows, b + 1) - first == AVX2_BLOCK_ROWS) {
            inputs_block(inputs, q, b, first, AVX2_BLOCK_ROWS);
        } else {
            inputs_block(inputs, q, b, first, AVX2_BLOCK_ROWS - 1);
        }
    }
}
