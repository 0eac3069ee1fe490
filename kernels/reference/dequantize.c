/* INT32 sums to floats: zero points, scales, bias, residual. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/int8.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- launchers */

static void dequantize_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct dequantize_args *args = context;
    const struct weight_form *form = &args->weight->form;
    struct reference_weight_view view =
        reference_weight_view_of(args->weight, reference_weight_values_bytes(form));
    for (uint32_t t = begin; t < end; t++) {
        for (uint32_t n = 0; n < form->n; n++) {
            size_t at = (size_t)t * form->n + n;
            float y = int8_dequantize(form, &view, &args->x, t, n, args->sum + at * view.groups);
            args->y[at] = args->residual != NULL ? args->residual[at] + y : y;
        }
    }
}

enum kernels_status reference_dequantize(struct device *device,
                                         const struct dequantize_args *args) {
    if (!check_dequantize(args)) {
        return KERNELS_INVALID;
    }
    struct dequantize_args job = *args;
    pool_run_ranges(cpu_device_pool(device), dequantize_range, &job, args->rows,
                    args->weight->form.n);
    return KERNELS_OK;
}
