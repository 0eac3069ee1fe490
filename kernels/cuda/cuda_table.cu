#include "kernels/cuda/cuda_table.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

/* X(op, args) for ops that need no more than the stream. */
#define CUDA_TABLE_PLAIN(X)                  \
    X(rms_norm, norm_args)                   \
    X(layer_norm, norm_args)                 \
    X(quantize, quantize_args)               \
    X(rms_norm_quantize, norm_quantize_args) \
    X(silu_mul, glu_args)                    \
    X(silu_mul_quantize, glu_quantize_args)  \
    X(gelu, activation_args)                 \
    X(add, add_args)                         \
    X(head_norm, head_norm_args)

#define CUDA_TABLE_WRAPPER(op, args)                                                     \
    static enum kernels_status op(struct device *device, const struct args *arguments) { \
        return cuda_##op(cuda_device_stream(device), arguments);                         \
    }
CUDA_TABLE_PLAIN(CUDA_TABLE_WRAPPER)
#undef CUDA_TABLE_WRAPPER

static constexpr struct kernel_ops make_table() {
    struct kernel_ops table = {};
    table.tier = "cuda";
    table.packing_version = 1;
#define CUDA_TABLE_ENTRY(op, args) table.op = op;
    CUDA_TABLE_PLAIN(CUDA_TABLE_ENTRY)
#undef CUDA_TABLE_ENTRY
    return table;
}

static constexpr struct kernel_ops cuda_table_ops = make_table();

const struct kernel_ops *cuda_table(void) {
    return &cuda_table_ops;
}
