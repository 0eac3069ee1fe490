/* LayerNorm: mean, then the squares of what is left of it, both summed in the canonical order. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- kernels */

static void layer_norm_row(const struct norm_args *args, const float *x, float *y) {
    float mean = canonical_sum(x, args->dim) / (float)args->dim;
    float r =
        canonical_norm_factor(canonical_sum_squares(x, mean, args->dim), args->dim, args->eps);
    for (uint32_t i = 0; i < args->dim; i++) {
        y[i] = ((x[i] - mean) * r) * args->weight[i];
    }
    for (uint32_t i = 0; args->bias != NULL && i < args->dim; i++) {
        y[i] = y[i] + args->bias[i];
    }
}

/* ---------------------------------------------------------------- launchers */

static void layer_norm_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct norm_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        layer_norm_row(args, norm_row(args, t), args->y + (size_t)t * args->dim);
    }
}

enum kernels_status reference_layer_norm(struct device *device, const struct norm_args *args) {
    if (!check_norm(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    struct norm_args job = *args;
    pool_run_ranges(cpu_device_pool(device), layer_norm_range, &job, args->rows, args->dim / 2);
    return KERNELS_OK;
}
