#include "kernels/x86/avx2/gemm_i8.h"

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/int8.h"

/* ---------------------------------------------------------------- kernels */

static void gemm_i8_row(const struct gemm_i8_args *args, uint32_t panel, uint32_t t) {
    const struct weight_form *form = &args->weight->form;
    const int8_t *values = args->weight->packed, *q = args->x.q + (size_t)t * form->k;
    __m256i sum[1][2];
    avx2_i8_panel(values + panel * avx2_panel_bytes(form->k), form->k, q, 1, sum);
    int32_t all[REFERENCE_PANEL];
    memcpy(all, sum, sizeof all);
    uint32_t first = panel * REFERENCE_PANEL, left = form->n - first;
    memcpy(args->sum + (size_t)t * form->n + first, all,
           (left < REFERENCE_PANEL ? left : REFERENCE_PANEL) * sizeof(int32_t));
}

/* ---------------------------------------------------------------- launchers */

static void gemm_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct gemm_i8_args *args = context;
    for (uint32_t panel = begin; panel < end; panel++) {
        for (uint32_t t = 0; t < args->rows; t++) {
            gemm_i8_row(args, panel, t);
        }
    }
}

enum kernels_status avx2_gemm_i8_by(struct device *device, const struct gemm_i8_args *args,
                                    pool_range_fn *panels) {
    if (!check_gemm_i8(args)) {
        return KERNELS_INVALID;
    }
    if (!avx2_takes(&args->weight->form)) {
        return reference_gemm_i8(device, args);
    }
    struct gemm_i8_args job = *args;
    pool_run_ranges(cpu_device_pool(device), panels, &job, reference_panels(args->weight->form.n),
                    (uint64_t)args->rows * args->weight->form.k / 4);
    return KERNELS_OK;
}

enum kernels_status avx2_gemm_i8(struct device *device, const struct gemm_i8_args *args) {
    return avx2_gemm_i8_by(device, args, gemm_i8_range);
}
