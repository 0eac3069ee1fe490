#include "kernels/cuda/cuda_table.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

/* X(op, args) for ops that need no more than the stream, and for those that need cuBLASLt, too. */
#define CUDA_TABLE_PLAIN(X)                  \
    X(embed, embed_args)                     \
    X(rms_norm, norm_args)                   \
    X(layer_norm, norm_args)                 \
    X(quantize, quantize_args)               \
    X(rms_norm_quantize, norm_quantize_args) \
    X(silu_mul, glu_args)                    \
    X(silu_mul_quantize, glu_quantize_args)  \
    X(gelu, activation_args)                 \
    X(add, add_args)                         \
    X(dequantize, dequantize_args)           \
    X(head_norm, head_norm_args)             \
    X(rope_kv_write, rope_kv_write_args)     \
    X(attention, attention_args)             \
    X(sample, sample_args)
#define CUDA_TABLE_BLAS(X)           \
    X(gemm_i8, gemm_i8_args)         \
    X(linear_i8, linear_i8_args)     \
    X(linear_f32, linear_f32_args)   \
    X(head_logits, head_logits_args) \
    X(head_sample, head_sample_args)

#define CUDA_TABLE_PLAIN_WRAPPER(op, args)                                               \
    static enum kernels_status op(struct device *device, const struct args *arguments) { \
        return cuda_##op(cuda_device_stream(device), arguments);                         \
    }
#define CUDA_TABLE_BLAS_WRAPPER(op, args)                                                      \
    static enum kernels_status op(struct device *device, const struct args *arguments) {       \
        return cuda_##op(cuda_device_of(device)->blas, cuda_device_stream(device), arguments); \
    }
CUDA_TABLE_PLAIN(CUDA_TABLE_PLAIN_WRAPPER)
CUDA_TABLE_BLAS(CUDA_TABLE_BLAS_WRAPPER)

static size_t workspace_bytes(const struct device *device, enum kernel_op op,
                              const struct kernels_shape *shape) {
    (void)device;
    switch (op) {
    case KERNEL_OP_gemm_i8:
    case KERNEL_OP_linear_i8: return cuda_linear_i8_workspace_bytes(shape);
    case KERNEL_OP_linear_f32: return cuda_linear_f32_bytes(shape);
    case KERNEL_OP_head_logits: return cuda_head_logits_bytes(shape);
    case KERNEL_OP_attention: return cuda_attention_bytes(shape);
    case KERNEL_OP_head_sample: return cuda_head_sample_bytes(shape);
    default: return 0;
    }
}

static enum kernels_status weight_prepare(struct device *device, struct weight *weight,
                                          const uint32_t *row_buckets, uint32_t bucket_count,
                                          char *err, size_t err_bytes) {
    return cuda_weight_prepare(cuda_device_of(device)->blas, weight, row_buckets, bucket_count, err,
                               err_bytes);
}

static void weight_release(struct device *device, struct weight *weight) {
    cuda_weight_release(cuda_device_of(device)->blas, weight);
}

/* Before the program starts, so that nothing is made on the way. */
static constexpr struct kernel_ops make_table() {
    struct kernel_ops table = {};
    table.tier = "cuda";
    table.packing_version = CUDA_PACKING_VERSION;
    table.workspace_bytes = workspace_bytes;
    table.page_bytes = cuda_page_bytes;
    table.weight_packed_bytes = cuda_weight_packed_bytes;
    table.weight_pack = cuda_weight_pack;
    table.weight_prepare = weight_prepare;
    table.weight_release = weight_release;
#define CUDA_TABLE_ENTRY(op, args) table.op = op;
    KERNEL_OPS(CUDA_TABLE_ENTRY)
#undef CUDA_TABLE_ENTRY
    return table;
}

static constexpr struct kernel_ops cuda_table_ops = make_table();

const struct kernel_ops *cuda_table(void) {
    return &cuda_table_ops;
}
