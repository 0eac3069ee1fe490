/* RMSNorm of rows.
 *
 * Parallelisation: a block of 256 threads a row; 16 threads a segment of the sum of squares, then
 * each thread strides over the row. Bytes moved: x once from memory and once from cache, y once.
 * Bound expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) rms_norm(norm_args args) {
    uint32_t dim = args.dim;
    const float *x = norm_input(args, blockIdx.x);
    float *y = args.y + static_cast<size_t>(blockIdx.x) * dim;
    float squares = block_squares(dim, 0.0f, [x](uint32_t i) { return x[i]; });
    float r = canonical_norm_factor(squares, dim, args.eps);
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        y[i] = (x[i] * r) * args.weight[i];
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_rms_norm(cudaStream_t stream, const struct norm_args *args) {
    if (!check_norm(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(rms_norm, args->rows, ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
