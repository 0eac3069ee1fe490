/* The AVX-512 kernels: what the reference kernels compute, where 512-bit vectors or the byte dot
 * product of VNNI are faster than the AVX2 kernels.
 *
 * Private to kernels. Ops without a kernel here are those of the AVX2 tier; layouts are its, too,
 * but for the values of INT8 weights (weight.h). Needs AVX-512 F, BW, DQ, VL and VNNI; nothing
 * outside this folder is built with them. */
#ifndef SOLFLEET_KERNELS_X86_AVX512_AVX512_H
#define SOLFLEET_KERNELS_X86_AVX512_AVX512_H

#include "kernels/x86/avx2/avx2.h"

#define avx512_embed avx2_embed
#define avx512_rms_norm avx2_rms_norm
#define avx512_layer_norm avx2_layer_norm
#define avx512_quantize avx2_quantize
#define avx512_rms_norm_quantize avx2_rms_norm_quantize
#define avx512_silu_mul avx2_silu_mul
#define avx512_silu_mul_quantize avx2_silu_mul_quantize
#define avx512_gelu avx2_gelu
#define avx512_add avx2_add
#define avx512_head_norm avx2_head_norm
#define avx512_rope_kv_write avx2_rope_kv_write
#define avx512_sample avx2_sample

enum kernels_status avx512_gemm_i8(struct device *device, const struct gemm_i8_args *args);
enum kernels_status avx512_dequantize(struct device *device, const struct dequantize_args *args);
enum kernels_status avx512_linear_i8(struct device *device, const struct linear_i8_args *args);
enum kernels_status avx512_linear_f32(struct device *device, const struct linear_f32_args *args);
enum kernels_status avx512_attention(struct device *device, const struct attention_args *args);
enum kernels_status avx512_head_logits(struct device *device, const struct head_logits_args *args);
enum kernels_status avx512_head_sample(struct device *device, const struct head_sample_args *args);

size_t avx512_workspace_bytes(const struct device *device, enum kernel_op op,
                              const struct kernels_shape *shape);
enum kernels_status avx512_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                               char *err, size_t err_bytes);
enum kernels_status avx512_weight_pack(const struct weight_form *form,
                                       const struct weight_source *source, void *packed, char *err,
                                       size_t err_bytes);

#endif
