/* Attention with 512-bit vectors.
 *
 * Score chains run over d with the 16 tokens of a page side by side, two pages at a time; value
 * chains over tokens with 16 of d side by side, four at a time: few queries, too, then keep the
 * multipliers busy. */
#include <immintrin.h>

#include "kernels/reference/kv_page.h"
#include "kernels/x86/avx2/attention_tiles.h"
#include "kernels/x86/avx512/avx512.h"
#include "kernels/x86/avx512/mask.h"

/* ---------------------------------------------------------------- kernels */

#define ATTENTION_VECTORS 4u /* of chains of a query, side by side: with six, 24 registers */
#define ATTENTION_SCORE_PAGES 2u

/* 16 elements, or those of the mask. */
static inline __m512 attention_load(const void *head, size_t index, __mmask16 exist,
                                    const bool half) {
    if (half) {
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(exist, (const uint16_t *)head + index));
    }
    return _mm512_maskz_loadu_ps(exist, (const float *)head + index);
}

/* acc[r] += input[r * stride] * x; `queries` and `vectors` are constants where this is inlined. */
static inline __attribute__((always_inline)) void
attention_step(__m512 acc[][ATTENTION_VECTORS], const float *input, const size_t stride,
               const __m512 x[], const uint32_t queries, const uint32_t vectors) {
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        __m512 factor = _mm512_set1_ps(input[r * stride]);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            acc[r][v] = _mm512_fmadd_ps(factor, x[v], acc[r][v]);
        }
    }
}

static inline __attribute__((always_inline)) void
attention_clear(__m512 acc[][ATTENTION_VECTORS], const uint32_t queries, const uint32_t vectors) {
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            acc[r][v] = _mm512_setzero_ps();
        }
    }
}

/* Scores of the tokens of `vectors` pages from `page` on for all queries. */
static inline __attribute__((always_inline)) void
attention_scores(const struct attention_tile *tile, uint32_t page, const uint32_t vectors,
                 const uint32_t queries, const bool half) {
    struct attention_ahead ahead[ATTENTION_VECTORS];
    const char *keys[ATTENTION_VECTORS];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < vectors; v++) {
        keys[v] = tile->here->key[page + v];
        ahead[v] = attention_ahead_of_scores(tile, page + v);
    }
    __m512 acc[ATTENTION_QUERIES][ATTENTION_VECTORS];
    attention_clear(acc, queries, vectors);
    for (uint32_t d = 0; d < tile->form->head_dim; d++) {
        size_t index = (size_t)d * KV_PAGE_TOKENS;
        __m512 key[ATTENTION_VECTORS];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            attention_fetch(&ahead[v], index, half);
            key[v] = attention_load(keys[v], index, 0xFFFF, half);
        }
        attention_step(acc, tile->q + (size_t)d * ATTENTION_Q_STRIDE, 1, key, queries, vectors);
    }
    __m512 scale = _mm512_set1_ps(canonical_attention_scale(tile->form->head_dim));
    float *to = tile->weight + (size_t)page * KV_PAGE_TOKENS;
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            _mm512_storeu_ps(to + (size_t)r * ATTENTION_BLOCK_TOKENS + v * KV_PAGE_TOKENS,
                             _mm512_mul_ps(acc[r][v], scale));
        }
    }
}

/* The lanes d .. d + 15 that head_dim has. */
static inline __mmask16 attention_mask(uint32_t d, uint32_t head_dim) {
    return avx512_first_lanes(d < head_dim ? head_dim - d : 0);
}

/* Values d onwards, `vectors` times 16, weighted over the first `tokens` tokens of the block, for
 * all queries. */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_tile *tile, uint32_t d, uint32_t tokens,
                 const uint32_t vectors, const uint32_t queries, const bool half) {
    uint32_t head_dim = tile->form->head_dim;
    __mmask16 exist[ATTENTION_VECTORS];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < vectors; v++) {
        exist[v] = attention_mask(d + 16 * v, head_dim);
    }
    __m512 acc[ATTENTION_QUERIES][ATTENTION_VECTORS];
    attention_clear(acc, queries, vectors);
    for (uint32_t first = 0; first < tokens; first += KV_PAGE_TOKENS) {
        const struct attention_ahead ahead =
            attention_ahead_of_values(tile, first / KV_PAGE_TOKENS);
        const char *values = tile->here->value[first / KV_PAGE_TOKENS];
        uint32_t left = tokens - first, count = left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS;
        for (uint32_t j = 0; j < count; j++) {
            size_t index = (size_t)j * head_dim + d;
            __m512 value[ATTENTION_VECTORS];
#pragma GCC unroll 4
            for (uint32_t v = 0; v < vectors; v++) {
                if (v % 2 == 0 || !half) {
                    attention_fetch(&ahead, index + 16 * v, half);
                }
                value[v] = attention_load(values, index + 16 * v, exist[v], half);
            }
            attention_step(acc, tile->weight + first + j, ATTENTION_BLOCK_TOKENS, value, queries,
                           vectors);
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            float *at = tile->block + (size_t)r * head_dim + d + 16 * v;
            _mm512_mask_storeu_ps(at, exist[v], acc[r][v]);
        }
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
attention_block_scores_of(const struct attention_tile *tile, const bool half) {
    uint32_t page = 0, pages = tile->here->count;
    for (; page + ATTENTION_SCORE_PAGES <= pages; page += ATTENTION_SCORE_PAGES) {
        ATTENTION_SWITCH(tile->queries, attention_scores, tile, page, ATTENTION_SCORE_PAGES)
    }
    for (; page < pages; page++) {
        ATTENTION_SWITCH(tile->queries, attention_scores, tile, page, 1)
    }
}

static void attention_block_scores(const struct attention_tile *tile) {
    if (tile->form->type == ELEMENT_F16) {
        attention_block_scores_of(tile, true);
    } else {
        attention_block_scores_of(tile, false);
    }
}

static inline __attribute__((always_inline)) void
attention_block_values_of(const struct attention_tile *tile, uint32_t tokens, const bool half) {
    for (uint32_t d = 0; d < tile->form->head_dim; d += 16 * ATTENTION_VECTORS) {
        ATTENTION_SWITCH(tile->queries, attention_values, tile, d, tokens, ATTENTION_VECTORS)
    }
}

/* What lies past count becomes -inf, then +0, which no max and no sum of weights can tell from
 * absent. */
static void attention_softmax(float *weight, uint32_t count, float *max, float *sum) {
    uint32_t padded = (count + CANONICAL_LANES - 1) & ~(CANONICAL_LANES - 1);
    for (uint32_t j = count; j < padded; j++) {
        weight[j] = -canonical_float(CANONICAL_INF_BITS);
    }
    __m512 most = _mm512_set1_ps(-canonical_float(CANONICAL_INF_BITS));
    for (uint32_t j = 0; j < padded; j += CANONICAL_LANES) {
        most = _mm512_max_ps(_mm512_loadu_ps(weight + j), most); /* a NaN gives the second */
    }
    *max = _mm512_reduce_max_ps(most);
    const float largest = *max; /* for all the compiler knows, max is one of the weights */
    for (uint32_t j = 0; j < padded; j++) {
        weight[j] = canonical_exp(weight[j] - largest);
    }
    for (uint32_t j = count; j < padded; j++) {
        weight[j] = 0.0f;
    }
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t j = 0; j < padded; j += CANONICAL_LANES) {
        lanes = _mm512_add_ps(lanes, _mm512_loadu_ps(weight + j));
    }
    float lane[CANONICAL_LANES];
    _mm512_storeu_ps(lane, lanes);
    *sum = 0.0f + canonical_fold(lane);
}

/* Goes on with the value chains of query r: tokens `from` onwards. */
static void attention_values_rest(const struct attention_tile *tile, uint32_t r, uint32_t from) {
    uint32_t head_dim = tile->form->head_dim;
    bool half = tile->form->type == ELEMENT_F16;
    float *block = tile->block + (size_t)r * head_dim;
    for (uint32_t j = from; j < tile->count[r]; j++) {
        const void *values = tile->here->value[j / KV_PAGE_TOKENS];
        __m512 weight = _mm512_set1_ps(tile->weight[(size_t)r * ATTENTION_BLOCK_TOKENS + j]);
        size_t index = (size_t)(j % KV_PAGE_TOKENS) * head_dim;
        for (uint32_t d = 0; d < head_dim; d += 16) {
            __mmask16 exist = attention_mask(d, head_dim);
            __m512 acc = _mm512_maskz_loadu_ps(exist, block + d);
            acc = _mm512_fmadd_ps(weight, attention_load(values, index + d, exist, half), acc);
            _mm512_mask_storeu_ps(block + d, exist, acc);
        }
    }
}

/* The tokens that all queries see together, the rest one by one. */
static void attention_block_values(const struct attention_tile *tile) {
    uint32_t common = tile->count[0];
    for (uint32_t r = 1; r < tile->queries; r++) {
        common = tile->count[r] < common ? tile->count[r] : common;
    }
    if (tile->form->type == ELEMENT_F16) {
        attention_block_values_of(tile, common, true);
    } else {
        attention_block_values_of(tile, common, false);
    }
    for (uint32_t r = 0; r < tile->queries; r++) {
        attention_values_rest(tile, r, common);
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status avx512_attention(struct device *device, const struct attention_args *args) {
    static const struct attention_kernels kernels = {attention_block_scores, attention_softmax,
                                                     attention_block_values};
    return avx2_attention_by(device, args, &kernels);
}
