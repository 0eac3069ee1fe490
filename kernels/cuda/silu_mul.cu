/* SiLU of the gate times up.
 *
 * Parallelisation: element by element; grid rows by stretches of 1024 columns. Bytes moved: gate
 * and up once, y once. Bound expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/elements.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) silu_mul(glu_args args) {
    const float *gate = args.gate_up + static_cast<size_t>(blockIdx.x) * 2u * args.dim;
    const float *up = gate + args.dim;
    float *y = args.y + static_cast<size_t>(blockIdx.x) * args.dim;
    each_element(blockIdx.y, args.dim,
                 [gate, up, y](size_t i) { y[i] = canonical_silu_mul(gate[i], up[i]); });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_silu_mul(cudaStream_t stream, const struct glu_args *args) {
    if (!check_glu(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    dim3 grid(args->rows, element_blocks(args->dim));
    CUDA_LAUNCH(silu_mul, grid, ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
