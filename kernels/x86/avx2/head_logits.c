/* The LM head, and the head with sampling: the linear of 16- and 32-bit weights. */
#include "kernels/reference/head_sample.h"
#include "kernels/x86/avx2/avx2.h"

enum kernels_status avx2_head_logits(struct device *device, const struct head_logits_args *args) {
    const struct linear_f32_args linear = {
        .x = args->x, .weight = args->weight, .y = args->logits, .rows = args->rows};
    return avx2_linear_f32(device, &linear);
}

enum kernels_status avx2_head_sample(struct device *device, const struct head_sample_args *args) {
    return reference_head_sample_by(device, args, avx2_head_logits);
}
