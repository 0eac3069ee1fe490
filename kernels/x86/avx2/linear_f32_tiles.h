/* Rows of floats times a 16- or 32-bit weight, in tiles: so many panels of outputs times a block of
 * rows. Private to kernels. The chains of a block are the tier's own; which blocks there are, and
 * which thread takes them, is here. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_LINEAR_F32_TILES_H
#define SOLFLEET_KERNELS_X86_AVX2_LINEAR_F32_TILES_H

#include "kernels/ops.h"

#define LINEAR_F32_ROWS 6u /* of a block */

struct linear_f32_job {
    const struct linear_f32_args *args;
    const float *bias; /* [N16] or NULL */
};

/* The outputs of panels begin .. end - 1 for rows t .. t + rows - 1; rows <= LINEAR_F32_ROWS. */
typedef void linear_f32_block_fn(const struct linear_f32_job *job, uint32_t begin, uint32_t end,
                                 uint32_t t, uint32_t rows);

struct linear_f32_kernels {
    linear_f32_block_fn *f16, *f32; /* by the weight's type */
    uint32_t panels;                /* of a tile */
    uint32_t row_cost;              /* of a tile, times K: what a row is to the pool */
};

enum kernels_status avx2_linear_f32_by(struct device *device, const struct linear_f32_args *args,
                                       const struct linear_f32_kernels *kernels);

#endif
