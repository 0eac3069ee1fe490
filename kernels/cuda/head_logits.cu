/* The LM head: a linear of 16- or 32-bit weights. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/linear_fast.h"

/* ---------------------------------------------------------------- launchers */

size_t cuda_head_logits_bytes(const struct kernels_shape *shape) {
    return shape->fast ? cuda_linear_fast_bytes(shape->vocabulary, shape->dim) : 0;
}

enum kernels_status cuda_head_logits(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct head_logits_args *args) {
    struct linear_f32_args linear = {};
    linear.x = args->x;
    linear.weight = args->weight;
    linear.y = args->logits;
    linear.workspace = args->workspace;
    linear.rows = args->rows;
    return cuda_linear_f32(blas, stream, &linear);
}
