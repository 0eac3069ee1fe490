/* The residual stream takes in the output of a block. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- launchers */

static void add_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct add_args *args = context;
    for (size_t i = (size_t)begin * args->dim; i < (size_t)end * args->dim; i++) {
        args->x[i] = args->x[i] + args->y[i];
    }
}

enum kernels_status reference_add(struct device *device, const struct add_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    struct add_args job = *args;
    pool_run_ranges(cpu_device_pool(device), add_range, &job, args->rows, args->dim / 8);
    return KERNELS_OK;
}
