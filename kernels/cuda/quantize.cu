/* Rows of floats to INT8: symmetric or asymmetric per token, or with a static scale.
 *
 * Parallelisation: a block of 256 threads a row, which strides over it twice: for the range, and
 * for the bytes. Bytes moved: x once from memory and once from cache, q once. Bound expected:
 * memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) quantize(quantize_args args) {
    const float *x = args.x + static_cast<size_t>(blockIdx.x) * args.dim;
    block_quantize(args, blockIdx.x, args.dim, [x](uint32_t i) { return x[i]; });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_quantize(cudaStream_t stream, const struct quantize_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_quantize(args)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(quantize, args->rows, ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
