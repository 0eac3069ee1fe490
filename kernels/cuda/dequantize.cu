/* INT32 sums to floats: zero points, scales, bias, residual.
 *
 * Parallelisation: a thread an output, blocks of 256 outputs of a row. Bytes moved: sums, residual
 * and y once; scales and bias from cache. Bound expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/int8.h"
#include "kernels/reference/check.h"

#define OUTPUT_THREADS 256u

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(OUTPUT_THREADS)
    dequantize(int8_call call, const int32_t *sums, size_t stride) {
    uint32_t t = blockIdx.x, n = blockIdx.y * OUTPUT_THREADS + threadIdx.x;
    if (n < call.form.n) {
        int8_store(call, t, n, sums[static_cast<size_t>(t) * stride + n]);
    }
}

static __global__ void __launch_bounds__(OUTPUT_THREADS)
    dequantize_groups(int8_call call, const int32_t *sums) {
    uint32_t t = blockIdx.x, n = blockIdx.y * OUTPUT_THREADS + threadIdx.x;
    if (n < call.form.n) {
        size_t at = static_cast<size_t>(t) * call.form.n + n;
        int8_store_y(call, at,
                     int8_dequantize(&call.form, &call.weight, &call.x, t, n,
                                     sums + at * call.weight.groups));
    }
}

/* ---------------------------------------------------------------- launchers */

static dim3 outputs_grid(const struct int8_call *call) {
    return dim3(call->rows, (call->form.n - 1u) / OUTPUT_THREADS + 1u);
}

enum kernels_status cuda_dequantize_sums(cudaStream_t stream, const struct int8_call *call,
                                         const int32_t *sums, size_t stride) {
    CUDA_LAUNCH(dequantize, outputs_grid(call), OUTPUT_THREADS, 0, stream, *call, sums, stride);
    return cuda_launch_status();
}

enum kernels_status cuda_dequantize(cudaStream_t stream, const struct dequantize_args *args) {
    if (!check_dequantize(args)) {
        return KERNELS_INVALID;
    }
    struct int8_call call = {
        args->weight->form, cuda_weight_view(args->weight), args->x, NULL, args->residual, args->y,
        args->rows};
    if (call.weight.groups == 1u) {
        return cuda_dequantize_sums(stream, &call, args->sum, call.form.n);
    }
    CUDA_LAUNCH(dequantize_groups, outputs_grid(&call), OUTPUT_THREADS, 0, stream, call, args->sum);
    return cuda_launch_status();
}
