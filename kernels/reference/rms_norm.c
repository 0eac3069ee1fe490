/* RMSNorm: a row's squares summed in the canonical order, then two multiplications an element. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- launchers */

static void rms_norm_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct norm_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        rms_norm_row(norm_row(args, t), args->weight, args->eps, args->dim,
                     args->y + (size_t)t * args->dim);
    }
}

enum kernels_status reference_rms_norm(struct device *device, const struct norm_args *args) {
    if (!check_norm(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    struct norm_args job = *args;
    pool_run_ranges(cpu_device_pool(device), rms_norm_range, &job, args->rows, args->dim / 4);
    return KERNELS_OK;
}
