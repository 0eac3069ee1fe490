/* The LM head, and the head with sampling: the linear of 16- and 32-bit weights. */
#include "kernels/cpu_device.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/shortcut.h"

#define SHORTCUT_ROWS_MAX 32u

enum kernels_status avx2_head_logits(struct device *device, const struct head_logits_args *args) {
    const struct linear_f32_args linear = {
        .x = args->x, .weight = args->weight, .y = args->logits, .rows = args->rows};
    return avx2_linear_f32(device, &linear);
}

static const struct avx2_shortcut_tier tier = {.linear_i8 = avx2_linear_i8,
                                               .linear_i8_bytes = avx2_linear_i8_workspace_bytes,
                                               .head_logits = avx2_head_logits,
                                               .rows_max = SHORTCUT_ROWS_MAX};

enum kernels_status avx2_head_sample(struct device *device, const struct head_sample_args *args) {
    return avx2_shortcut_sample(device, args, &tier);
}

size_t avx2_workspace_bytes(const struct device *device, enum kernel_op op,
                            const struct kernels_shape *shape) {
    switch (op) {
    case KERNEL_OP_linear_i8: return avx2_linear_i8_workspace_bytes(shape->rows_max, shape->k_max);
    case KERNEL_OP_head_sample:
        return avx2_shortcut_bytes(&tier, pool_threads(cpu_device_pool(device)), shape);
    default: return reference_workspace_bytes(device, op, shape);
    }
}
