#include "engine/forward_memory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/forward_ahead.h"
#include "engine/forward_graphs.h"

/* ---------------------------------------------------------------- layout */

static size_t forward_max(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t forward_place_activations(const struct model_config *config,
                                        const struct batch_limits *limits, void *base,
                                        struct forward_activations *out) {
    struct forward_layout layout = {.base = base};
    size_t rows = limits->rows_max, dim = config->dim, ffn = config->ffn_dim;
    size_t query_dim = (size_t)config->heads * config->head_dim;
    size_t qkv_dim = query_dim + 2 * (size_t)config->kv_heads * config->head_dim;
    out->x = forward_layout_place(&layout, rows * dim, sizeof *out->x);
    out->normed = forward_layout_place(&layout, rows * dim, sizeof *out->normed);
    out->qkv = forward_layout_place(&layout, rows * qkv_dim, sizeof *out->qkv);
    out->attention = forward_layout_place(&layout, rows * query_dim, sizeof *out->attention);
    out->gate_up = forward_layout_place(&layout, rows * 2 * ffn, sizeof *out->gate_up);
    out->gated = forward_layout_place(&layout, rows * ffn, sizeof *out->gated);
    out->final =
        forward_layout_place(&layout, (size_t)limits->sampled_max * dim, sizeof *out->final);
    out->q = forward_layout_place(&layout, rows * forward_max(forward_max(dim, query_dim), ffn), 1);
    out->scale = forward_layout_place(&layout, rows, sizeof *out->scale);
    out->zero_point = forward_layout_place(&layout, rows, sizeof *out->zero_point);
    out->sum = forward_layout_place(&layout, rows, sizeof *out->sum);
    return layout.bytes;
}

/* Inputs, then outputs. The same layout on the device and in pinned memory. */
static size_t forward_place_batch(const struct batch_limits *limits, void *base,
                                  struct forward_inputs *in, struct forward_outputs *out,
                                  size_t *fixed_input_bytes, size_t *output_bytes) {
    struct forward_layout layout = {.base = base};
    *fixed_input_bytes = forward_inputs_place(&layout, limits, in);
    size_t before = layout.bytes;
    out->sampled_token =
        forward_layout_place(&layout, limits->sampled_max, sizeof *out->sampled_token);
    out->sampled_bad = forward_layout_place(&layout, limits->sampled_max, sizeof *out->sampled_bad);
    out->row_bad = forward_layout_place(&layout, limits->rows_max, sizeof *out->row_bad);
    *output_bytes = layout.bytes - before;
    return layout.bytes;
}

static struct kernels_shape forward_shape(const struct model_config *config,
                                          const struct kv_form *kv,
                                          const struct forward_options *options) {
    uint32_t query_dim = config->heads * config->head_dim;
    uint32_t qkv_dim = query_dim + 2 * config->kv_heads * config->head_dim;
    size_t n_max = forward_max(forward_max(qkv_dim, config->dim), 2 * (size_t)config->ffn_dim);
    size_t k_max = forward_max(forward_max(query_dim, config->dim), config->ffn_dim);
    return (struct kernels_shape){.rows_max = options->limits.rows_max,
                                  .segments_max = options->limits.slots_max + 1,
                                  .sampled_max = options->limits.sampled_max,
                                  .context_max = options->limits.slot_pages_max * KV_PAGE_TOKENS,
                                  .n_max = (uint32_t)n_max,
                                  .k_max = (uint32_t)k_max,
                                  .dim = config->dim,
                                  .vocabulary = config->vocabulary,
                                  .heads = config->heads,
                                  .kv = *kv,
                                  .head_sketch = options->head_sketch,
                                  .fast = options->fast};
}

/* One workspace serves every op: they run one after another. */
static size_t forward_workspace_bytes(const struct device *device,
                                      const struct kernels_shape *shape) {
    static const enum kernel_op ops[] = {KERNEL_OP_linear_i8, KERNEL_OP_linear_f32,
                                         KERNEL_OP_attention, KERNEL_OP_head_logits,
                                         KERNEL_OP_head_sample};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        bytes = forward_max(bytes, device_ops(device)->workspace_bytes(device, ops[i], shape));
    }
    return bytes;
}

void forward_memory_make_plan(const struct model_config *config, const struct kv_form *kv,
                              const struct device *device, const struct forward_options *options,
                              struct forward_plan *plan) {
    struct forward_activations activations;
    struct forward_inputs inputs;
    struct forward_outputs outputs;
    struct device_info info;
    size_t fixed_input_bytes, output_bytes;
    struct kernels_shape shape = forward_shape(config, kv, options);
    memset(plan, 0, sizeof *plan);
    plan->activation_bytes =
        forward_place_activations(config, &options->limits, NULL, &activations);
    plan->kv_bytes = device_ops(device)->page_bytes(kv) * options->page_count * config->layers;
    plan->workspace_bytes = forward_workspace_bytes(device, &shape);
    plan->batch_bytes = forward_place_batch(&options->limits, NULL, &inputs, &outputs,
                                            &fixed_input_bytes, &output_bytes);
    plan->ahead_bytes = options->sends_ahead ? forward_ahead_bytes(&options->limits) : 0;
    plan->graph_bytes = options->has_graphs ? forward_graphs_bytes(options, config->layers) : 0;
    plan->pinned_bytes = plan->batch_bytes + FORWARD_AHEAD_GUESSES * plan->ahead_bytes;
    plan->total_bytes = plan->activation_bytes + plan->kv_bytes + plan->workspace_bytes +
                        plan->batch_bytes + plan->ahead_bytes + plan->graph_bytes;
    device_describe(device, &info);
    plan->total_bytes += info.memory_is_host ? plan->pinned_bytes : 0;
}

/* ---------------------------------------------------------------- open and close */

static bool forward_memory_reserve(struct forward_memory *memory, char *err, size_t err_bytes) {
    const struct forward_plan *plan = &memory->plan;
    const size_t bytes[] = {plan->activation_bytes, plan->kv_bytes, plan->workspace_bytes,
                            plan->batch_bytes};
    static const char *const purposes[] = {"activations", "the KV cache", "workspaces", "batches"};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        if (bytes[i] > 0 && device_alloc(memory->device, DEVICE_MEMORY, bytes[i],
                                         &memory->device_regions[i]) != KERNELS_OK) {
            snprintf(err, err_bytes, "no memory for %s: %zu bytes", purposes[i], bytes[i]);
            return false;
        }
    }
    if (device_alloc(memory->device, DEVICE_MEMORY_PINNED, plan->batch_bytes, &memory->pinned) !=
        KERNELS_OK) {
        snprintf(err, err_bytes, "no pinned memory for batches: %zu bytes", plan->batch_bytes);
        return false;
    }
    return true;
}

enum forward_status forward_memory_open(struct forward_memory *memory, const struct model *model,
                                        const struct forward_options *options, char *err,
                                        size_t err_bytes) {
    const struct model_config *config = &model->config;
    assert(options->fast == model->head->form.fast);
    memset(memory, 0, sizeof *memory);
    memory->device = model->device;
    memory->shape = forward_shape(config, &model->kv, options);
    memory->page_bytes = device_ops(model->device)->page_bytes(&model->kv);
    memory->kv_layer_bytes = memory->page_bytes * options->page_count;
    forward_memory_make_plan(config, &model->kv, model->device, options, &memory->plan);
    if (!forward_memory_reserve(memory, err, err_bytes)) {
        forward_memory_close(memory);
        return FORWARD_NO_MEMORY;
    }
    forward_place_activations(config, &options->limits, memory->device_regions[0],
                              &memory->activations);
    memory->kv = memory->device_regions[1];
    memory->workspace =
        (struct kernels_workspace){memory->device_regions[2], memory->plan.workspace_bytes};
    forward_place_batch(&options->limits, memory->device_regions[3], &memory->inputs,
                        &memory->outputs, &memory->fixed_input_bytes, &memory->output_bytes);
    forward_place_batch(&options->limits, memory->pinned, &memory->staged_inputs,
                        &memory->staged_outputs, &memory->fixed_input_bytes, &memory->output_bytes);
    memset(memory->pinned, 0, memory->plan.batch_bytes);
    return FORWARD_OK;
}

void forward_memory_close(struct forward_memory *memory) {
    if (memory->device == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof memory->device_regions / sizeof memory->device_regions[0]; i++) {
        device_free(memory->device, DEVICE_MEMORY, memory->device_regions[i]);
    }
    device_free(memory->device, DEVICE_MEMORY_PINNED, memory->pinned);
    memset(memory, 0, sizeof *memory);
}
