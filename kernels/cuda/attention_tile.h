/* The block arithmetic of attention: what a block of threads does with up to 16 queries that share
 * a KV head and a slot, and the keys of one canonical block of 256 positions. Prefill and decode,
 * whole and split, all come here, so their bits are the same.
 *
 * Scores: a thread has a key, and for each query an FMA chain over d; the queries lie in shared
 * memory as [d, queries], so that 4 of them are one broadcast load. Softmax: 16 threads have a
 * query, each its lane of the canonical sum. Values: a thread has a d and some of the queries, and
 * for each an FMA chain over the keys. Functions are called by all threads of a block; barriers
 * stand between them, in the caller. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_ATTENTION_TILE_H
#define SOLFLEET_KERNELS_CUDA_ATTENTION_TILE_H

#include "kernels/cuda/kv_page.h"
#include "kernels/cuda/row.h"

#define ATTENTION_THREADS ATTENTION_BLOCK_TOKENS
#define BLOCK_PAGES (ATTENTION_BLOCK_TOKENS / KV_PAGE_TOKENS)
#define TILE_QUERIES_MAX (ATTENTION_THREADS / CANONICAL_LANES)
#define OUTPUTS_MAX 8u /* of a thread, over the queries of a tile */

/* Query i is head i % heads of row i / heads. */
struct attention_tile {
    uint32_t row, rows;   /* of the step; consecutive positions of a slot, all in one block */
    uint32_t position;    /* of the first row */
    uint32_t head, heads; /* query heads of kv_head */
    uint32_t kv_head;
    int32_t slot;
};

/* Shared memory of a block of threads. */
struct tile_memory {
    float *query;   /* [d, queries of the tile rounded up to QUERIES] */
    float *weight;  /* [queries, 256] scores, then exponentials */
    int32_t *page;  /* [16] numbers of the block's pages */
    uint32_t *keys; /* [queries] of the block that the query sees */
    float *max, *sum;
    float *before, *block; /* [queries] each: how the block joins those before it */
};

/* Most queries of a tile. Wide heads leave one group of threads for all of them. */
static __host__ __device__ __forceinline__ uint32_t tile_queries(uint32_t head_dim) {
    return head_dim <= ATTENTION_THREADS / 2u ? TILE_QUERIES_MAX : OUTPUTS_MAX;
}

/* Which outputs a thread has: d = `d` of queries group, group + groups, ... */
struct tile_column {
    uint32_t d, group, groups;
    bool is_used;
};

static __host__ __device__ __forceinline__ uint32_t tile_columns(uint32_t head_dim) {
    return (head_dim + WARP_THREADS - 1u) / WARP_THREADS * WARP_THREADS;
}

ROW_FN tile_column column_of(uint32_t head_dim) {
    uint32_t columns = tile_columns(head_dim);
    tile_column column = {threadIdx.x % columns, threadIdx.x / columns, ATTENTION_THREADS / columns,
                          false};
    column.is_used = column.d < head_dim && column.group < column.groups;
    return column;
}

/* Keys of the block at `first` that the row at `position` sees; it sees at least one. */
ROW_FN uint32_t keys_seen(uint32_t position, uint32_t first) {
    uint32_t keys = position + 1u - first;
    return keys < ATTENTION_BLOCK_TOKENS ? keys : ATTENTION_BLOCK_TOKENS;
}

/* ---------------------------------------------------------------- queries and pages */

template <uint32_t QUERIES>
ROW_FN void load_queries(const attention_args &args, const attention_tile &tile,
                         const tile_memory &memory) {
    uint32_t head_dim = args.kv.form.head_dim;
    for (uint32_t i = 0; i < QUERIES; i++) {
        bool real = i < tile.rows * tile.heads;
        uint32_t row = tile.row + i / tile.heads, head = tile.head + i % tile.heads;
        const float *query = args.q + static_cast<size_t>(row) * args.q_stride + head * head_dim;
        for (uint32_t d = threadIdx.x; d < head_dim; d += ATTENTION_THREADS) {
            memory.query[d * QUERIES + i] = real ? query[d] : 0.0f;
        }
    }
}

ROW_FN void load_pages(const attention_args &args, const attention_tile &tile,
                       const tile_memory &memory, uint32_t first, uint32_t keys) {
    if (threadIdx.x < BLOCK_PAGES && threadIdx.x * KV_PAGE_TOKENS < keys) {
        memory.page[threadIdx.x] =
            kv_page_number(args.kv, tile.slot, first + threadIdx.x * KV_PAGE_TOKENS);
    }
}

/* ---------------------------------------------------------------- scores */

/* One step of every query's chain. */
template <uint32_t QUERIES>
ROW_FN void add_products(const float *query, float key, float (&chain)[QUERIES]) {
    const float4 *four = reinterpret_cast<const float4 *>(query);
    CUDA_UNROLL
    for (uint32_t i = 0; i < QUERIES; i += 4u) {
        float4 q = four[i / 4u];
        chain[i] = fmaf(q.x, key, chain[i]);
        chain[i + 1u] = fmaf(q.y, key, chain[i + 1u]);
        chain[i + 2u] = fmaf(q.z, key, chain[i + 2u]);
        chain[i + 3u] = fmaf(q.w, key, chain[i + 3u]);
    }
}

/* Chains over the whole vectors of a key, several loads under way. */
template <typename Element, uint32_t QUERIES>
ROW_FN void chain_vectors(const typename Element::stored *key, const float *query, uint32_t vectors,
                          float (&chain)[QUERIES]) {
    for (uint32_t begin = 0; begin < vectors; begin += Element::AT_ONCE) {
        uint4 loaded[Element::AT_ONCE];
        CUDA_UNROLL
        for (uint32_t i = 0; i < Element::AT_ONCE; i++) {
            if (begin + i < vectors) {
                loaded[i] = kv_vector<Element>(key + static_cast<size_t>(begin + i) *
                                                         KV_PAGE_TOKENS * Element::VECTOR);
            }
        }
        CUDA_UNROLL
        for (uint32_t i = 0; i < Element::AT_ONCE; i++) {
            if (begin + i < vectors) {
                float k[Element::VECTOR];
                Element::unpack(loaded[i], k);
                CUDA_UNROLL
                for (uint32_t e = 0; e < Element::VECTOR; e++) {
                    uint32_t d = (begin + i) * Element::VECTOR + e;
                    add_products<QUERIES>(query + d * QUERIES, k[e], chain);
                }
            }
        }
    }
}

template <typename Element, uint32_t QUERIES>
ROW_FN void tile_scores(const attention_args &args, const attention_tile &tile,
                        const tile_memory &memory, uint32_t keys) {
    uint32_t j = threadIdx.x, head_dim = args.kv.form.head_dim;
    if (j >= keys) {
        return;
    }
    auto *key = kv_head_of<Element>(args.kv, memory.page[j / KV_PAGE_TOKENS], tile.kv_head);
    uint32_t token = j % KV_PAGE_TOKENS, vectors = head_dim / Element::VECTOR;
    float chain[QUERIES] = {0};
    chain_vectors<Element, QUERIES>(key + token * Element::VECTOR, memory.query, vectors, chain);
    for (uint32_t d = vectors * Element::VECTOR; d < head_dim; d++) {
        float k = Element::load(key[kv_key_at(Element::VECTOR, d, token)]);
        add_products<QUERIES>(memory.query + d * QUERIES, k, chain);
    }
    float scale = canonical_attention_scale(head_dim);
    uint32_t queries = tile.rows * tile.heads;
    CUDA_UNROLL
    for (uint32_t i = 0; i < QUERIES; i++) {
        if (i < queries) {
            memory.weight[i * ATTENTION_BLOCK_TOKENS + j] = chain[i] * scale;
        }
    }
}

/* ---------------------------------------------------------------- softmax */

/* Notes the block's max and sum of query i, or joins them to those before. */
ROW_FN void join_sums(const tile_memory &memory, uint32_t i, float max, float sum, bool is_first) {
    if (is_first) {
        memory.max[i] = max;
        memory.sum[i] = sum;
        return;
    }
    canonical_merge merge = canonical_attention_merge(memory.max[i], max);
    memory.max[i] = merge.max;
    memory.sum[i] = fmaf(memory.sum[i], merge.before, sum * merge.block);
    memory.before[i] = merge.before;
    memory.block[i] = merge.block;
}

/* The largest score may be found in any order: of equal ones only the sign of a zero differs, which
 * exp(s - max) does not see, and with a NaN the whole output is NaN. */
ROW_FN void tile_softmax(const attention_tile &tile, const tile_memory &memory, uint32_t first,
                         bool is_first) {
    uint32_t i = threadIdx.x / CANONICAL_LANES, lane = threadIdx.x % CANONICAL_LANES;
    bool real = i < tile.rows * tile.heads;
    uint32_t keys = real ? keys_seen(tile.position + i / tile.heads, first) : 0u;
    float *weight = memory.weight + i * ATTENTION_BLOCK_TOKENS;
    float max = -canonical_float(CANONICAL_INF_BITS), sum = 0.0f;
    for (uint32_t j = lane; j < keys; j += CANONICAL_LANES) {
        max = canonical_max(max, weight[j]);
    }
    for (uint32_t half = CANONICAL_LANES / 2u; half > 0u; half /= 2u) {
        max = canonical_max(max, __shfl_xor_sync(FULL_MASK, max, half));
    }
    for (uint32_t j = lane; j < keys; j += CANONICAL_LANES) {
        float p = canonical_exp(weight[j] - max);
        weight[j] = p;
        sum = sum + p;
    }
    sum = fold_lanes(sum);
    if (lane == 0 && real) {
        memory.keys[i] = keys;
        join_sums(memory, i, max, sum, is_first);
    }
}

/* ---------------------------------------------------------------- values */

/* The chain of one output over a vector of tokens. */
template <uint32_t VECTOR>
ROW_FN float chain_tokens(const float *weight, const float (&v)[VECTOR], float chain) {
    const float4 *four = reinterpret_cast<const float4 *>(weight);
    CUDA_UNROLL
    for (uint32_t e = 0; e < VECTOR; e += 4u) {
        float4 p = four[e / 4u];
        chain = fmaf(p.x, v[e], chain);
        chain = fmaf(p.y, v[e + 1u], chain);
        chain = fmaf(p.z, v[e + 2u], chain);
        chain = fmaf(p.w, v[e + 3u], chain);
    }
    return chain;
}

/* Tokens j .. of all queries of the thread, each of which sees all of them. */
template <typename Element, uint32_t OUTPUTS>
ROW_FN void add_seen(const tile_memory &memory, const tile_column &column, uint32_t queries,
                     uint32_t j, uint4 loaded, float (&out)[OUTPUTS]) {
    float v[Element::VECTOR];
    Element::unpack(loaded, v);
    CUDA_UNROLL
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        uint32_t i = column.group + k * column.groups;
        if (i < queries) {
            const float *weight = memory.weight + i * ATTENTION_BLOCK_TOKENS + j;
            out[k] = chain_tokens<Element::VECTOR>(weight, v, out[k]);
        }
    }
}

/* Token j of those queries that see it. */
template <uint32_t OUTPUTS>
ROW_FN void add_token(const tile_memory &memory, const tile_column &column, uint32_t queries,
                      uint32_t j, float v, float (&out)[OUTPUTS]) {
    CUDA_UNROLL
    for (uint32_t k = 0; k < OUTPUTS; k++) {
        uint32_t i = column.group + k * column.groups;
        if (i < queries && j < memory.keys[i]) {
            out[k] = fmaf(memory.weight[i * ATTENTION_BLOCK_TOKENS + j], v, out[k]);
        }
    }
}

/* Weighted values of the block, alone. `keys` are those that the last row sees. */
template <typename Element, uint32_t OUTPUTS>
ROW_FN void tile_values(const attention_args &args, const attention_tile &tile,
                        const tile_memory &memory, const tile_column &column, uint32_t first,
                        uint32_t keys, float (&out)[OUTPUTS]) {
    const uint32_t vector = Element::VECTOR, stretch = vector * Element::AT_ONCE;
    uint32_t head_dim = args.kv.form.head_dim, queries = tile.rows * tile.heads;
    uint32_t seen = keys_seen(tile.position, first) / stretch * stretch; /* by all rows */
    auto at = [&](uint32_t j) {
        auto *head = kv_head_of<Element>(args.kv, memory.page[j / KV_PAGE_TOKENS], tile.kv_head);
        return head + kv_value_at(head_dim, vector, column.d, j % KV_PAGE_TOKENS);
    };
    for (uint32_t begin = 0; begin < seen; begin += stretch) {
        uint4 loaded[Element::AT_ONCE];
        CUDA_UNROLL
        for (uint32_t i = 0; i < Element::AT_ONCE; i++) {
            loaded[i] = kv_vector<Element>(at(begin + i * vector));
        }
        CUDA_UNROLL
        for (uint32_t i = 0; i < Element::AT_ONCE; i++) {
            add_seen<Element, OUTPUTS>(memory, column, queries, begin + i * vector, loaded[i], out);
        }
    }
    for (uint32_t j = seen; j < keys; j++) {
        add_token<OUTPUTS>(memory, column, queries, j, Element::load(*at(j)), out);
    }
}

#endif
