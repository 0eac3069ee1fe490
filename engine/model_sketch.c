#include "engine/model_sketch.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/model_plan.h"
#include "kernels/canonical.h"
#include "kernels/head_sketch.h"

/* A row as the head's kernels multiply with it. */
static void model_sketch_read_row(const struct gguf_tensor *head, uint32_t index, uint32_t k,
                                  float *row) {
    size_t bytes = head->bytes / head->dims[1];
    block_format_read_row(head->format, head->data + index * bytes, k, row);
    for (uint32_t i = 0; i < k; i++) {
        row[i] = canonical_f16_to_f32(canonical_f32_to_f16(row[i]));
    }
}

static enum model_status model_sketch_keep(struct model_loader *loader, const float *values,
                                           uint32_t count, const float **out) {
    float *place = model_loader_reserve(loader, count * sizeof *place);
    *out = place;
    return model_loader_upload(loader, place, values, count * sizeof *place);
}

enum model_status model_sketch_load(struct model_loader *loader, const struct gguf_tensor *head) {
    struct head_sketch *sketch = &loader->model->sketch;
    struct weight_form form = model_plan_sketch_form(&loader->model->config);
    assert(loader->model->head->form.type == ELEMENT_F16);
    enum model_status status = model_loader_scratch(loader, &form);
    if (status != MODEL_OK) {
        return status;
    }
    float *bounds = malloc(2 * (size_t)form.n * sizeof *bounds);
    if (bounds == NULL) {
        return model_loader_fail(loader, MODEL_NO_MEMORY, "out of memory for the head's copy");
    }
    float *norm = bounds, *error = bounds + form.n;
    for (uint32_t n = 0; n < form.n && !loader->is_packed; n++) {
        model_sketch_read_row(head, n, form.k, loader->row);
        head_sketch_row(loader->row, form.k, (int8_t *)loader->values + (size_t)n * form.k,
                        &loader->scale[n], &norm[n], &error[n]);
    }
    gguf_rest(loader->gguf, head->data, head->bytes);
    sketch->weight.form = form;
    status = model_loader_pack(loader, &sketch->weight);
    if (status == MODEL_OK) {
        status = model_sketch_keep(loader, norm, form.n, &sketch->norm);
    }
    if (status == MODEL_OK) {
        status = model_sketch_keep(loader, error, form.n, &sketch->error);
    }
    free(bounds);
    return status;
}
