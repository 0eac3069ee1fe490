/* GELU in its tanh form. */
#include "kernels/canonical.h"
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- launchers */

static void gelu_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct activation_args *args = context;
    for (size_t i = (size_t)begin * args->dim; i < (size_t)end * args->dim; i++) {
        args->y[i] = canonical_gelu(args->x[i]);
    }
}

enum kernels_status reference_gelu(struct device *device, const struct activation_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_words(args->y)) {
        return KERNELS_INVALID;
    }
    struct activation_args job = *args;
    pool_run_ranges(cpu_device_pool(device), gelu_range, &job, args->rows, args->dim);
    return KERNELS_OK;
}
