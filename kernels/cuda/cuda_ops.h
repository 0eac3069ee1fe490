/* The ops of the CUDA back end: contracts and arithmetic of kernels/ops.h, on a stream.
 *
 * Launchers check their arguments as those of the CPU do, and only enqueue; what a launch is
 * refused for is KERNELS_FAILED. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUDA_OPS_H
#define SOLFLEET_KERNELS_CUDA_CUDA_OPS_H

#include <cuda_runtime.h>

#include "kernels/ops.h"

enum kernels_status cuda_add(cudaStream_t stream, const struct add_args *args);
enum kernels_status cuda_gelu(cudaStream_t stream, const struct activation_args *args);
enum kernels_status cuda_head_norm(cudaStream_t stream, const struct head_norm_args *args);
enum kernels_status cuda_layer_norm(cudaStream_t stream, const struct norm_args *args);
enum kernels_status cuda_quantize(cudaStream_t stream, const struct quantize_args *args);
enum kernels_status cuda_rms_norm(cudaStream_t stream, const struct norm_args *args);
enum kernels_status cuda_rms_norm_quantize(cudaStream_t stream,
                                           const struct norm_quantize_args *args);
enum kernels_status cuda_silu_mul(cudaStream_t stream, const struct glu_args *args);
enum kernels_status cuda_silu_mul_quantize(cudaStream_t stream,
                                           const struct glu_quantize_args *args);

#endif
