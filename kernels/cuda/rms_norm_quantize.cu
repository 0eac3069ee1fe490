/* RMSNorm, then INT8 rows.
 *
 * Parallelisation: a block of 256 threads a row. For the sum of squares 16 threads take a segment
 * of 256 elements, thread l its lane l, and fold by shuffles: the order of canonical.h. Then each
 * thread strides over the row twice, for the largest value and for the quantised bytes.
 * Bytes moved: x once from memory and twice from cache, q once. Bound expected: memory; not yet
 * measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS)
    rms_norm_quantize(norm_args norm, quantize_args args) {
    uint32_t t = blockIdx.x;
    const float *x = norm_input(norm, t), *weight = norm.weight;
    float squares = block_squares(norm.dim, 0.0f, [x](uint32_t i) { return x[i]; });
    float r = canonical_norm_factor(squares, norm.dim, norm.eps);
    block_quantize(args, t, norm.dim,
                   [x, weight, r](uint32_t i) { return (x[i] * r) * weight[i]; });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_rms_norm_quantize(cudaStream_t stream,
                                           const struct norm_quantize_args *args) {
    if (!check_norm(&args->norm) || !check_quantize(&args->quantize)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(rms_norm_quantize, args->norm.rows, ROW_THREADS, 0, stream, args->norm,
                args->quantize);
    return cuda_launch_status();
}
