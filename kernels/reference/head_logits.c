/* The LM head: a linear of 16- or 32-bit weights without bias. */
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"

enum kernels_status reference_head_logits(struct device *device,
                                          const struct head_logits_args *args) {
    const struct linear_f32_args linear = {
        .x = args->x, .weight = args->weight, .y = args->logits, .rows = args->rows};
    return reference_linear_f32(device, &linear);
}
