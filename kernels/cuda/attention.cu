/* Causal grouped-query attention over pages, in blocks of 256 positions merged in ascending order
 * (online softmax: Milakov & Gimelshein 2018; blocks: Dao et al. 2022; split decode: Dao et al.
 * 2023).
 *
 * Parallelisation: a block of 256 threads a tile: up to 16 queries, the query heads of one KV head
 * in one row (decode) or in neighbouring rows of a slot (prefill), so that K and V are loaded once
 * for them all; with more than 16 query heads a KV head (8 where d > 128), once for so many. The
 * block of a tile's first row does the work, those of its other rows leave. It goes through the
 * canonical blocks in ascending order; for a few rows with a long context a block of threads takes
 * one canonical block only, and a second kernel merges them in the same order.
 * Bytes moved: K and V of the context once a tile, q and out once; split, (d + 2) floats a query
 * and canonical block, about 2 % of K and V. Bound expected: memory for decode; for prefill FP32
 * FMA, at about half its peak (a broadcast load for 4 of them), 16 and more times what tensor cores
 * would take: the price of one arithmetic on every device. Not yet measured on a card. */
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/reference/check.h"

#define BLOCKS_RESIDENT 2  /* of threads on a multiprocessor: 128 registers a thread */
#define SPLIT_ROWS_MAX 64u /* more rows keep a card busy by themselves */
#define SPLIT_BYTES_MAX (static_cast<size_t>(64) << 20) /* past it a context is not split */
#define GRID_Y_MAX 65535u

/* How a call is cut: all from its scalars. */
struct attention_plan {
    uint32_t queries;   /* most of a tile */
    uint32_t parts;     /* of the query heads of a KV head */
    uint32_t tile_rows; /* a power of two that divides a canonical block */
    uint32_t blocks;    /* canonical ones of context_max */
    float *partial;     /* f32 [T, H, blocks, d + 2]: out, max, sum of a block; NULL = not split */
};

/* ---------------------------------------------------------------- kernels */

/* Row t is the next position of row t - 1. Rows of padding are not, so each is a tile. */
static __device__ __forceinline__ bool continues(const step_rows &rows, uint32_t t) {
    return rows.slot[t] == rows.slot[t - 1u] && rows.position[t] == rows.position[t - 1u] + 1;
}

/* The tile whose first row is row t; no rows where that row is of another tile. */
static __device__ __forceinline__ attention_tile tile_of(const attention_args &args,
                                                         const attention_plan &plan, uint32_t t,
                                                         uint32_t unit) {
    const step_rows &rows = args.rows;
    uint32_t group = args.heads / args.kv.form.kv_heads, part = unit % plan.parts;
    attention_tile tile;
    tile.row = t;
    tile.position = static_cast<uint32_t>(rows.position[t]);
    tile.slot = rows.slot[t];
    tile.kv_head = unit / plan.parts;
    tile.head = tile.kv_head * group + part * plan.queries;
    uint32_t left = group - part * plan.queries;
    tile.heads = left < plan.queries ? left : plan.queries;
    tile.rows = 0;
    if (tile.position % plan.tile_rows != 0 && t > 0 && continues(rows, t)) {
        return tile;
    }
    do {
        tile.rows++;
    } while (t + tile.rows < rows.rows && (tile.position + tile.rows) % plan.tile_rows != 0 &&
             continues(rows, t + tile.rows));
    return tile;
}

/* The block's part of the outputs joins those before it. */
template <uint32_t OUTPUTS>
static __device__ __forceinline__ void
join_outputs(const tile_memory &memory, const tile_column &column, uint32_t queries, bool is_first,
             const float (&block)[OUTPUTS], float (&all)[OUTPUTS]) {
    CUDA_UNROLL
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        uint32_t i = column.group + k * column.groups;
        if (is_first) {
            all[k] = block[k];
        } else if (i < queries) {
            all[k] = fmaf(all[k], memory.before[i], block[k] * memory.block[i]);
        }
    }
}

/* Canonical blocks begin .. end - 1 of a tile; leaves max and sum in shared memory. */
template <typename Element, uint32_t QUERIES, uint32_t OUTPUTS>
static __device__ __forceinline__ void
answer_blocks(const attention_args &args, const attention_tile &tile, const tile_memory &memory,
              const tile_column &column, uint32_t begin, uint32_t end, float (&all)[OUTPUTS]) {
    load_queries<QUERIES>(args, tile, memory);
    for (uint32_t b = begin; b < end; b++) {
        uint32_t first = b * ATTENTION_BLOCK_TOKENS;
        uint32_t keys = keys_seen(tile.position + tile.rows - 1u, first);
        load_pages(args, tile, memory, first, keys);
        __syncthreads();
        tile_scores<Element, QUERIES>(args, tile, memory, keys);
        __syncthreads();
        tile_softmax(tile, memory, first, b == begin);
        __syncthreads();
        if (column.is_used) {
            float block[OUTPUTS] = {0};
            tile_values<Element, OUTPUTS>(args, tile, memory, column, first, keys, block);
            join_outputs<OUTPUTS>(memory, column, tile.rows * tile.heads, b == begin, block, all);
        }
        __syncthreads();
    }
}

/* Row and head of query i, as an index of [T, H]. */
static __device__ __forceinline__ size_t query_at(const attention_args &args,
                                                  const attention_tile &tile, uint32_t i) {
    return static_cast<size_t>(tile.row + i / tile.heads) * args.heads + tile.head + i % tile.heads;
}

template <typename Element, uint32_t QUERIES>
static __device__ __forceinline__ void answer_whole(const attention_args &args,
                                                    const attention_tile &tile,
                                                    const tile_memory &memory, uint32_t blocks) {
    uint32_t head_dim = args.kv.form.head_dim;
    tile_column column = column_of(head_dim);
    const uint32_t outputs = QUERIES < OUTPUTS_MAX ? QUERIES : OUTPUTS_MAX;
    float all[outputs] = {0};
    answer_blocks<Element, QUERIES, outputs>(args, tile, memory, column, 0, blocks, all);
    CUDA_UNROLL
    for (uint32_t k = 0; k < outputs; k++) {
        uint32_t i = column.group + k * column.groups;
        if (column.is_used && i < tile.rows * tile.heads) {
            args.out[query_at(args, tile, i) * head_dim + column.d] =
                all[k] * (1.0f / memory.sum[i]);
        }
    }
}

template <typename Element, uint32_t QUERIES>
static __device__ __forceinline__ void
answer_block(const attention_args &args, const attention_plan &plan, const attention_tile &tile,
             const tile_memory &memory, uint32_t b) {
    uint32_t head_dim = args.kv.form.head_dim;
    tile_column column = column_of(head_dim);
    const uint32_t outputs = QUERIES < OUTPUTS_MAX ? QUERIES : OUTPUTS_MAX;
    float all[outputs] = {0};
    answer_blocks<Element, QUERIES, outputs>(args, tile, memory, column, b, b + 1u, all);
    CUDA_UNROLL
    for (uint32_t k = 0; k < outputs; k++) {
        uint32_t i = column.group + k * column.groups;
        if (column.is_used && i < tile.rows * tile.heads) {
            float *partial =
                plan.partial + (query_at(args, tile, i) * plan.blocks + b) * (head_dim + 2u);
            partial[column.d] = all[k];
            if (column.d == 0) {
                partial[head_dim] = memory.max[i];
                partial[head_dim + 1u] = memory.sum[i];
            }
        }
    }
}

/* Shared memory of attention_tiles and attention_blocks; queries are dynamic. */
#define TILE_MEMORY(memory)                                                  \
    CUDA_SHARED(float, weight, [TILE_QUERIES_MAX * ATTENTION_BLOCK_TOKENS]); \
    CUDA_SHARED(int32_t, page, [BLOCK_PAGES]);                               \
    CUDA_SHARED(uint32_t, keys, [TILE_QUERIES_MAX]);                         \
    CUDA_SHARED(float, sums, [4u * TILE_QUERIES_MAX]);                       \
    CUDA_SHARED_DYNAMIC(float, query);                                       \
    const tile_memory memory = {query,                                       \
                                weight,                                      \
                                page,                                        \
                                keys,                                        \
                                sums,                                        \
                                sums + TILE_QUERIES_MAX,                     \
                                sums + 2u * TILE_QUERIES_MAX,                \
                                sums + 3u * TILE_QUERIES_MAX}

template <typename Element>
static __global__ void __launch_bounds__(ATTENTION_THREADS, BLOCKS_RESIDENT)
    attention_tiles(attention_args args, attention_plan plan) {
    TILE_MEMORY(memory);
    attention_tile tile = tile_of(args, plan, blockIdx.x, blockIdx.y);
    uint32_t queries = tile.rows * tile.heads;
    uint32_t blocks = tile.position / ATTENTION_BLOCK_TOKENS + 1u;
    if (queries == 0) {
        return;
    }
    if (queries <= 4u) {
        answer_whole<Element, 4>(args, tile, memory, blocks);
    } else if (queries <= 8u) {
        answer_whole<Element, 8>(args, tile, memory, blocks);
    } else {
        answer_whole<Element, 16>(args, tile, memory, blocks);
    }
}

template <typename Element>
static __global__ void __launch_bounds__(ATTENTION_THREADS, BLOCKS_RESIDENT)
    attention_blocks(attention_args args, attention_plan plan) {
    TILE_MEMORY(memory);
    uint32_t units = args.kv.form.kv_heads * plan.parts;
    attention_tile tile = tile_of(args, plan, blockIdx.x, blockIdx.y % units);
    uint32_t queries = tile.rows * tile.heads, b = blockIdx.y / units;
    if (queries == 0 || b > tile.position / ATTENTION_BLOCK_TOKENS) {
        return;
    }
    if (queries <= 4u) {
        answer_block<Element, 4>(args, plan, tile, memory, b);
    } else if (queries <= 8u) {
        answer_block<Element, 8>(args, plan, tile, memory, b);
    } else {
        answer_block<Element, 16>(args, plan, tile, memory, b);
    }
}

/* A block of threads for a row and a query head, a thread for a d. */
static __global__ void attention_merge(attention_args args, attention_plan plan) {
    uint32_t d = threadIdx.x, head_dim = args.kv.form.head_dim;
    if (d >= head_dim) {
        return;
    }
    size_t query = static_cast<size_t>(blockIdx.x) * args.heads + blockIdx.y;
    const float *block = plan.partial + query * plan.blocks * (head_dim + 2u);
    uint32_t last = static_cast<uint32_t>(args.rows.position[blockIdx.x]) / ATTENTION_BLOCK_TOKENS;
    float out = block[d], max = block[head_dim], sum = block[head_dim + 1u];
    for (uint32_t b = 1; b <= last; b++) {
        block += head_dim + 2u;
        canonical_merge merge = canonical_attention_merge(max, block[head_dim]);
        max = merge.max;
        sum = fmaf(sum, merge.before, block[head_dim + 1u] * merge.block);
        out = fmaf(out, merge.before, block[d] * merge.block);
    }
    args.out[query * head_dim + d] = out * (1.0f / sum);
}

/* ---------------------------------------------------------------- launchers */

static uint32_t blocks_of(uint32_t context_max) {
    return (context_max - 1u) / ATTENTION_BLOCK_TOKENS + 1u;
}

static uint64_t partial_bytes(uint32_t rows, uint32_t heads, uint32_t head_dim,
                              uint32_t context_max) {
    return static_cast<uint64_t>(rows) * heads * blocks_of(context_max) * (head_dim + 2u) *
           sizeof(float);
}

/* The largest of any call within the shape: one whose partial outputs are more is not split. */
size_t cuda_attention_bytes(const struct kernels_shape *shape) {
    uint32_t rows = shape->rows_max < SPLIT_ROWS_MAX ? shape->rows_max : SPLIT_ROWS_MAX;
    if (blocks_of(shape->context_max) == 1u) {
        return 0;
    }
    uint64_t bytes = partial_bytes(rows, shape->heads, shape->kv.head_dim, shape->context_max);
    return bytes < SPLIT_BYTES_MAX ? static_cast<size_t>(bytes) : SPLIT_BYTES_MAX;
}

/* Without `partial`. */
static attention_plan plan_of(const attention_args *args) {
    uint32_t group = args->heads / args->kv.form.kv_heads;
    uint32_t queries = tile_queries(args->kv.form.head_dim);
    attention_plan plan = {queries, (group - 1u) / queries + 1u, 1, blocks_of(args->context_max),
                           NULL};
    while (2u * plan.tile_rows * group <= queries) {
        plan.tile_rows *= 2u;
    }
    return plan;
}

/* Bytes of partial outputs; 0 = not split. */
static size_t split_bytes(const attention_args *args, const attention_plan &plan) {
    const kv_form &form = args->kv.form;
    uint64_t grid_y = static_cast<uint64_t>(form.kv_heads) * plan.parts * plan.blocks;
    uint64_t bytes = partial_bytes(args->rows.rows, args->heads, form.head_dim, args->context_max);
    bool splits = plan.blocks > 1u && args->rows.rows <= SPLIT_ROWS_MAX && grid_y <= GRID_Y_MAX &&
                  bytes <= SPLIT_BYTES_MAX;
    return splits ? static_cast<size_t>(bytes) : 0;
}

template <typename Element>
static enum kernels_status launch(cudaStream_t stream, const attention_args *args,
                                  const attention_plan &plan) {
    uint32_t rows = args->rows.rows, head_dim = args->kv.form.head_dim;
    uint32_t units = args->kv.form.kv_heads * plan.parts;
    size_t query_bytes = sizeof(float) * plan.queries * head_dim;
    if (plan.partial == NULL) {
        CUDA_LAUNCH(attention_tiles<Element>, dim3(rows, units), ATTENTION_THREADS, query_bytes,
                    stream, *args, plan);
        return cuda_launch_status();
    }
    CUDA_LAUNCH(attention_blocks<Element>, dim3(rows, units * plan.blocks), ATTENTION_THREADS,
                query_bytes, stream, *args, plan);
    enum kernels_status status = cuda_launch_status();
    if (status == KERNELS_OK) {
        CUDA_LAUNCH(attention_merge, dim3(rows, args->heads), tile_columns(head_dim), 0, stream,
                    *args, plan);
        status = cuda_launch_status();
    }
    return status;
}

enum kernels_status cuda_attention(cudaStream_t stream, const struct attention_args *args) {
    if (!check_attention(args, cuda_page_bytes(&args->kv.form))) {
        return KERNELS_INVALID;
    }
    attention_plan plan = plan_of(args);
    size_t bytes = split_bytes(args, plan);
    if (!check_workspace(&args->workspace, bytes)) {
        return KERNELS_INVALID;
    }
    plan.partial = bytes > 0 ? static_cast<float *>(args->workspace.data) : NULL;
    return args->kv.form.type == ELEMENT_F32 ? launch<kv_f32>(stream, args, plan)
                                             : launch<kv_f16>(stream, args, plan);
}
