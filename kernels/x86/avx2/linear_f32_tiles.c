#include "kernels/x86/avx2/linear_f32_tiles.h"

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/weight.h"

struct linear_f32_tiles {
    struct linear_f32_job job;
    linear_f32_block_fn *block;
    uint32_t panels;
};

/* Rows in nearly equal blocks, so that none is left with one. */
static void linear_f32_tiles_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct linear_f32_tiles *tiles = context;
    const struct linear_f32_args *args = tiles->job.args;
    uint32_t rows = args->rows, panel_count = reference_panels(args->weight->form.n);
    uint32_t blocks = (rows - 1) / LINEAR_F32_ROWS + 1;
    for (uint32_t tile = begin; tile < end; tile++) {
        uint32_t panel = tile * tiles->panels, left = panel_count - panel;
        uint32_t last = panel + (left < tiles->panels ? left : tiles->panels);
        uint32_t t = 0;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t count = rows / blocks + (b < rows % blocks);
            tiles->block(&tiles->job, panel, last, t, count);
            t += count;
        }
    }
}

enum kernels_status avx2_linear_f32_by(struct device *device, const struct linear_f32_args *args,
                                       const struct linear_f32_kernels *kernels) {
    if (!check_linear_f32(args)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    size_t values_bytes = reference_weight_values_bytes(form);
    struct linear_f32_tiles tiles = {
        .job = {args, reference_weight_view_of(args->weight, values_bytes).bias},
        .block = form->type == ELEMENT_F16 ? kernels->f16 : kernels->f32,
        .panels = kernels->panels};
    uint32_t count = (reference_panels(form->n) - 1) / kernels->panels + 1;
    pool_run_ranges(cpu_device_pool(device), linear_f32_tiles_range, &tiles, count,
                    (uint64_t)args->rows * form->k * kernels->row_cost);
    return KERNELS_OK;
}
