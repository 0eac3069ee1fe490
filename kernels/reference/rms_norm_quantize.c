/* RMSNorm, then INT8 rows, a row at a time: the normed row stays in the worker's cache. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- launchers */

struct rms_norm_quantize_job {
    const struct device *device;
    const struct norm_quantize_args *args;
};

static void rms_norm_quantize_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct rms_norm_quantize_job *job = context;
    const struct norm_args *norm = &job->args->norm;
    float *y = cpu_device_row(job->device, worker);
    for (uint32_t t = begin; t < end; t++) {
        rms_norm_row(norm_row(norm, t), norm->weight, norm->eps, norm->dim, y);
        reference_quantize_row(&job->args->quantize, y, t, norm->dim);
    }
}

enum kernels_status reference_rms_norm_quantize(struct device *device,
                                                const struct norm_quantize_args *args) {
    if (!check_norm(&args->norm) || !check_quantize(&args->quantize)) {
        return KERNELS_INVALID;
    }
    struct rms_norm_quantize_job job = {device, args};
    pool_run_ranges(cpu_device_pool(device), rms_norm_quantize_range, &job, args->norm.rows,
                    args->norm.dim / 2);
    return KERNELS_OK;
}
