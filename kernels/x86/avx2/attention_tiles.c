#include "kernels/x86/avx2/attention_tiles.h"

#include <assert.h>

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/kv_page.h"
#include "kernels/x86/avx2/avx2.h"

#define ATTENTION_HEAD_DIM_MAX 4096u /* what a worker's row has room for */

/* ---------------------------------------------------------------- kernels */

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
static void attention_block(const struct attention_kernels *kernels, struct attention_tile *tile,
                            uint32_t first, uint32_t keys) {
    float max[ATTENTION_QUERIES] = {0}, sum[ATTENTION_QUERIES] = {0};
    kernels->scores(tile, (keys - 1) / KV_PAGE_TOKENS + 1);
    for (uint32_t r = 0; r < tile->queries; r++) {
        if (tile->count[r] > 0) {
            kernels->softmax(tile->weight + (size_t)r * ATTENTION_BLOCK_TOKENS, tile->count[r],
                             &max[r], &sum[r]);
        }
    }
    kernels->values(tile);
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
static void attention_tile_run(const struct attention_kernels *kernels, struct attention_tile *tile,
                               const struct kv_view *kv, uint32_t slot, uint32_t head) {
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
        attention_block(kernels, tile, first, keys);
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
    const struct attention_kernels *kernels;
    const struct device *device;
    const struct attention_args *args;
    uint32_t shared;    /* query heads of a KV head */
    uint32_t tile_rows; /* rows that give about ATTENTION_QUERIES query vectors */
    uint32_t row_blocks;
};

/* Queries from .. from + count - 1 of the run of rows that begins at t: (row, head), heads
 * first. */
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
    attention_tile_run(job->kernels, &tile, &args->kv, (uint32_t)args->rows.slot[t], head);
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

enum kernels_status avx2_attention_by(struct device *device, const struct attention_args *args,
                                      const struct attention_kernels *kernels) {
    const struct kv_form *form = &args->kv.form;
    if (!check_attention(args, reference_page_bytes(form)) ||
        !check_positions(&args->rows, &args->kv, args->context_max)) {
        return KERNELS_INVALID;
    }
    uint32_t shared = args->heads / form->kv_heads;
    if (form->head_dim > ATTENTION_HEAD_DIM_MAX) {
        return reference_attention(device, args);
    }
    struct attention_job job = {kernels, device, args, shared, 1, 0};
    job.tile_rows = shared < ATTENTION_QUERIES ? ATTENTION_QUERIES / shared : 1;
    job.row_blocks = (args->rows.rows - 1) / job.tile_rows + 1;
    uint64_t cost = (uint64_t)args->context_max * form->head_dim * shared * job.tile_rows / 16;
    pool_run_ranges(cpu_device_pool(device), attention_range, &job, job.row_blocks * form->kv_heads,
                    cost);
    return KERNELS_OK;
}
