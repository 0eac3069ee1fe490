/* The INT8 matrix product: exact sums, so their order is free. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/int8.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- launchers */

static void gemm_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct gemm_i8_args *args = context;
    const struct weight_form *form = &args->weight->form;
    uint32_t groups = reference_groups(form);
    for (uint32_t n = begin; n < end; n++) {
        for (uint32_t t = 0; t < args->rows; t++) {
            int8_output_sums(form, args->weight->packed, n, args->x.q + (size_t)t * form->k, groups,
                             args->sum + ((size_t)t * form->n + n) * groups);
        }
    }
}

enum kernels_status reference_gemm_i8(struct device *device, const struct gemm_i8_args *args) {
    if (!check_gemm_i8(args)) {
        return KERNELS_INVALID;
    }
    struct gemm_i8_args job = *args;
    uint64_t cost = (uint64_t)args->rows * args->weight->form.k / 8;
    pool_run_ranges(cpu_device_pool(device), gemm_i8_range, &job, args->weight->form.n, cost);
    return KERNELS_OK;
}
