/* Embedding rows out of the panels that the LM head reads, too, so that a tied table exists
 * once. */
#include "kernels/canonical.h"
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/weight.h"

/* ---------------------------------------------------------------- kernels */

static void embed_row(const struct weight *table, uint32_t token, float *x) {
    uint32_t dim = table->form.k;
    size_t first = reference_panel_index(token, 0, dim);
    if (table->form.type == ELEMENT_F32) {
        const float *values = (const float *)table->packed + first;
        for (uint32_t k = 0; k < dim; k++) {
            x[k] = values[(size_t)k * REFERENCE_PANEL];
        }
        return;
    }
    const uint16_t *values = (const uint16_t *)table->packed + first;
    for (uint32_t k = 0; k < dim; k++) {
        x[k] = canonical_f16_to_f32(values[(size_t)k * REFERENCE_PANEL]);
    }
}

/* ---------------------------------------------------------------- launchers */

static void embed_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct embed_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        embed_row(args->table, (uint32_t)args->token[t], args->x + (size_t)t * args->table->form.k);
    }
}

enum kernels_status reference_embed(struct device *device, const struct embed_args *args) {
    if (args->rows < 1 || !check_words(args->token) || !check_weight_f32(args->table) ||
        !check_words(args->x)) {
        return KERNELS_INVALID;
    }
    for (uint32_t t = 0; t < args->rows; t++) {
        if (args->token[t] < 0 || (uint32_t)args->token[t] >= args->table->form.n) {
            return KERNELS_INVALID;
        }
    }
    struct embed_args job = *args;
    pool_run_ranges(cpu_device_pool(device), embed_range, &job, args->rows, args->table->form.k);
    return KERNELS_OK;
}
