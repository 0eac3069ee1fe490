/* The INT8 product with its epilogue, so that sums never reach memory. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/int8.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- launchers */

struct linear_i8_job {
    const struct device *device;
    const struct linear_i8_args *args;
};

static void linear_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct linear_i8_job *job = context;
    const struct linear_i8_args *args = job->args;
    const struct weight_form *form = &args->weight->form;
    struct reference_weight_view view =
        reference_weight_view_of(args->weight, reference_weight_values_bytes(form));
    int32_t *sum = (int32_t *)(void *)cpu_device_row(job->device, worker); /* [groups] */
    for (uint32_t n = begin; n < end; n++) {
        for (uint32_t t = 0; t < args->rows; t++) {
            size_t at = (size_t)t * form->n + n;
            int8_output_sums(form, view.values, n, args->x.q + (size_t)t * form->k, view.groups,
                             sum);
            float y = int8_dequantize(form, &view, &args->x, t, n, sum);
            args->y[at] = args->residual != NULL ? args->residual[at] + y : y;
        }
    }
}

enum kernels_status reference_linear_i8(struct device *device, const struct linear_i8_args *args) {
    if (!check_linear_i8(args)) {
        return KERNELS_INVALID;
    }
    struct linear_i8_job job = {device, args};
    const struct weight_form *form = &args->weight->form;
    pool_run_ranges(cpu_device_pool(device), linear_i8_range, &job, form->n,
                    (uint64_t)args->rows * form->k / 8);
    return KERNELS_OK;
}
