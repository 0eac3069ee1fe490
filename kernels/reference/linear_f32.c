/* Rows of floats times a 16- or 32-bit weight: an FMA chain an output, 16 outputs side by side. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/weight.h"

/* ---------------------------------------------------------------- kernels */

#define LINEAR_F32_ROWS 4u /* rows that share the conversion of a weight */

/* One panel of outputs for rows t .. t + count - 1. Rows past count repeat row t. */
static void linear_f32_block(const struct linear_f32_args *args, uint32_t panel, uint32_t t,
                             uint32_t count, float acc[LINEAR_F32_ROWS][REFERENCE_PANEL]) {
    const struct weight_form *form = &args->weight->form;
    const float *x[LINEAR_F32_ROWS];
    for (uint32_t r = 0; r < LINEAR_F32_ROWS; r++) {
        x[r] = args->x + (size_t)(t + (r < count ? r : 0u)) * form->k;
        memset(acc[r], 0, sizeof acc[r]);
    }
    size_t index = reference_panel_index(panel * REFERENCE_PANEL, 0, form->k);
    for (uint32_t k = 0; k < form->k; k++) {
        float w[REFERENCE_PANEL];
        reference_panel_step(args->weight->packed, form->type, index + (size_t)k * REFERENCE_PANEL,
                             w);
        for (uint32_t r = 0; r < LINEAR_F32_ROWS; r++) {
            for (uint32_t l = 0; l < REFERENCE_PANEL; l++) {
                acc[r][l] = fmaf(x[r][k], w[l], acc[r][l]);
            }
        }
    }
}

/* Bias, then residual, then memory: the outputs of `panel` that exist. */
static void linear_f32_store(const struct linear_f32_args *args, const float *bias, uint32_t panel,
                             uint32_t t, const float acc[REFERENCE_PANEL]) {
    uint32_t first = panel * REFERENCE_PANEL, n_count = args->weight->form.n;
    for (uint32_t l = 0; l < REFERENCE_PANEL && first + l < n_count; l++) {
        size_t at = (size_t)t * n_count + first + l;
        float y = bias != NULL ? acc[l] + bias[first + l] : acc[l];
        args->y[at] = args->residual != NULL ? args->residual[at] + y : y;
    }
}

/* ---------------------------------------------------------------- launchers */

static void linear_f32_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct linear_f32_args *args = context;
    struct reference_weight_view view =
        reference_weight_view_of(args->weight, reference_weight_values_bytes(&args->weight->form));
    for (uint32_t panel = begin; panel < end; panel++) {
        for (uint32_t t = 0; t < args->rows; t += LINEAR_F32_ROWS) {
            uint32_t left = args->rows - t;
            uint32_t count = left < LINEAR_F32_ROWS ? left : LINEAR_F32_ROWS;
            float acc[LINEAR_F32_ROWS][REFERENCE_PANEL];
            linear_f32_block(args, panel, t, count, acc);
            for (uint32_t r = 0; r < count; r++) {
                linear_f32_store(args, view.bias, panel, t + r, acc[r]);
            }
        }
    }
}

enum kernels_status reference_linear_f32(struct device *device,
                                         const struct linear_f32_args *args) {
    if (!check_linear_f32(args)) {
        return KERNELS_INVALID;
    }
    struct linear_f32_args job = *args;
    const struct weight_form *form = &args->weight->form;
    pool_run_ranges(cpu_device_pool(device), linear_f32_range, &job, reference_panels(form->n),
                    (uint64_t)args->rows * form->k);
    return KERNELS_OK;
}
