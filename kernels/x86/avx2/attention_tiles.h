/* Attention over pages in tiles: up to six query vectors at a time, those of the rows of one slot
 * that share a KV head, so that a key or value is loaded (and widened) once for all of them.
 *
 * Private to kernels. What is done to a block of keys is the tier's own; rows, tiles, the merging
 * of blocks and the division are here. Every chain is the reference's; only which of them run
 * together differs. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_ATTENTION_TILES_H
#define SOLFLEET_KERNELS_X86_AVX2_ATTENTION_TILES_H

#include <immintrin.h>

#include "kernels/ops.h"

#define ATTENTION_QUERIES 6u  /* 12 registers of chains, by twos */
#define ATTENTION_Q_STRIDE 8u /* queries side by side, padded */
#define ATTENTION_PAGES (ATTENTION_BLOCK_TOKENS / KV_PAGE_TOKENS)

/* Where a block of keys of one slot and one KV head lies. */
struct attention_pages {
    uint32_t count;
    const char *key[ATTENTION_PAGES];   /* of each page: [d, 16] */
    const char *value[ATTENTION_PAGES]; /* of each page: [16, d] */
};

/* Query vectors of one slot and one KV head, and the block of keys they are at. */
struct attention_tile {
    const struct kv_form *form;
    uint32_t queries;
    uint32_t keys[ATTENTION_QUERIES]; /* that a query may see: its position + 1 */
    float *out[ATTENTION_QUERIES];    /* [d] of the result */
    float max[ATTENTION_QUERIES], sum[ATTENTION_QUERIES];
    uint32_t count[ATTENTION_QUERIES]; /* keys of the block that a query sees */
    const struct attention_pages *here, *next;
    uint32_t fetched; /* pages of the block that the block before has fetched */
    float *q;         /* [d, ATTENTION_Q_STRIDE] */
    float *weight;    /* [queries, 256] */
    float *block;     /* [queries, d] */
};

struct attention_kernels {
    /* Scores of the keys of the block for all queries, to weight. */
    void (*scores)(const struct attention_tile *tile);
    /* Scores of one query to weights in place, for the first `count` of a block: max, exp, sum. */
    void (*softmax)(float *weight, uint32_t count, float *max, float *sum);
    /* Weighted values to block: those of each query's first `count` keys. */
    void (*values)(const struct attention_tile *tile);
};

/* What is fetched while a page is computed: memory is far, and a page a jump that no processor
 * foresees. Of a block that was fetched before, that is the same page of the next block (of another
 * slot, where rows decode): keys while scores are computed, values while values are weighted. A
 * block that nobody has fetched first looks after itself. Addresses that are not needed are those
 * of the page itself. */
struct attention_ahead {
    const char *first, *second;
};

#define ATTENTION_AHEAD_PAGES 2u

static inline struct attention_ahead attention_ahead_of_scores(const struct attention_tile *tile,
                                                               uint32_t page) {
    const struct attention_pages *here = tile->here, *next = tile->next;
    if (page < tile->fetched) {
        const char *none = here->key[page];
        return (struct attention_ahead){page < next->count ? next->key[page] : none, none};
    }
    uint32_t last = here->count - 1, after = page + ATTENTION_AHEAD_PAGES;
    return (struct attention_ahead){here->key[after < last ? after : last], here->value[page]};
}

static inline struct attention_ahead attention_ahead_of_values(const struct attention_tile *tile,
                                                               uint32_t page) {
    const struct attention_pages *here = tile->here, *next = tile->next;
    const char *none = here->value[page];
    if (page >= next->count) {
        return (struct attention_ahead){none, none};
    }
    return (struct attention_ahead){next->value[page],
                                    page < tile->fetched ? none : next->key[page]};
}

/* The lines of both that hold element `index`: stepping by 16 elements meets every line. To the
 * second cache: the first can wait for so few lines that memory would idle. */
static inline __attribute__((always_inline)) void
attention_fetch(const struct attention_ahead *ahead, size_t index, const bool half) {
    size_t at = index * (half ? 2u : 4u);
    _mm_prefetch(ahead->first + at, _MM_HINT_T1);
    _mm_prefetch(ahead->second + at, _MM_HINT_T1);
}

enum kernels_status avx2_attention_by(struct device *device, const struct attention_args *args,
                                      const struct attention_kernels *kernels);

#endif
