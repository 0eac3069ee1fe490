/* The residual stream takes in the output of a block.
 *
 * Parallelisation: element by element. Bytes moved: x once each way, y once. Bound expected:
 * memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/elements.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) add(add_args args) {
    float *x = args.x;
    const float *y = args.y;
    each_element(blockIdx.x, static_cast<size_t>(args.rows) * args.dim,
                 [x, y](size_t i) { x[i] = x[i] + y[i]; });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_add(cudaStream_t stream, const struct add_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    uint64_t count = static_cast<uint64_t>(args->rows) * args->dim;
    CUDA_LAUNCH(add, element_blocks(count), ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
