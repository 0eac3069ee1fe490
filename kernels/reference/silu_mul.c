/* SiLU of the gate times up. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- launchers */

static void silu_mul_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct glu_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        silu_mul_row(args, t, args->y + (size_t)t * args->dim);
    }
}

enum kernels_status reference_silu_mul(struct device *device, const struct glu_args *args) {
    if (!check_glu(args) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    struct glu_args job = *args;
    pool_run_ranges(cpu_device_pool(device), silu_mul_range, &job, args->rows, args->dim);
    return KERNELS_OK;
}
