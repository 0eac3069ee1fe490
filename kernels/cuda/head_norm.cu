/* QK-norm: RMSNorm of each head of a row, in place.
 *
 * Parallelisation: 16 threads a head, thread l lane l of every segment of it, so that no head needs
 * shared memory; a block of 256 threads takes 16 heads of a row. Bytes moved: x once from memory,
 * once from cache and once back. Bound expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

#define HEADS_AT_ONCE (ROW_THREADS / CANONICAL_LANES)

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) head_norm(head_norm_args args) {
    uint32_t lane = threadIdx.x % CANONICAL_LANES;
    uint32_t head = blockIdx.y * HEADS_AT_ONCE + threadIdx.x / CANONICAL_LANES;
    uint32_t dim = head < args.heads ? args.head_dim : 0u; /* the others only shuffle */
    float *x = args.x + static_cast<size_t>(blockIdx.x) * args.stride +
               static_cast<size_t>(head) * args.head_dim;
    float total = 0.0f;
    for (uint32_t begin = 0; begin < args.head_dim; begin += CANONICAL_SEGMENT) {
        float sum = lane_sum(
            begin, lane, dim, [x](uint32_t i) { return x[i]; },
            [](float squares, float one) { return fmaf(one, one, squares); });
        total = total + fold_lanes(sum);
    }
    float r = canonical_norm_factor(total, args.head_dim, args.eps);
    for (uint32_t i = lane; i < dim; i += CANONICAL_LANES) {
        x[i] = (x[i] * r) * args.weight[i];
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_head_norm(cudaStream_t stream, const struct head_norm_args *args) {
    if (!check_head_norm(args)) {
        return KERNELS_INVALID;
    }
    dim3 grid(args->rows, (args->heads - 1u) / HEADS_AT_ONCE + 1u);
    CUDA_LAUNCH(head_norm, grid, ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
