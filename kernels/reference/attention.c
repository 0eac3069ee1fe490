/* Causal grouped-query attention over pages, in blocks of 256 positions merged in ascending order
 * (online softmax: Milakov & Gimelshein 2018; blocks: Dao et al. 2022). */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/kv_page.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- kernels */

/* Scores of the first `count` tokens of a page: what lies past a row's position may never have been
 * written, and is not read. */
static inline __attribute__((always_inline)) void
attention_scores_of(const struct kv_form *form, const void *page, uint32_t head, const float *q,
                    float scale, const uint32_t count, float score[KV_PAGE_TOKENS]) {
    float acc[KV_PAGE_TOKENS] = {0};
    for (uint32_t d = 0; d < form->head_dim; d++) {
        size_t index = kv_key_index(form, head, d, 0);
        for (uint32_t j = 0; j < count; j++) {
            acc[j] = fmaf(q[d], kv_load(page, form->type, index + j), acc[j]);
        }
    }
    for (uint32_t j = 0; j < count; j++) {
        score[j] = acc[j] * scale;
    }
}

/* A whole page is an instance of its own, which vectorises. */
static void attention_scores(const struct kv_form *form, const void *page, uint32_t head,
                             const float *q, float scale, uint32_t count,
                             float score[KV_PAGE_TOKENS]) {
    if (count == KV_PAGE_TOKENS) {
        attention_scores_of(form, page, head, q, scale, KV_PAGE_TOKENS, score);
    } else {
        attention_scores_of(form, page, head, q, scale, count, score);
    }
}

static void attention_values(const struct kv_form *form, const void *page, uint32_t head,
                             const float *p, uint32_t count, float *out) {
    for (uint32_t j = 0; j < count; j++) {
        size_t index = kv_value_index(form, head, j, 0);
        for (uint32_t d = 0; d < form->head_dim; d++) {
            out[d] = fmaf(p[j], kv_load(page, form->type, index + d), out[d]);
        }
    }
}

struct attention_state {
    float max, sum;
    float *out; /* [d] */
};

/* Of a page, where `left` tokens are left. */
static uint32_t attention_page_tokens(uint32_t left) {
    return left < KV_PAGE_TOKENS ? left : KV_PAGE_TOKENS;
}

/* The keys of one block, alone: max, sum of weights and weighted values. */
static void attention_block(const struct attention_args *args, uint32_t slot, uint32_t head,
                            const float *q, uint32_t first, uint32_t count,
                            struct attention_state *block) {
    const struct kv_form *form = &args->kv.form;
    float weight[ATTENTION_BLOCK_TOKENS];
    float scale = canonical_attention_scale(form->head_dim);
    for (uint32_t j = 0; j < count; j += KV_PAGE_TOKENS) {
        attention_scores(form, kv_page(&args->kv, slot, first + j), head, q, scale,
                         attention_page_tokens(count - j), weight + j);
    }
    block->max = weight[0];
    for (uint32_t j = 1; j < count; j++) {
        block->max = canonical_max(block->max, weight[j]);
    }
    for (uint32_t j = 0; j < count; j++) {
        weight[j] = canonical_exp(weight[j] - block->max);
    }
    block->sum = canonical_segment_sum(weight, count);
    memset(block->out, 0, form->head_dim * sizeof(float));
    for (uint32_t j = 0; j < count; j += KV_PAGE_TOKENS) {
        attention_values(form, kv_page(&args->kv, slot, first + j), head, weight + j,
                         attention_page_tokens(count - j), block->out);
    }
}

static void attention_merge(struct attention_state *all, const struct attention_state *block,
                            uint32_t head_dim) {
    struct canonical_merge merge = canonical_attention_merge(all->max, block->max);
    all->max = merge.max;
    all->sum = fmaf(all->sum, merge.before, block->sum * merge.block);
    for (uint32_t d = 0; d < head_dim; d++) {
        all->out[d] = fmaf(all->out[d], merge.before, block->out[d] * merge.block);
    }
}

/* Row t, query head h. scratch holds the outputs of a block. */
static void attention_row(const struct attention_args *args, uint32_t t, uint32_t h,
                          float *scratch) {
    uint32_t d = args->kv.form.head_dim, slot = (uint32_t)args->rows.slot[t];
    uint32_t keys = (uint32_t)args->rows.position[t] + 1;
    uint32_t head = h / (args->heads / args->kv.form.kv_heads);
    const float *q = args->q + (size_t)t * args->q_stride + (size_t)h * d;
    struct attention_state all = {0, 0, args->out + ((size_t)t * args->heads + h) * d};
    struct attention_state block = {0, 0, scratch};
    for (uint32_t first = 0; first < keys; first += ATTENTION_BLOCK_TOKENS) {
        uint32_t left = keys - first;
        attention_block(args, slot, head, q, first,
                        left < ATTENTION_BLOCK_TOKENS ? left : ATTENTION_BLOCK_TOKENS,
                        first == 0 ? &all : &block);
        if (first > 0) {
            attention_merge(&all, &block, d);
        }
    }
    float inverse = 1.0f / all.sum;
    for (uint32_t i = 0; i < d; i++) {
        all.out[i] = all.out[i] * inverse;
    }
}

/* ---------------------------------------------------------------- launchers */

struct attention_job {
    const struct device *device;
    const struct attention_args *args;
};

static void attention_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct attention_job *job = context;
    uint32_t heads = job->args->heads;
    for (uint32_t i = begin; i < end; i++) {
        attention_row(job->args, i / heads, i % heads, cpu_device_row(job->device, worker));
    }
}

enum kernels_status reference_attention(struct device *device, const struct attention_args *args) {
    if (!check_attention(args, reference_page_bytes(&args->kv.form)) ||
        !check_positions(&args->rows, &args->kv, args->context_max)) {
        return KERNELS_INVALID;
    }
    uint32_t items = args->rows.rows * args->heads;
    struct attention_job job = {device, args};
    pool_run_ranges(cpu_device_pool(device), attention_range, &job, items,
                    (uint64_t)args->context_max * args->kv.form.head_dim / 2);
    return KERNELS_OK;
}
