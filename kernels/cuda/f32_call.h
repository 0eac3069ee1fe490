/* What the linears of float rows share: a product as kernels see it, and where its outputs go.
 *
 * Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_F32_CALL_H
#define SOLFLEET_KERNELS_CUDA_F32_CALL_H

#include "kernels/cuda/launch.h"

/* Passed to kernels by value. */
struct f32_call {
    const float *x;               /* f32 [T, K] */
    const void *values;           /* of the packed weight */
    const float *bias, *residual; /* f32 [N]; f32 [T, N], may be y; NULL = none */
    float *y;                     /* f32 [T, N] */
    uint32_t rows, n, k;
};

/* Output (t, n) of the sum that a product gave. */
static __device__ __forceinline__ void f32_store(const f32_call &call, uint32_t t, uint32_t n,
                                                 float sum) {
    size_t at = static_cast<size_t>(t) * call.n + n;
    float y = call.bias != NULL ? sum + call.bias[n] : sum;
    call.y[at] = call.residual != NULL ? call.residual[at] + y : y;
}

#endif
