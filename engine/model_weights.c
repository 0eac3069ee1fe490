#include "engine/model_weights.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model_cache.h"
#include "engine/model_loader.h"
#include "engine/model_plan.h"
#include "engine/model_policy.h"
#include "engine/model_sketch.h"
#include "engine/quantize.h"
#include "kernels/rope_table.h"

/* Some rows of a weight: one tensor of the file. */
struct model_part {
    const struct gguf_tensor *tensor;
    uint32_t paired_head_dim; /* 0: rows as they stand; see model_weights_source_row */
};

/* ---------------------------------------------------------------- linears */

/* The file's row that holds row r of ours. The rotary embedding turns pairs of rows of a head: ours
 * are (i, i + d/2), this kind of file has them interleaved as (2i, 2i + 1). */
static uint32_t model_weights_source_row(const struct model_part *part, uint32_t row) {
    uint32_t width = part->paired_head_dim, half = width / 2;
    if (width == 0) {
        return row;
    }
    uint32_t within = row % width;
    return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}

static enum model_status model_weights_refuse(const struct model_loader *loader,
                                              enum quantize_status status,
                                              const struct gguf_tensor *tensor, uint32_t row,
                                              uint32_t column) {
    const char *fault = status == QUANTIZE_OVERFLOW ? "does not fit into 16 bits" : "is not finite";
    return model_loader_fail(loader, MODEL_BAD_FILE, "tensor %.*s: row %u, column %u: %g %s",
                             (int)tensor->name.bytes, tensor->name.data, row, column,
                             (double)loader->row[column], fault);
}

/* Converts the rows of a part to the form's type, from row `first` of the weight on. */
static enum model_status model_weights_convert(struct model_loader *loader,
                                               const struct weight_form *form,
                                               const struct model_part *part, uint32_t first) {
    const struct gguf_tensor *tensor = part->tensor;
    uint32_t rows = (uint32_t)tensor->dims[1], bad = 0;
    size_t source_bytes = tensor->bytes / rows, row_bytes = form->k * element_bytes(form->type);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t source = model_weights_source_row(part, i);
        block_format_read_row(tensor->format, tensor->data + source * source_bytes, form->k,
                              loader->row);
        enum quantize_status status = quantize_row(
            form->type, loader->row, form->k, (uint8_t *)loader->values + (first + i) * row_bytes,
            &loader->scale[first + i], &bad);
        if (status != QUANTIZE_OK) {
            return model_weights_refuse(loader, status, tensor, source, bad);
        }
    }
    gguf_rest(loader->gguf, tensor->data, tensor->bytes);
    return MODEL_OK;
}

/* A weight of several tensors, one below the other. */
static enum model_status model_weights_linear(struct model_loader *loader, struct weight_form form,
                                              const struct model_part *parts, size_t part_count,
                                              struct weight *weight) {
    uint32_t first = 0;
    enum model_status status = model_loader_scratch(loader, &form);
    weight->form = form;
    for (size_t i = 0; i < part_count && !loader->is_packed && status == MODEL_OK; i++) {
        status = model_weights_convert(loader, &form, &parts[i], first);
        first += (uint32_t)parts[i].tensor->dims[1];
    }
    return status == MODEL_OK ? model_loader_pack(loader, weight) : status;
}

/* ---------------------------------------------------------------- vectors */

static enum model_status model_weights_norm(struct model_loader *loader,
                                            const struct gguf_tensor *tensor, const float **out) {
    uint32_t count = (uint32_t)tensor->dims[0], bad = 0;
    const struct weight_form form = {.type = ELEMENT_F32, .n = 1, .k = count};
    enum model_status status = model_loader_scratch(loader, &form);
    float *place = model_loader_reserve(loader, count * sizeof *place);
    *out = place;
    if (loader->is_packed || status != MODEL_OK) {
        return status;
    }
    block_format_read_row(tensor->format, tensor->data, count, loader->row);
    enum quantize_status kept =
        quantize_row(ELEMENT_F32, loader->row, count, loader->values, NULL, &bad);
    if (kept != QUANTIZE_OK) {
        return model_weights_refuse(loader, kept, tensor, 0, bad);
    }
    return model_loader_upload(loader, place, loader->values, count * sizeof *place);
}

static enum model_status model_weights_rope(struct model_loader *loader) {
    struct model *model = loader->model;
    const struct model_config *config = &model->config;
    size_t floats = (size_t)model->max_model_len * (config->rotary_dims / 2);
    size_t bytes = floats * sizeof(float);
    float *tables = malloc(2 * bytes);
    if (tables == NULL) {
        return model_loader_fail(loader, MODEL_NO_MEMORY, "out of memory for rotary tables");
    }
    rope_table_fill(tables, tables + floats, model->max_model_len, config->rotary_dims,
                    (double)config->rope_theta);
    float *cosines = model_loader_reserve(loader, bytes);
    float *sines = model_loader_reserve(loader, bytes);
    enum model_status status = model_loader_upload(loader, cosines, tables, bytes);
    if (status == MODEL_OK) {
        status = model_loader_upload(loader, sines, tables + floats, bytes);
    }
    free(tables);
    model->cos_table = cosines;
    model->sin_table = sines;
    return status;
}

/* ---------------------------------------------------------------- the model */

static const struct gguf_tensor *model_weights_block_tensor(const struct model_loader *loader,
                                                            uint32_t layer, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    const struct gguf_tensor *tensor = gguf_find_tensor(loader->gguf, full);
    assert(tensor != NULL);
    return tensor;
}

static enum model_status model_weights_layer(struct model_loader *loader, uint32_t index) {
    struct model *model = loader->model;
    struct model_layer *layer = &model->layers[index];
    uint32_t head_dim = model->config.head_dim;
    const struct model_part qkv[] = {
        {model_weights_block_tensor(loader, index, "attn_q"), head_dim},
        {model_weights_block_tensor(loader, index, "attn_k"), head_dim},
        {model_weights_block_tensor(loader, index, "attn_v"), 0},
    };
    const struct model_part output[] = {
        {model_weights_block_tensor(loader, index, "attn_output"), 0}};
    const struct model_part gate_up[] = {
        {model_weights_block_tensor(loader, index, "ffn_gate"), 0},
        {model_weights_block_tensor(loader, index, "ffn_up"), 0},
    };
    const struct model_part down[] = {{model_weights_block_tensor(loader, index, "ffn_down"), 0}};
    const struct {
        enum model_linear linear;
        const struct model_part *parts;
        size_t part_count;
        struct weight *weight;
    } linears[] = {
        {MODEL_LINEAR_QKV, qkv, 3, &layer->qkv},
        {MODEL_LINEAR_OUTPUT, output, 1, &layer->output},
        {MODEL_LINEAR_GATE_UP, gate_up, 2, &layer->gate_up},
        {MODEL_LINEAR_DOWN, down, 1, &layer->down},
    };
    enum model_status status = model_weights_norm(
        loader, model_weights_block_tensor(loader, index, "attn_norm"), &layer->attention_norm);
    if (status == MODEL_OK) {
        status = model_weights_norm(loader, model_weights_block_tensor(loader, index, "ffn_norm"),
                                    &layer->ffn_norm);
    }
    for (size_t i = 0; i < MODEL_LINEAR_COUNT && status == MODEL_OK; i++) {
        status = model_weights_linear(
            loader, model_policy_form(model->policy, &model->config, linears[i].linear, index),
            linears[i].parts, linears[i].part_count, linears[i].weight);
    }
    return status;
}

static enum model_status model_weights_tables(struct model_loader *loader) {
    struct model *model = loader->model;
    struct weight_form form = model_plan_table_form(&model->config, model->policy);
    struct model_part embedding = {gguf_find_tensor(loader->gguf, "token_embd.weight"), 0};
    enum model_status status = model_weights_linear(loader, form, &embedding, 1, &model->embedding);
    model->head = &model->embedding;
    if (status == MODEL_OK && !model->config.tied_head) {
        struct model_part head = {gguf_find_tensor(loader->gguf, "output.weight"), 0};
        model->head = &model->head_storage;
        status = model_weights_linear(loader, form, &head, 1, &model->head_storage);
    }
    if (status == MODEL_OK && model->plan.sketch_bytes > 0) {
        const char *name = model->config.tied_head ? "token_embd.weight" : "output.weight";
        status = model_sketch_load(loader, gguf_find_tensor(loader->gguf, name));
    }
    return status;
}

enum model_status model_weights_load(struct model *model, const struct gguf *gguf,
                                     const struct model_options *options, char *err,
                                     size_t err_bytes) {
    struct model_loader loader;
    model_loader_open(&loader, model, gguf, options, err, err_bytes);
    loader.is_packed = model_cache_read(&loader);
    enum model_status status = model_weights_tables(&loader);
    for (uint32_t layer = 0; layer < model->config.layers && status == MODEL_OK; layer++) {
        status = model_weights_layer(&loader, layer);
    }
    if (status == MODEL_OK) {
        status = model_weights_norm(&loader, gguf_find_tensor(gguf, "output_norm.weight"),
                                    &model->final_norm);
    }
    if (status == MODEL_OK && !loader.is_packed) {
        model_cache_write(&loader);
    }
    loader.is_packed = false; /* rotary tables depend on options and are quickly made */
    if (status == MODEL_OK) {
        status = model_weights_rope(&loader);
    }
    model_loader_close(&loader);
    return status;
}

void model_weights_release(struct model *model) {
    const struct kernel_ops *ops = device_ops(model->device);
    for (uint32_t i = 0; i < model->config.layers; i++) {
        struct model_layer *layer = &model->layers[i];
        ops->weight_release(model->device, &layer->qkv);
        ops->weight_release(model->device, &layer->output);
        ops->weight_release(model->device, &layer->gate_up);
        ops->weight_release(model->device, &layer->down);
    }
    ops->weight_release(model->device, &model->embedding);
    ops->weight_release(model->device, &model->head_storage);
    ops->weight_release(model->device, &model->sketch.weight);
}
