/* SiLU of the gate times up, then INT8 rows, a row at a time. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- launchers */

struct silu_mul_quantize_job {
    const struct device *device;
    const struct glu_quantize_args *args;
};

static void silu_mul_quantize_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct silu_mul_quantize_job *job = context;
    float *y = cpu_device_row(job->device, worker);
    for (uint32_t t = begin; t < end; t++) {
        silu_mul_row(&job->args->glu, t, y);
        reference_quantize_row(&job->args->quantize, y, t, job->args->glu.dim);
    }
}

enum kernels_status reference_silu_mul_quantize(struct device *device,
                                                const struct glu_quantize_args *args) {
    if (!check_glu(&args->glu) || !check_quantize(&args->quantize)) {
        return KERNELS_INVALID;
    }
    struct silu_mul_quantize_job job = {device, args};
    pool_run_ranges(cpu_device_pool(device), silu_mul_quantize_range, &job, args->glu.rows,
                    args->glu.dim);
    return KERNELS_OK;
}
