/* Rows of floats times a weight of the fast form: cuBLASLt's FP16 product with f32 sums, in tiles
 * of 64 rows by one plan, so that which rows stand together never shows; missing rows are zeros.
 *
 * Parallelisation: the product is the library's; in front of it a thread for two halves of a row,
 * behind it a thread an output, where outputs may not go straight to y. Bytes moved: w once for
 * each 64 rows; a tile's 64 K16 halves twice; its 64 N16 sums once to memory, and those of real
 * rows once more both ways unless they are y itself. Bound expected: memory up to some hundred
 * rows (at one row the sums of 63 others are 128 / K16 of what w is), then the tensor cores; not
 * yet measured on a card. */
#include "kernels/cuda/linear_fast.h"

#include <cuda_fp16.h>

#include "kernels/reference/check.h"

#define FAST_THREADS 128u
#define HALVES_A_WORD 2u

/* ---------------------------------------------------------------- kernels */

static __device__ __forceinline__ unsigned half_bits(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

/* A tile of x, half to even, an overflow to infinity. What is past the last row or input is 0. */
static __global__ void __launch_bounds__(FAST_THREADS)
    round_rows(const float *x, unsigned *halves, uint32_t rows, uint32_t k, uint32_t words) {
    uint32_t index = blockIdx.x * FAST_THREADS + threadIdx.x;
    uint32_t row = index / words, begin = index % words * HALVES_A_WORD;
    if (row >= WEIGHT_FAST_ROWS) {
        return;
    }
    unsigned two = 0;
    for (uint32_t i = 0; i < HALVES_A_WORD; i++) {
        if (row < rows && begin + i < k) {
            two |= half_bits(x[static_cast<size_t>(row) * k + begin + i]) << (16u * i);
        }
    }
    halves[index] = two;
}

static __global__ void __launch_bounds__(FAST_THREADS)
    store_sums(f32_call call, const float *sums, uint32_t stride) {
    uint32_t t = blockIdx.y, n = blockIdx.x * FAST_THREADS + threadIdx.x;
    if (n < call.n) {
        f32_store(call, t, n, sums[static_cast<size_t>(t) * stride + n]);
    }
}

/* ---------------------------------------------------------------- launchers */

/* Where the parts of the workspace begin, in bytes; the tile's halves are first. */
struct fast_layout {
    size_t sums, blas, bytes;
};

static struct fast_layout fast_layout_of(uint32_t n, uint32_t k) {
    const size_t rows = WEIGHT_FAST_ROWS;
    struct fast_layout layout;
    layout.sums = kernels_aligned(rows * weight_padded(k) * sizeof(uint16_t));
    layout.blas = layout.sums + kernels_aligned(rows * weight_padded(n) * sizeof(float));
    layout.bytes = layout.blas + kernels_aligned(cuda_blas_workspace_bytes());
    return layout;
}

size_t cuda_linear_fast_bytes(uint32_t n, uint32_t k) {
    return fast_layout_of(n, k).bytes;
}

/* Whether the product's 64 rows of N16 sums are the call's outputs as they stand. */
static bool fast_is_direct(const struct f32_call *call) {
    return call->rows == WEIGHT_FAST_ROWS && weight_padded(call->n) == call->n &&
           call->bias == NULL && call->residual == NULL && cuda_blas_is_aligned(call->y);
}

static enum kernels_status run_tile(struct cuda_blas *blas, cudaStream_t stream,
                                    const struct cuda_blas_plan *plan, const struct f32_call *call,
                                    const struct fast_layout *layout, char *workspace) {
    uint32_t words = weight_padded(call->k) / HALVES_A_WORD, stride = weight_padded(call->n);
    bool is_direct = fast_is_direct(call);
    float *sums = is_direct ? call->y : reinterpret_cast<float *>(workspace + layout->sums);
    CUDA_LAUNCH(round_rows, (WEIGHT_FAST_ROWS * words - 1u) / FAST_THREADS + 1u, FAST_THREADS, 0,
                stream, call->x, reinterpret_cast<unsigned *>(workspace), call->rows, call->k,
                words);
    enum kernels_status status = cuda_launch_status();
    if (status == KERNELS_OK) {
        status = cuda_blas_multiply(blas, plan, call->values, workspace, sums,
                                    workspace + layout->blas, stream);
    }
    if (status != KERNELS_OK || is_direct) {
        return status;
    }
    CUDA_LAUNCH(store_sums, dim3((call->n - 1u) / FAST_THREADS + 1u, call->rows), FAST_THREADS, 0,
                stream, *call, sums, stride);
    return cuda_launch_status();
}

/* Rows t .. t + rows - 1 of a call. */
static struct f32_call tile_of(const struct f32_call &whole, uint32_t t, uint32_t rows) {
    struct f32_call call = whole;
    size_t outputs = static_cast<size_t>(t) * call.n;
    call.x += static_cast<size_t>(t) * call.k;
    call.residual = call.residual != NULL ? call.residual + outputs : NULL;
    call.y += outputs;
    call.rows = rows;
    return call;
}

enum kernels_status cuda_linear_fast(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct weight *weight, const struct f32_call *call,
                                     const struct kernels_workspace *workspace) {
    const struct cuda_blas_plan *plan = cuda_weight_plan(weight, WEIGHT_FAST_ROWS);
    struct fast_layout layout = fast_layout_of(call->n, call->k);
    if (plan == NULL || !check_workspace(workspace, layout.bytes)) {
        return KERNELS_INVALID;
    }
    enum kernels_status status = KERNELS_OK;
    for (uint32_t t = 0, rows; t < call->rows && status == KERNELS_OK; t += rows) {
        uint32_t left = call->rows - t;
        rows = left < WEIGHT_FAST_ROWS ? left : WEIGHT_FAST_ROWS;
        struct f32_call tile = tile_of(*call, t, rows);
        status = run_tile(blas, stream, plan, &tile, &layout, static_cast<char *>(workspace->data));
    }
    return status;
}
