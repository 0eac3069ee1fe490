/* What the INT8 linears share: a product as kernels see it, and where its sums go.
 *
 * Raw sums for gemm_i8, y for linear_i8 and dequantize, from the same kernels. Private to
 * kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_INT8_H
#define SOLFLEET_KERNELS_CUDA_INT8_H

#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/weight.h"
#include "kernels/reference/int8.h"

/* Passed to kernels by value. */
struct int8_call {
    struct weight_form form;
    struct reference_weight_view weight;
    struct quantized x;    /* q as the caller's, or padded (int8_product.cu) */
    int32_t *sum;          /* i32 [T, N, Q]; NULL = y is wanted */
    const float *residual; /* f32 [T, N], may be y; NULL = none */
    float *y;
    uint32_t rows;
};

static __device__ __forceinline__ void int8_store_y(const int8_call &call, size_t at, float y) {
    call.y[at] = call.residual != NULL ? call.residual[at] + y : y;
}

/* The sum of output (t, n) of a weight with one group, to where it is wanted. */
static __device__ __forceinline__ void int8_store(const int8_call &call, uint32_t t, uint32_t n,
                                                  int32_t sum) {
    size_t at = static_cast<size_t>(t) * call.form.n + n;
    if (call.sum != NULL) {
        call.sum[at] = sum;
        return;
    }
    int8_store_y(call, at, int8_add_group(&call.form, &call.weight, &call.x, t, n, 0, sum, 0.0f));
}

/* Bytes of workspace of a product. */
size_t cuda_int8_product_bytes(uint32_t rows, uint32_t n, uint32_t k);
/* The product of `call`, whatever its shape: by cuBLASLt where weight->plan has a plan, else by
 * cuda_int8_dp4a. Cuts it into slices. */
enum kernels_status cuda_int8_product(struct cuda_blas *blas, cudaStream_t stream,
                                      const struct weight *weight, const struct int8_call *call,
                                      const struct kernels_workspace *workspace);

/* The same by kernels of ours, with call->x.q in rows of weight_padded(K) bytes, aligned to 16. */
enum kernels_status cuda_int8_dp4a(cudaStream_t stream, const struct int8_call *call);

/* From sums, i32 [T, N] in rows of `stride`, to where `call` wants them; one group. */
enum kernels_status cuda_dequantize_sums(cudaStream_t stream, const struct int8_call *call,
                                         const int32_t *sums, size_t stride);

#endif
