/* Attention with 256-bit vectors.
 *
 * Score chains run over d with 16 tokens side by side, value chains over tokens with 16 of d side
 * by side: the layout of kv_page.h. */
#include <immintrin.h>

#include "kernels/reference/kv_page.h"
#include "kernels/x86/avx2/attention_tiles.h"
#include "kernels/x86/avx2/avx2.h"

/* ---------------------------------------------------------------- kernels */

static inline __m256 attention_load(const void *head, size_t index, const bool half) {
    if (half) {
        const uint16_t *at = (const uint16_t *)head + index;
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
    }
    return _mm256_loadu_ps((const float *)head + index);
}

/* acc[r] += input[r * stride] * (low, high); `queries` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void
attention_step(__m256 acc[][2], const float *input, const size_t stride, __m256 low, __m256 high,
               const uint32_t queries) {
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        __m256 x = _mm256_set1_ps(input[r * stride]);
        acc[r][0] = _mm256_fmadd_ps(x, low, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(x, high, acc[r][1]);
    }
}

static inline __attribute__((always_inline)) void attention_clear(__m256 acc[][2],
                                                                  const uint32_t queries) {
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    }
}

/* Scores of the 16 tokens of page `page` for all queries. */
static inline __attribute__((always_inline)) void
attention_scores(const struct attention_tile *tile, uint32_t page, uint32_t pages,
                 const uint32_t queries, const bool half) {
    __m256 acc[ATTENTION_QUERIES][2];
    attention_clear(acc, queries);
    const void *keys = tile->key_head[page];
    const struct attention_ahead ahead = attention_ahead_of(tile, page, pages);
    for (uint32_t d = 0; d < tile->form->head_dim; d++) {
        size_t index = (size_t)d * KV_PAGE_TOKENS;
        attention_fetch(&ahead, index, half);
        attention_step(acc, tile->q + (size_t)d * ATTENTION_Q_STRIDE, 1,
                       attention_load(keys, index, half), attention_load(keys, index + 8, half),
                       queries);
    }
    __m256 scale = _mm256_set1_ps(canonical_attention_scale(tile->form->head_dim));
    float *to = tile->weight + (size_t)page * KV_PAGE_TOKENS;
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        _mm256_storeu_ps(to + (size_t)r * ATTENTION_BLOCK_TOKENS, _mm256_mul_ps(acc[r][0], scale));
        _mm256_storeu_ps(to + (size_t)r * ATTENTION_BLOCK_TOKENS + 8,
                         _mm256_mul_ps(acc[r][1], scale));
    }
}

/* Values d .. d + 15 weighted over the first `tokens` tokens of the block, for all queries. */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_tile *tile, uint32_t d, uint32_t tokens,
                 const uint32_t queries, const bool half) {
    __m256 acc[ATTENTION_QUERIES][2];
    attention_clear(acc, queries);
    uint32_t head_dim = tile->form->head_dim;
    for (uint32_t j = 0; j < tokens; j++) {
        const void *values = tile->value_head[j / KV_PAGE_TOKENS];
        size_t index = (size_t)(j % KV_PAGE_TOKENS) * head_dim + d;
        attention_step(acc, tile->weight + j, ATTENTION_BLOCK_TOKENS,
                       attention_load(values, index, half), attention_load(values, index + 8, half),
                       queries);
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        _mm256_storeu_ps(tile->block + (size_t)r * head_dim + d, acc[r][0]);
        _mm256_storeu_ps(tile->block + (size_t)r * head_dim + d + 8, acc[r][1]);
    }
}

/* Instances by the number of queries: `call` with its last argument but one a constant. */
#define ATTENTION_SWITCH(queries, call, ...)             \
    switch (queries) {                                   \
    case 1: call(__VA_ARGS__, 1, half); break;           \
    case 2: call(__VA_ARGS__, 2, half); break;           \
    case 3: call(__VA_ARGS__, 3, half); break;           \
    case 4: call(__VA_ARGS__, 4, half); break;           \
    case 5: call(__VA_ARGS__, 5, half); break;           \
    default: call(__VA_ARGS__, ATTENTION_QUERIES, half); \
    }

static inline __attribute__((always_inline)) void
attention_scores_any(const struct attention_tile *tile, uint32_t page, uint32_t pages,
                     const bool half) {
    ATTENTION_SWITCH(tile->queries, attention_scores, tile, page, pages)
}

static inline __attribute__((always_inline)) void
attention_values_any(const struct attention_tile *tile, uint32_t d, uint32_t tokens,
                     const bool half) {
    ATTENTION_SWITCH(tile->queries, attention_values, tile, d, tokens)
}

static void attention_block_scores(const struct attention_tile *tile, uint32_t pages) {
    for (uint32_t page = 0; page < pages; page++) {
        if (tile->form->type == ELEMENT_F16) {
            attention_scores_any(tile, page, pages, true);
        } else {
            attention_scores_any(tile, page, pages, false);
        }
    }
}

static void attention_dims_values(const struct attention_tile *tile, uint32_t d, uint32_t tokens) {
    if (tile->form->type == ELEMENT_F16) {
        attention_values_any(tile, d, tokens, true);
    } else {
        attention_values_any(tile, d, tokens, false);
    }
}

/* Scores to weights in place, for the first `count` of a block: max, exp, sum by 16 lanes. What
 * lies past count becomes -inf, then +0, which no max and no sum of weights can tell from
 * absent. */
static void attention_softmax(float *weight, uint32_t count, float *max, float *sum) {
    uint32_t padded = (count + CANONICAL_LANES - 1) & ~(CANONICAL_LANES - 1);
    for (uint32_t j = count; j < padded; j++) {
        weight[j] = -canonical_float(CANONICAL_INF_BITS);
    }
    __m256 most = _mm256_set1_ps(-canonical_float(CANONICAL_INF_BITS));
    for (uint32_t j = 0; j < padded; j += 8) {
        most = _mm256_max_ps(_mm256_loadu_ps(weight + j), most); /* a NaN gives the second */
    }
    float lane[8];
    _mm256_storeu_ps(lane, most);
    *max = lane[0];
    for (uint32_t l = 1; l < 8; l++) {
        *max = canonical_max(*max, lane[l]);
    }
    const float largest = *max; /* for all the compiler knows, max is one of the weights */
    for (uint32_t j = 0; j < padded; j++) {
        weight[j] = canonical_exp(weight[j] - largest);
    }
    for (uint32_t j = count; j < padded; j++) {
        weight[j] = 0.0f;
    }
    *sum = canonical_segment_sum(weight, padded);
}

/* Goes on with the value chains of query r: tokens `from` onwards, dims begin .. end - 1. */
static void attention_values_rest(const struct attention_tile *tile, uint32_t r, uint32_t from,
                                  uint32_t begin, uint32_t end) {
    const struct kv_form *form = tile->form;
    float *block = tile->block + (size_t)r * form->head_dim;
    for (uint32_t j = from; j < tile->count[r]; j++) {
        const void *values = tile->value_head[j / KV_PAGE_TOKENS];
        float weight = tile->weight[(size_t)r * ATTENTION_BLOCK_TOKENS + j];
        size_t index = (size_t)(j % KV_PAGE_TOKENS) * form->head_dim;
        for (uint32_t i = begin; i < end; i++) {
            block[i] = fmaf(weight, kv_load(values, form->type, index + i), block[i]);
        }
    }
}

/* Weighted values of the block: the tokens that all queries see together, the rest one by one. */
static void attention_block_values(const struct attention_tile *tile) {
    uint32_t head_dim = tile->form->head_dim, whole = head_dim & ~15u;
    uint32_t common = tile->count[0];
    for (uint32_t r = 1; r < tile->queries; r++) {
        common = tile->count[r] < common ? tile->count[r] : common;
    }
    for (uint32_t d = 0; d < whole; d += 16) {
        attention_dims_values(tile, d, common);
    }
    for (uint32_t r = 0; r < tile->queries; r++) {
        attention_values_rest(tile, r, common, 0, whole);
        for (uint32_t d = whole; d < head_dim; d++) {
            tile->block[(size_t)r * head_dim + d] = 0.0f;
        }
        attention_values_rest(tile, r, 0, whole, head_dim);
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status avx2_attention(struct device *device, const struct attention_args *args) {
    static const struct attention_kernels kernels = {attention_block_scores, attention_softmax,
                                                     attention_block_values};
    return avx2_attention_by(device, args, &kernels);
}
