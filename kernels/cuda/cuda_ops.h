/* The ops of the CUDA back end: contracts and arithmetic of kernels/ops.h, on a stream.
 *
 * Launchers check their arguments as those of the CPU do, and only enqueue; what a launch is
 * refused for is KERNELS_FAILED. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUDA_OPS_H
#define SOLFLEET_KERNELS_CUDA_CUDA_OPS_H

#include <cuda_runtime.h>

#include "kernels/cuda/cuda_blas.h"
#include "kernels/ops.h"

/* ---------------------------------------------------------------- weights and linears */

#define CUDA_PACKING_VERSION 1u /* raised whenever cuda_weight_pack gives other bytes */

/* Weights as in struct kernel_ops; packing is host code, plans are those of `blas`. */
enum kernels_status cuda_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                             char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
enum kernels_status cuda_weight_pack(const struct weight_form *form,
                                     const struct weight_source *source, void *packed, char *err,
                                     size_t err_bytes) KERNELS_CHECK_RESULT;
enum kernels_status cuda_weight_prepare(struct cuda_blas *blas, struct weight *weight,
                                        const uint32_t *row_buckets, uint32_t bucket_count,
                                        char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
void cuda_weight_release(struct cuda_blas *blas, struct weight *weight); /* accepts zero */

enum kernels_status cuda_embed(cudaStream_t stream, const struct embed_args *args);
enum kernels_status cuda_gemm_i8(struct cuda_blas *blas, cudaStream_t stream,
                                 const struct gemm_i8_args *args);
enum kernels_status cuda_dequantize(cudaStream_t stream, const struct dequantize_args *args);
enum kernels_status cuda_linear_i8(struct cuda_blas *blas, cudaStream_t stream,
                                   const struct linear_i8_args *args);
/* Of gemm_i8 and of linear_i8. */
size_t cuda_linear_i8_workspace_bytes(const struct kernels_shape *shape);
enum kernels_status cuda_linear_f32(struct cuda_blas *blas, cudaStream_t stream,
                                    const struct linear_f32_args *args);
enum kernels_status cuda_head_logits(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct head_logits_args *args);
enum kernels_status cuda_head_sample(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct head_sample_args *args);
/* 0 but for weights of the fast form. */
size_t cuda_linear_f32_bytes(const struct kernels_shape *shape);
size_t cuda_head_logits_bytes(const struct kernels_shape *shape);
size_t cuda_head_sample_bytes(const struct kernels_shape *shape);

/* ---------------------------------------------------------------- rows */

enum kernels_status cuda_add(cudaStream_t stream, const struct add_args *args);
enum kernels_status cuda_attention(cudaStream_t stream, const struct attention_args *args);
enum kernels_status cuda_gelu(cudaStream_t stream, const struct activation_args *args);
enum kernels_status cuda_head_norm(cudaStream_t stream, const struct head_norm_args *args);
enum kernels_status cuda_layer_norm(cudaStream_t stream, const struct norm_args *args);
enum kernels_status cuda_quantize(cudaStream_t stream, const struct quantize_args *args);
enum kernels_status cuda_rms_norm(cudaStream_t stream, const struct norm_args *args);
enum kernels_status cuda_rms_norm_quantize(cudaStream_t stream,
                                           const struct norm_quantize_args *args);
enum kernels_status cuda_rope_kv_write(cudaStream_t stream, const struct rope_kv_write_args *args);
enum kernels_status cuda_sample(cudaStream_t stream, const struct sample_args *args);
enum kernels_status cuda_silu_mul(cudaStream_t stream, const struct glu_args *args);
enum kernels_status cuda_silu_mul_quantize(cudaStream_t stream,
                                           const struct glu_quantize_args *args);

/* Bytes of a KV page; 0 for a form that this back end lacks: heads wider than 256. */
size_t cuda_page_bytes(const struct kv_form *form);

/* Workspaces of the ops that take one. */
size_t cuda_attention_bytes(const struct kernels_shape *shape);

#endif
