/* The LM head, and the head with sampling: the linear of 16- and 32-bit weights. */
#include "kernels/reference/head_sample.h"
#include "kernels/x86/avx512/avx512.h"

enum kernels_status avx512_head_logits(struct device *device, const struct head_logits_args *args) {
    const struct linear_f32_args linear = {
        .x = args->x, .weight = args->weight, .y = args->logits, .rows = args->rows};
    return avx512_linear_f32(device, &linear);
}

enum kernels_status avx512_head_sample(struct device *device, const struct head_sample_args *args) {
    return reference_head_sample_by(device, args, avx512_head_logits);
}
