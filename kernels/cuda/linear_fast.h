/* The product of float rows and a weight of the fast form (kernels/ops.h, linear_f32).
 *
 * Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_LINEAR_FAST_H
#define SOLFLEET_KERNELS_CUDA_LINEAR_FAST_H

#include "kernels/cuda/f32_call.h"
#include "kernels/cuda/weight.h"

/* Bytes of workspace of a product with any number of rows. */
size_t cuda_linear_fast_bytes(uint32_t n, uint32_t k);

/* Enqueues the whole of `call`. KERNELS_INVALID: the weight has not been prepared, or too small a
 * workspace. */
enum kernels_status cuda_linear_fast(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct weight *weight, const struct f32_call *call,
                                     const struct kernels_workspace *workspace);

#endif
