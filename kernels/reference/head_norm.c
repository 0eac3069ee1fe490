/* QK-norm: RMSNorm of each head of a row, in place. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- launchers */

static void head_norm_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct head_norm_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        for (uint32_t h = 0; h < args->heads; h++) {
            float *x = args->x + (size_t)t * args->stride + (size_t)h * args->head_dim;
            rms_norm_row(x, args->weight, args->eps, args->head_dim, x);
        }
    }
}

enum kernels_status reference_head_norm(struct device *device, const struct head_norm_args *args) {
    uint64_t width = (uint64_t)args->heads * args->head_dim;
    if (!check_head_norm(args)) {
        return KERNELS_INVALID;
    }
    struct head_norm_args job = *args;
    pool_run_ranges(cpu_device_pool(device), head_norm_range, &job, args->rows, width / 4);
    return KERNELS_OK;
}
