/* Attention with 256-bit vectors.
 *
 * Score chains run over d with 16 tokens side by side, value chains over tokens with 16 of d side
 * by side: the layout of kv_page.h. */
#include <immintrin.h>

#include "kernels/reference/kv_page.h"
#include "kernels/x86/avx2/attention_tiles.h"
#include "kernels/x86/avx2/avx2.h"

/* ---------------------------------------------------------------- kernels */

#define ATTENTION_VECTORS 4u /* of chains of a query, side by side: of up to three queries */
#define ATTENTION_FEW 3u

/* Eight elements. */
static inline __m256 attention_load(const char *at, const bool half) {
    return half ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at))
                : _mm256_loadu_ps((const float *)(const void *)at);
}

/* acc[r][v] += input[r * stride] * the eight elements at[v]; all but addresses are constants where
 * this is inlined. There is no register to spare: few queries keep their inputs in registers, many
 * their two vectors. */
static inline __attribute__((always_inline)) void
attention_step(__m256 acc[][ATTENTION_VECTORS], const float *input, const size_t stride,
               const char *const at[], const uint32_t vectors, const uint32_t queries,
               const bool half) {
    if (queries <= ATTENTION_FEW) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            __m256 x = attention_load(at[v], half);
#pragma GCC unroll 3
            for (uint32_t r = 0; r < queries; r++) {
                acc[r][v] = _mm256_fmadd_ps(_mm256_set1_ps(input[r * stride]), x, acc[r][v]);
            }
        }
        return;
    }
    __m256 low = attention_load(at[0], half), high = attention_load(at[1], half);
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
        __m256 factor = _mm256_set1_ps(input[r * stride]);
        acc[r][0] = _mm256_fmadd_ps(factor, low, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(factor, high, acc[r][1]);
    }
}

static inline __attribute__((always_inline)) void
attention_clear(__m256 acc[][ATTENTION_VECTORS], const uint32_t queries, const uint32_t vectors) {
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            acc[r][v] = _mm256_setzero_ps();
        }
    }
}

/* Scores of the tokens of `pages` pages from `page` on for all queries. */
static inline __attribute__((always_inline)) void
attention_scores(const struct attention_tile *tile, uint32_t page, const uint32_t pages,
                 const uint32_t queries, const bool half) {
    struct attention_ahead ahead[ATTENTION_VECTORS / 2];
    const char *keys[ATTENTION_VECTORS / 2];
#pragma GCC unroll 2
    for (uint32_t p = 0; p < pages; p++) {
        keys[p] = tile->here->key[page + p];
        ahead[p] = attention_ahead_of_scores(tile, page + p);
    }
    const size_t bytes = half ? 2 : 4;
    __m256 acc[ATTENTION_QUERIES][ATTENTION_VECTORS];
    attention_clear(acc, queries, 2 * pages);
    for (uint32_t d = 0; d < tile->form->head_dim; d++) {
        size_t index = (size_t)d * KV_PAGE_TOKENS;
        const char *at[ATTENTION_VECTORS];
#pragma GCC unroll 2
        for (uint32_t p = 0; p < pages; p++) {
            attention_fetch(&ahead[p], index, half);
            at[2 * p] = keys[p] + index * bytes;
            at[2 * p + 1] = keys[p] + (index + 8) * bytes;
        }
        attention_step(acc, tile->q + (size_t)d * ATTENTION_Q_STRIDE, 1, at, 2 * pages, queries,
                       half);
    }
    __m256 scale = _mm256_set1_ps(canonical_attention_scale(tile->form->head_dim));
    float *to = tile->weight + (size_t)page * KV_PAGE_TOKENS;
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 2 * pages; v++) {
            _mm256_storeu_ps(to + (size_t)r * ATTENTION_BLOCK_TOKENS + 8 * v,
                             _mm256_mul_ps(acc[r][v], scale));
        }
    }
}

/* Values d onwards, `vectors` times 8, weighted over the first `tokens` tokens of the block, for
 * all queries. */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_tile *tile, uint32_t d, uint32_t tokens,
                 const uint32_t vectors, const uint32_t queries, const bool half) {
    const size_t bytes = half ? 2 : 4;
    __m256 acc[ATTENTION_QUERIES][ATTENTION_VECTORS];
    attention_clear(acc, queries, vectors);
    uint32_t head_dim = tile->form->head_dim;
    for (uint32_t first = 0; first < tokens; first += KV_PAGE_TOKENS) {
        const struct attention_ahead ahead =
            attention_ahead_of_values(tile, first / KV_PAGE_TOKENS);
        const char *values = tile->here->value[first / KV_PAGE_TOKENS];
        uint32_t left = tokens - first, count = left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS;
        for (uint32_t j = 0; j < count; j++) {
            size_t index = (size_t)j * head_dim + d;
            attention_fetch(&ahead, index, half);
            const char *at[ATTENTION_VECTORS];
#pragma GCC unroll 4
            for (uint32_t v = 0; v < vectors; v++) {
                at[v] = values + (index + 8 * v) * bytes;
            }
            attention_step(acc, tile->weight + first + j, ATTENTION_BLOCK_TOKENS, at, vectors,
                           queries, half);
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < queries; r++) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < vectors; v++) {
            _mm256_storeu_ps(tile->block + (size_t)r * head_dim + d + 8 * v, acc[r][v]);
        }
    }
}

/* Instances by the number of queries: up to three have registers for twice the vectors. */
#define ATTENTION_SWITCH_FEW(queries, call, ...)     \
    switch (queries) {                               \
    case 1: call(__VA_ARGS__, 1, half); break;       \
    case 2: call(__VA_ARGS__, 2, half); break;       \
    default: call(__VA_ARGS__, ATTENTION_FEW, half); \
    }
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
    for (; tile->queries <= ATTENTION_FEW && page + 2 <= pages; page += 2) {
        ATTENTION_SWITCH_FEW(tile->queries, attention_scores, tile, page, 2)
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

/* The first `tokens` tokens, as many whole registers as head_dim has. */
static inline __attribute__((always_inline)) void
attention_block_values_of(const struct attention_tile *tile, uint32_t tokens, const bool half) {
    uint32_t d = 0, head_dim = tile->form->head_dim;
    for (; tile->queries <= ATTENTION_FEW && d + 32 <= head_dim; d += 32) {
        ATTENTION_SWITCH_FEW(tile->queries, attention_values, tile, d, tokens, 4)
    }
    for (; d + 16 <= head_dim; d += 16) {
        ATTENTION_SWITCH(tile->queries, attention_values, tile, d, tokens, 2)
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
        const void *values = tile->here->value[j / KV_PAGE_TOKENS];
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
    if (tile->form->type == ELEMENT_F16) {
        attention_block_values_of(tile, common, true);
    } else {
        attention_block_values_of(tile, common, false);
    }
    for (uint32_t r = 0; r < tile->queries; r++) {
        attention_values_rest(tile, r, common, 0, whole);
        for (uint32_t d = whole; d < head_dim; d++) {
            tile->block[(size_t)r * head_dim + d] = 0.0f;
        }
        if (whole < head_dim) {
            attention_values_rest(tile, r, 0, whole, head_dim);
        }
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status avx2_attention(struct device *device, const struct attention_args *args) {
    static const struct attention_kernels kernels = {attention_block_scores, attention_softmax,
                                                     attention_block_values};
    return avx2_attention_by(device, args, &kernels);
}
