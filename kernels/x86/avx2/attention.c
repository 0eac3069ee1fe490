/* Attention over pages, up to six query vectors at a time: those of the rows of one slot that share
 * a KV head, so that a key or value is loaded (and widened) once for all of them.
 *
 * Score chains run over d with 16 tokens side by side, value chains over tokens with 16 of d side
 * by side: the layout of kv_page.h. Every chain is the reference's; only which of them run together
 * differs. */
#include <assert.h>
#include <immintrin.h>

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/kv_page.h"
#include "kernels/x86/avx2/avx2.h"

#define ATTENTION_QUERIES 6u  /* 12 chains of 8 */
#define ATTENTION_Q_STRIDE 8u /* queries side by side, padded */
#define ATTENTION_PAGES (ATTENTION_BLOCK_TOKENS / KV_PAGE_TOKENS)
#define ATTENTION_HEAD_DIM_MAX 4096u /* what a worker's row has room for */

/* Query vectors of one slot and one KV head, and the block of keys they are at. */
struct attention_tile {
    const struct kv_form *form;
    uint32_t queries;
    uint32_t keys[ATTENTION_QUERIES]; /* that a query may see: its position + 1 */
    float *out[ATTENTION_QUERIES];    /* [d] of the result */
    float max[ATTENTION_QUERIES], sum[ATTENTION_QUERIES];
    uint32_t count[ATTENTION_QUERIES];       /* keys of the block that a query sees */
    const void *key_head[ATTENTION_PAGES];   /* of each page: [d, 16] */
    const void *value_head[ATTENTION_PAGES]; /* of each page: [16, d] */
    float *q;                                /* [d, ATTENTION_Q_STRIDE] */
    float *weight;                           /* [queries, 256] */
    float *block;                            /* [queries, d] */
};

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
attention_scores(const struct attention_tile *tile, uint32_t page, const uint32_t queries,
                 const bool half) {
    __m256 acc[ATTENTION_QUERIES][2];
    attention_clear(acc, queries);
    const void *keys = tile->key_head[page];
    for (uint32_t d = 0; d < tile->form->head_dim; d++) {
        size_t index = (size_t)d * KV_PAGE_TOKENS;
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
attention_scores_any(const struct attention_tile *tile, uint32_t page, const bool half) {
    ATTENTION_SWITCH(tile->queries, attention_scores, tile, page)
}

static inline __attribute__((always_inline)) void
attention_values_any(const struct attention_tile *tile, uint32_t d, uint32_t tokens,
                     const bool half) {
    ATTENTION_SWITCH(tile->queries, attention_values, tile, d, tokens)
}

static void attention_page_scores(const struct attention_tile *tile, uint32_t page) {
    if (tile->form->type == ELEMENT_F16) {
        attention_scores_any(tile, page, true);
    } else {
        attention_scores_any(tile, page, false);
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
 * lies past count becomes -inf, then +0, which no max and no sum of weights can tell from absent. */
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
    for (uint32_t j = 0; j < padded; j++) {
        weight[j] = canonical_exp(weight[j] - *max);
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

static void attention_merge(struct attention_tile *tile, uint32_t r, float max, float sum) {
    struct canonical_merge merge = canonical_attention_merge(tile->max[r], max);
    const float *block = tile->block + (size_t)r * tile->form->head_dim;
    float *out = tile->out[r];
    tile->max[r] = merge.max;
    tile->sum[r] = fmaf(tile->sum[r], merge.before, sum * merge.block);
    for (uint32_t d = 0; d < tile->form->head_dim; d++) {
        out[d] = fmaf(out[d], merge.before, block[d] * merge.block);
    }
}

/* The block of keys from `first`, of which query r sees count[r] (0: it ended before). */
static void attention_block(struct attention_tile *tile, uint32_t first, uint32_t keys) {
    float max[ATTENTION_QUERIES] = {0}, sum[ATTENTION_QUERIES] = {0};
    for (uint32_t page = 0; page * KV_PAGE_TOKENS < keys; page++) {
        attention_page_scores(tile, page);
    }
    for (uint32_t r = 0; r < tile->queries; r++) {
        if (tile->count[r] > 0) {
            attention_softmax(tile->weight + (size_t)r * ATTENTION_BLOCK_TOKENS, tile->count[r],
                              &max[r], &sum[r]);
        }
    }
    attention_block_values(tile);
    for (uint32_t r = 0; r < tile->queries; r++) {
        if (first == 0) {
            tile->max[r] = max[r];
            tile->sum[r] = sum[r];
            memcpy(tile->out[r], tile->block + (size_t)r * tile->form->head_dim,
                   tile->form->head_dim * sizeof(float));
        } else if (tile->count[r] > 0) {
            attention_merge(tile, r, max[r], sum[r]);
        }
    }
}

/* All blocks of a tile, then the division by the sum of weights. */
static void attention_tile_run(struct attention_tile *tile, const struct kv_view *kv, uint32_t slot,
                               uint32_t head) {
    assert(tile->queries >= 1 && tile->queries <= ATTENTION_QUERIES);
    uint32_t head_dim = tile->form->head_dim;
    uint32_t last = tile->keys[tile->queries - 1]; /* rows ascend: the last sees most */
    for (uint32_t first = 0; first < last; first += ATTENTION_BLOCK_TOKENS) {
        uint32_t keys = 0;
        for (uint32_t r = 0; r < tile->queries; r++) {
            uint32_t left = tile->keys[r] > first ? tile->keys[r] - first : 0;
            tile->count[r] = left < ATTENTION_BLOCK_TOKENS ? left : ATTENTION_BLOCK_TOKENS;
            keys = tile->count[r] > keys ? tile->count[r] : keys;
        }
        for (uint32_t page = 0; page * KV_PAGE_TOKENS < keys; page++) {
            const char *at = kv_page(kv, slot, first + page * KV_PAGE_TOKENS);
            size_t bytes = element_bytes(tile->form->type);
            tile->key_head[page] = at + kv_key_index(tile->form, head, 0, 0) * bytes;
            tile->value_head[page] = at + kv_value_index(tile->form, head, 0, 0) * bytes;
        }
        attention_block(tile, first, keys);
    }
    for (uint32_t r = 0; r < tile->queries; r++) {
        float inverse = 1.0f / tile->sum[r];
        for (uint32_t d = 0; d < head_dim; d++) {
            tile->out[r][d] = tile->out[r][d] * inverse;
        }
    }
}

/* ---------------------------------------------------------------- launchers */

struct attention_job {
    const struct device *device;
    const struct attention_args *args;
    uint32_t shared;    /* query heads of a KV head */
    uint32_t tile_rows; /* rows that give about ATTENTION_QUERIES query vectors */
    uint32_t row_blocks;
};

/* Queries from .. from + count - 1 of the run of rows that begins at t: (row, head), heads first. */
static void attention_queries(const struct attention_job *job, uint32_t t, uint32_t head,
                              uint32_t from, uint32_t count, float *scratch) {
    const struct attention_args *args = job->args;
    uint32_t head_dim = args->kv.form.head_dim;
    struct attention_tile tile = {.form = &args->kv.form, .queries = count};
    tile.weight = scratch;
    tile.q = tile.weight + ATTENTION_QUERIES * ATTENTION_BLOCK_TOKENS;
    tile.block = tile.q + (size_t)head_dim * ATTENTION_Q_STRIDE;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t row = t + (from + r) / job->shared;
        uint32_t h = head * job->shared + (from + r) % job->shared;
        const float *q = args->q + (size_t)row * args->q_stride + (size_t)h * head_dim;
        tile.keys[r] = (uint32_t)args->rows.position[row] + 1;
        tile.out[r] = args->out + ((size_t)row * args->heads + h) * head_dim;
        for (uint32_t d = 0; d < head_dim; d++) {
            tile.q[(size_t)d * ATTENTION_Q_STRIDE + r] = q[d];
        }
    }
    attention_tile_run(&tile, &args->kv, (uint32_t)args->rows.slot[t], head);
}

/* Whether row t + 1 goes on where row t stands. */
static bool attention_continues(const struct step_rows *rows, uint32_t t) {
    return rows->slot[t + 1] == rows->slot[t] && rows->position[t + 1] >= rows->position[t];
}

/* Item: a block of rows for one KV head; blocks of a head follow each other. */
static void attention_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct attention_job *job = context;
    const struct step_rows *rows = &job->args->rows;
    for (uint32_t item = begin; item < end; item++) {
        uint32_t head = item / job->row_blocks;
        uint32_t t = item % job->row_blocks * job->tile_rows;
        uint32_t last = t + job->tile_rows < rows->rows ? t + job->tile_rows : rows->rows;
        while (t < last) {
            uint32_t run_end = t + 1;
            while (run_end < last && attention_continues(rows, run_end - 1)) {
                run_end++;
            }
            uint32_t queries = (run_end - t) * job->shared;
            for (uint32_t from = 0; from < queries; from += ATTENTION_QUERIES) {
                uint32_t left = queries - from;
                attention_queries(job, t, head, from,
                                  left < ATTENTION_QUERIES ? left : ATTENTION_QUERIES,
                                  cpu_device_row(job->device, worker));
            }
            t = run_end;
        }
    }
}

enum kernels_status avx2_attention(struct device *device, const struct attention_args *args) {
    const struct kv_form *form = &args->kv.form;
    if (!check_attention(args, reference_page_bytes(form))) {
        return KERNELS_INVALID;
    }
    uint32_t shared = args->heads / form->kv_heads;
    if (form->head_dim > ATTENTION_HEAD_DIM_MAX) {
        return reference_attention(device, args);
    }
    struct attention_job job = {device, args, shared, 1, 0};
    job.tile_rows = shared < ATTENTION_QUERIES ? ATTENTION_QUERIES / shared : 1;
    job.row_blocks = (args->rows.rows - 1) / job.tile_rows + 1;
    uint64_t cost = (uint64_t)args->context_max * form->head_dim * shared * job.tile_rows / 16;
    pool_run_ranges(cpu_device_pool(device), attention_range, &job, job.row_blocks * form->kv_heads,
                    cost);
    return KERNELS_OK;
}
