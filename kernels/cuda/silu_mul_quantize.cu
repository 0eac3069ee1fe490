/* SiLU of the gate times up, then INT8 rows.
 *
 * Parallelisation: a block of 256 threads a row, which strides over it twice: for the range, and
 * for the bytes, computing each product again: an exponential is cheaper than a row in memory.
 * Bytes moved: gate and up once from memory and once from cache, q once. Bound expected: memory;
 * not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS)
    silu_mul_quantize(glu_args glu, quantize_args args) {
    const float *gate = glu.gate_up + static_cast<size_t>(blockIdx.x) * 2u * glu.dim;
    const float *up = gate + glu.dim;
    block_quantize(args, blockIdx.x, glu.dim,
                   [gate, up](uint32_t i) { return canonical_silu_mul(gate[i], up[i]); });
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_silu_mul_quantize(cudaStream_t stream,
                                           const struct glu_quantize_args *args) {
    if (!check_glu(&args->glu) || !check_quantize(&args->quantize)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(silu_mul_quantize, args->glu.rows, ROW_THREADS, 0, stream, args->glu,
                args->quantize);
    return cuda_launch_status();
}
