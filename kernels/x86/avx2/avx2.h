/* The AVX2 kernels: what the reference kernels compute, with 256-bit intrinsics where that is
 * faster than the compiler's own vectors.
 *
 * Private to kernels. Ops without a kernel here are the reference's: its code is built with the
 * same instructions. Needs AVX2, FMA and F16C. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_AVX2_H
#define SOLFLEET_KERNELS_X86_AVX2_AVX2_H

#include "kernels/reference/reference.h"

#define avx2_embed reference_embed
#define avx2_rms_norm reference_rms_norm
#define avx2_layer_norm reference_layer_norm
#define avx2_quantize reference_quantize
#define avx2_rms_norm_quantize reference_rms_norm_quantize
#define avx2_silu_mul reference_silu_mul
#define avx2_silu_mul_quantize reference_silu_mul_quantize
#define avx2_gelu reference_gelu
#define avx2_add reference_add
#define avx2_head_norm reference_head_norm
#define avx2_rope_kv_write reference_rope_kv_write
#define avx2_sample reference_sample

enum kernels_status avx2_gemm_i8(struct device *device, const struct gemm_i8_args *args);
enum kernels_status avx2_dequantize(struct device *device, const struct dequantize_args *args);
enum kernels_status avx2_linear_i8(struct device *device, const struct linear_i8_args *args);
enum kernels_status avx2_linear_f32(struct device *device, const struct linear_f32_args *args);
enum kernels_status avx2_attention(struct device *device, const struct attention_args *args);
enum kernels_status avx2_head_logits(struct device *device, const struct head_logits_args *args);
enum kernels_status avx2_head_sample(struct device *device, const struct head_sample_args *args);

/* Of a call with so many rows of so many inputs. */
size_t avx2_linear_i8_workspace_bytes(uint32_t rows, uint32_t k);
size_t avx2_workspace_bytes(const struct device *device, enum kernel_op op,
                            const struct kernels_shape *shape);
enum kernels_status avx2_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                             char *err, size_t err_bytes);
enum kernels_status avx2_weight_pack(const struct weight_form *form,
                                     const struct weight_source *source, void *packed, char *err,
                                     size_t err_bytes);

#endif
