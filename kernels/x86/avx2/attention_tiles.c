#include "kernels/x86/avx2/attention_tiles.h"

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
                            uint32_t first) {
    float max[ATTENTION_QUERIES] = {0}, sum[ATTENTION_QUERIES] = {0};
    kernels->scores(tile);
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

/* The division by the sum of weights. */
static void attention_finish(struct attention_tile *tile) {
    for (uint32_t r = 0; r < tile->queries; r++) {
        float inverse = 1.0f / tile->sum[r];
        for (uint32_t d = 0; d < tile->form->head_dim; d++) {
            tile->out[r][d] = tile->out[r][d] * inverse;
        }
    }
}

/* ---------------------------------------------------------------- the walk */

struct attention_job {
    const struct attention_kernels *kernels;
    const struct device *device;
    const struct attention_args *args;
    uint32_t shared;    /* query heads of a KV head */
    uint32_t tile_rows; /* rows that give about ATTENTION_QUERIES query vectors */
    uint32_t row_blocks;
};

/* Queries from .. from + count - 1, (row, head), heads first, of the run of rows that begins at
 * row, for one KV head. */
struct attention_group {
    uint32_t row, head, from, count;
    uint32_t keys; /* that its last query, which sees most, may see */
};

/* The groups of items item .. end - 1. */
struct attention_walk {
    const struct attention_job *job;
    uint32_t item, end;
    uint32_t head, row, last; /* of the item: rows row .. last - 1 are left */
    struct attention_group run;
    uint32_t left; /* queries of the run */
};

/* Whether row t + 1 goes on where row t stands. */
static bool attention_continues(const struct step_rows *rows, uint32_t t) {
    return rows->slot[t + 1] == rows->slot[t] && rows->position[t + 1] >= rows->position[t];
}

/* The next run of rows of one slot. Item: a block of rows for one KV head; blocks of a head follow
 * each other. */
static bool attention_walk_run(struct attention_walk *walk) {
    const struct attention_job *job = walk->job;
    const struct step_rows *rows = &job->args->rows;
    if (walk->row == walk->last) {
        if (walk->item == walk->end) {
            return false;
        }
        walk->head = walk->item / job->row_blocks;
        walk->row = walk->item % job->row_blocks * job->tile_rows;
        uint32_t left = rows->rows - walk->row;
        walk->last = walk->row + (left < job->tile_rows ? left : job->tile_rows);
        walk->item++;
    }
    uint32_t row = walk->row++;
    while (walk->row < walk->last && attention_continues(rows, walk->row - 1)) {
        walk->row++;
    }
    walk->run = (struct attention_group){.row = row, .head = walk->head};
    walk->left = (walk->row - row) * job->shared;
    return true;
}

static bool attention_walk_next(struct attention_walk *walk, struct attention_group *group) {
    if (walk->left == 0 && !attention_walk_run(walk)) {
        return false;
    }
    const struct attention_job *job = walk->job;
    walk->run.count = walk->left < ATTENTION_QUERIES ? walk->left : ATTENTION_QUERIES;
    uint32_t after = walk->run.from + walk->run.count;
    walk->run.keys =
        (uint32_t)job->args->rows.position[walk->run.row + (after - 1) / job->shared] + 1;
    *group = walk->run;
    walk->left -= walk->run.count;
    walk->run.from = after;
    return true;
}

/* ---------------------------------------------------------------- launchers */

static void attention_find(const struct attention_job *job, const struct attention_group *group,
                           uint32_t first, struct attention_pages *pages) {
    const struct kv_view *kv = &job->args->kv;
    size_t bytes = element_bytes(kv->form.type);
    uint32_t slot = (uint32_t)job->args->rows.slot[group->row];
    uint32_t left = group->keys - first;
    uint32_t keys = left < ATTENTION_BLOCK_TOKENS ? left : ATTENTION_BLOCK_TOKENS;
    pages->count = (keys - 1) / KV_PAGE_TOKENS + 1;
    for (uint32_t page = 0; page < pages->count; page++) {
        const char *at = kv_page(kv, slot, first + page * KV_PAGE_TOKENS);
        pages->key[page] = at + kv_key_index(&kv->form, group->head, 0, 0) * bytes;
        pages->value[page] = at + kv_value_index(&kv->form, group->head, 0, 0) * bytes;
    }
}

static void attention_begin(const struct attention_job *job, const struct attention_group *group,
                            struct attention_tile *tile) {
    const struct attention_args *args = job->args;
    uint32_t head_dim = args->kv.form.head_dim;
    tile->queries = group->count;
    for (uint32_t r = 0; r < group->count; r++) {
        uint32_t row = group->row + (group->from + r) / job->shared;
        uint32_t h = group->head * job->shared + (group->from + r) % job->shared;
        const float *q = args->q + (size_t)row * args->q_stride + (size_t)h * head_dim;
        tile->keys[r] = (uint32_t)args->rows.position[row] + 1;
        tile->out[r] = args->out + ((size_t)row * args->heads + h) * head_dim;
        for (uint32_t d = 0; d < head_dim; d++) {
            tile->q[(size_t)d * ATTENTION_Q_STRIDE + r] = q[d];
        }
    }
}

/* All blocks of a group; pages[0] is its first, and in the end that of the group that follows, if
 * one does. */
static void attention_group_run(const struct attention_job *job, struct attention_tile *tile,
                                const struct attention_group *group,
                                const struct attention_group *follows,
                                struct attention_pages pages[2]) {
    attention_begin(job, group, tile);
    for (uint32_t first = 0; first < group->keys; first += ATTENTION_BLOCK_TOKENS) {
        for (uint32_t r = 0; r < tile->queries; r++) {
            uint32_t left = tile->keys[r] > first ? tile->keys[r] - first : 0;
            tile->count[r] = left < ATTENTION_BLOCK_TOKENS ? left : ATTENTION_BLOCK_TOKENS;
        }
        pages[1].count = 0;
        if (group->keys - first > ATTENTION_BLOCK_TOKENS) {
            attention_find(job, group, first + ATTENTION_BLOCK_TOKENS, &pages[1]);
        } else if (follows != NULL) {
            attention_find(job, follows, 0, &pages[1]);
        }
        tile->here = &pages[0];
        tile->next = &pages[1];
        attention_block(job->kernels, tile, first);
        tile->fetched = pages[0].count < pages[1].count ? pages[0].count : pages[1].count;
        pages[0] = pages[1];
    }
    attention_finish(tile);
}

static void attention_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct attention_job *job = context;
    const struct kv_form *form = &job->args->kv.form;
    struct attention_tile tile = {.form = form};
    tile.weight = cpu_device_row(job->device, worker);
    tile.q = tile.weight + ATTENTION_QUERIES * ATTENTION_BLOCK_TOKENS;
    tile.block = tile.q + (size_t)form->head_dim * ATTENTION_Q_STRIDE;
    struct attention_walk walk = {.job = job, .item = begin, .end = end};
    struct attention_group group, follows = {0};
    struct attention_pages pages[2];
    bool more = attention_walk_next(&walk, &group);
    if (more) {
        attention_find(job, &group, 0, &pages[0]);
    }
    while (more) {
        more = attention_walk_next(&walk, &follows);
        attention_group_run(job, &tile, &group, more ? &follows : NULL, pages);
        group = follows;
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
