/* GELU in its tanh form.
 *
 * Parallelisation: element by element. Bytes moved: x once, y once. Bound expected: memory; not yet
 * measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/elements.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) gelu(activation_args args) {
    const float *x = args.x;
    float *y = args.y; /* may be x */
    each_element(blockIdx.x, static_cast<size_t>(args.rows) * args.dim,
                 [x, y](size_t i) { y[i] = canonical_gelu(x[i]); });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_gelu(cudaStream_t stream, const struct activation_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    uint64_t count = static_cast<uint64_t>(args->rows) * args->dim;
    CUDA_LAUNCH(gelu, element_blocks(count), ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
