/* LayerNorm of rows.
 *
 * Parallelisation: a block of 256 threads a row; the mean, then the squares of what is left of it,
 * 16 threads a segment. Bytes moved: x once from memory and twice from cache, y once. Bound
 * expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(ROW_THREADS) layer_norm(norm_args args) {
    uint32_t dim = args.dim;
    const float *x = norm_input(args, blockIdx.x);
    float *y = args.y + static_cast<size_t>(blockIdx.x) * dim;
    auto element = [x](uint32_t i) { return x[i]; };
    float sum =
        block_canonical_sum(dim, element, [](float total, float one) { return total + one; });
    float mean = sum / static_cast<float>(dim);
    __syncthreads();
    float r = canonical_norm_factor(block_squares(dim, mean, element), dim, args.eps);
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        float normed = ((x[i] - mean) * r) * args.weight[i];
        y[i] = args.bias != NULL ? normed + args.bias[i] : normed;
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_layer_norm(cudaStream_t stream, const struct norm_args *args) {
    if (!check_norm(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(layer_norm, args->rows, ROW_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
