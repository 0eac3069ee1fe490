/* The epilogue of the INT8 product, by itself, for weights in panels. */
#include "kernels/x86/avx2/dequantize.h"

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/int8.h"
#include "kernels/x86/avx2/avx2.h"

/* ---------------------------------------------------------------- launchers */

struct dequantize_job {
    const struct dequantize_args *args;
    struct reference_weight_view view;
};

static void dequantize_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct dequantize_job *job = context;
    const struct dequantize_args *args = job->args;
    const struct weight_form *form = &args->weight->form;
    for (uint32_t t = begin; t < end; t++) {
        for (uint32_t n = 0; n < form->n; n++) {
            size_t at = (size_t)t * form->n + n;
            float y = int8_dequantize(form, &job->view, &args->x, t, n, args->sum + at);
            args->y[at] = args->residual != NULL ? args->residual[at] + y : y;
        }
    }
}

enum kernels_status avx2_dequantize_by(struct device *device, const struct dequantize_args *args,
                                       avx2_values_bytes_fn *values_bytes) {
    if (!check_dequantize(args)) {
        return KERNELS_INVALID;
    }
    if (!avx2_takes(&args->weight->form)) {
        return reference_dequantize(device, args);
    }
    struct dequantize_job job = {
        args, reference_weight_view_of(args->weight, values_bytes(&args->weight->form))};
    pool_run_ranges(cpu_device_pool(device), dequantize_range, &job, args->rows,
                    args->weight->form.n);
    return KERNELS_OK;
}

enum kernels_status avx2_dequantize(struct device *device, const struct dequantize_args *args) {
    return avx2_dequantize_by(device, args, avx2_weight_values_bytes);
}
