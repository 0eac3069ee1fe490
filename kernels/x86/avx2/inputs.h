/* INT8 rows, two at least, laid out for blocks of two or three: unsigned, group by group. Private
 * to kernels.
 *
 * Of each group of 16 inputs the least one of the block's rows is taken away, so that what is left
 * is unsigned and small: `range` is the largest of it, at most 254. Rows go into nearly equal
 * blocks, so that none is left with one (T = 4: two and two).
 *   q      u8 [T, 16 G]  block after block; inside a block of R rows [G, 4, R, 4]: a step's inputs
 *                        of all its rows side by side; past K whatever is within the range
 *   least  i16 [B, G2]   G2 = G rounded up to 2; 0 past G
 *   range  u8 [B, G2] */
#ifndef SOLFLEET_KERNELS_X86_AVX2_INPUTS_H
#define SOLFLEET_KERNELS_X86_AVX2_INPUTS_H

#include "kernels/x86/avx2/weight.h"

#define AVX2_BLOCK_ROWS 3u /* what sixteen registers hold the sums of, for a panel */

struct avx2_inputs {
    uint8_t *q;
    int16_t *least;
    uint8_t *range;
    uint32_t rows, k;
};

static inline uint32_t avx2_blocks(uint32_t rows) {
    return (rows - 1) / AVX2_BLOCK_ROWS + 1;
}

/* The first row of a block; that of block avx2_blocks(rows) is `rows`. */
static inline uint32_t avx2_block_first(uint32_t rows, uint32_t block) {
    uint32_t blocks = avx2_blocks(rows), more = rows % blocks;
    return block * (rows / blocks) + (block < more ? block : more);
}

/* Groups of 16, to an even number. */
static inline size_t avx2_inputs_groups(uint32_t k) {
    return (avx2_groups(k) + 1u) & ~(size_t)1;
}

size_t avx2_inputs_bytes(uint32_t rows, uint32_t k);
/* Gives the arrays their places in memory of avx2_inputs_bytes, aligned to a cache line. */
struct avx2_inputs avx2_inputs_place(void *memory, uint32_t rows, uint32_t k);
/* Lays out blocks begin .. end - 1 of q, i8 [T, K], all within -127 .. 127. */
void avx2_inputs_fill(const struct avx2_inputs *inputs, const int8_t *q, uint32_t begin,
                      uint32_t end);

#endif
