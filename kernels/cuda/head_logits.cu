/* The LM head: a linear of 16- or 32-bit weights. */
#include "kernels/cuda/cuda_ops.h"

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_head_logits(cudaStream_t stream, const struct head_logits_args *args) {
    struct linear_f32_args linear = {};
    linear.x = args->x;
    linear.weight = args->weight;
    linear.y = args->logits;
    linear.rows = args->rows;
    return cuda_linear_f32(stream, &linear);
}
