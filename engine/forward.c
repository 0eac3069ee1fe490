#include "engine/forward.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/forward_ahead.h"
#include "engine/forward_graphs.h"
#include "engine/forward_memory.h"
#include "engine/forward_needs.h"
#include "engine/forward_pass.h"

#define FORWARD_LOGITS_ROWS 32u /* of forward_run_logits at a time */

struct forward {
    const struct model *model;    /* borrowed */
    struct device *device;        /* borrowed */
    const struct kernel_ops *ops; /* borrowed */
    struct forward_options options;
    struct forward_memory memory;
    struct forward_ahead ahead;   /* zeroed unless options.sends_ahead */
    struct forward_graphs graphs; /* of whole passes, sampling included */
    float *logits;                /* device f32 [FORWARD_LOGITS_ROWS, V]; made when first needed */
    float *tapped;                /* host f32 [sampled_max, V]; NULL without a tap */
    const char *fault_op;         /* what a pass failed in */
    enum kernels_status fault;
};

/* ---------------------------------------------------------------- calls */

static bool forward_note(struct forward *forward, const char *op, enum kernels_status status) {
    if (status != KERNELS_OK) {
        forward->fault_op = op;
        forward->fault = status;
    }
    return status == KERNELS_OK;
}

#define FORWARD_CALL(forward, op, arguments) \
    forward_note((forward), #op, (forward)->ops->op((forward)->device, (arguments)))

/* What failed, with the device's own words where it is the device. */
static enum forward_status forward_fault(const struct forward *forward, char *err,
                                         size_t err_bytes) {
    static const char *const meanings[] = {
        "ok", "an argument is wrong", "unsupported", "no memory", "no device", "the device failed"};
    char words[256] = "";
    bool is_lost = forward->fault == KERNELS_FAILED &&
                   device_sync(forward->device, words, sizeof words) != KERNELS_OK;
    snprintf(err, err_bytes, "%s: %s%s%s", forward->fault_op, meanings[forward->fault],
             is_lost ? ": " : "", is_lost ? words : "");
    return FORWARD_FAILED;
}

/* ---------------------------------------------------------------- linears */

static struct quantized forward_quantized(const struct forward *forward,
                                          const struct weight *weight) {
    const struct forward_activations *a = &forward->memory.activations;
    return (struct quantized){.q = a->q,
                              .scale = a->scale,
                              .zero_point =
                                  weight->form.activation_zero_point ? a->zero_point : NULL,
                              .sum = weight->form.weight_zero_point ? a->sum : NULL};
}

static struct quantize_args forward_quantize_args(const struct forward *forward,
                                                  const struct weight *weight, const float *x,
                                                  uint32_t rows) {
    return (struct quantize_args){.x = x,
                                  .out = forward_quantized(forward, weight),
                                  .bad = forward->memory.outputs.row_bad,
                                  .rows = rows,
                                  .dim = weight->form.k};
}

/* y = weight · (the quantised rows) + residual. */
static bool forward_linear_i8(struct forward *forward, const struct weight *weight,
                              const float *residual, float *y, uint32_t rows) {
    struct linear_i8_args args = {.x = forward_quantized(forward, weight),
                                  .weight = weight,
                                  .residual = residual,
                                  .y = y,
                                  .workspace = forward->memory.workspace,
                                  .rows = rows};
    return FORWARD_CALL(forward, linear_i8, &args);
}

static bool forward_linear_f32(struct forward *forward, const float *x, const struct weight *weight,
                               const float *residual, float *y, uint32_t rows) {
    struct linear_f32_args args = {.x = x,
                                   .weight = weight,
                                   .residual = residual,
                                   .y = y,
                                   .workspace = forward->memory.workspace,
                                   .rows = rows};
    return FORWARD_CALL(forward, linear_f32, &args);
}

/* y = weight · norm(x) */
static bool forward_norm_linear(struct forward *forward, const float *norm_weight,
                                const struct weight *weight, float *y, uint32_t rows) {
    const struct forward_activations *a = &forward->memory.activations;
    struct norm_args norm = {.x = a->x,
                             .weight = norm_weight,
                             .y = a->normed,
                             .eps = forward->model->config.norm_eps,
                             .rows = rows,
                             .dim = forward->model->config.dim};
    if (weight->form.activation == ACTIVATION_F32) {
        return FORWARD_CALL(forward, rms_norm, &norm) &&
               forward_linear_f32(forward, a->normed, weight, NULL, y, rows);
    }
    norm.y = NULL;
    struct norm_quantize_args args = {
        .norm = norm, .quantize = forward_quantize_args(forward, weight, NULL, rows)};
    return FORWARD_CALL(forward, rms_norm_quantize, &args) &&
           forward_linear_i8(forward, weight, NULL, y, rows);
}

/* x += weight · attention */
static bool forward_output_linear(struct forward *forward, const struct weight *weight,
                                  uint32_t rows) {
    const struct forward_activations *a = &forward->memory.activations;
    if (weight->form.activation == ACTIVATION_F32) {
        return forward_linear_f32(forward, a->attention, weight, a->x, a->x, rows);
    }
    struct quantize_args args = forward_quantize_args(forward, weight, a->attention, rows);
    return FORWARD_CALL(forward, quantize, &args) &&
           forward_linear_i8(forward, weight, a->x, a->x, rows);
}

/* x += weight · (silu(gate) * up) */
static bool forward_gated_linear(struct forward *forward, const struct weight *weight,
                                 uint32_t rows) {
    const struct forward_activations *a = &forward->memory.activations;
    struct glu_args glu = {
        .gate_up = a->gate_up, .y = a->gated, .rows = rows, .dim = weight->form.k};
    if (weight->form.activation == ACTIVATION_F32) {
        return FORWARD_CALL(forward, silu_mul, &glu) &&
               forward_linear_f32(forward, a->gated, weight, a->x, a->x, rows);
    }
    glu.y = NULL;
    struct glu_quantize_args args = {
        .glu = glu, .quantize = forward_quantize_args(forward, weight, NULL, rows)};
    return FORWARD_CALL(forward, silu_mul_quantize, &args) &&
           forward_linear_i8(forward, weight, a->x, a->x, rows);
}

/* ---------------------------------------------------------------- attention */

static struct step_rows forward_step_rows(const struct forward *forward,
                                          const struct forward_pass *pass) {
    const struct forward_inputs *in = &forward->memory.inputs;
    return (struct step_rows){.position = in->position,
                              .slot = in->slot,
                              .segment_begin = in->segment_begin,
                              .rows = pass->rows,
                              .segments = pass->segments};
}

static struct kv_view forward_kv_view(const struct forward *forward, uint32_t layer) {
    const struct forward_memory *memory = &forward->memory;
    return (struct kv_view){.form = forward->model->kv,
                            .base = memory->kv + layer * memory->kv_layer_bytes,
                            .stride_bytes = memory->page_bytes,
                            .page_table = memory->inputs.page_table,
                            .table_pages = forward->options.limits.slot_pages_max};
}

static bool forward_head_norm(struct forward *forward, float *heads, const float *weight,
                              uint32_t head_count, uint32_t rows) {
    const struct model_config *config = &forward->model->config;
    if (weight == NULL) {
        return true;
    }
    struct head_norm_args args = {.x = heads,
                                  .stride =
                                      (config->heads + 2 * config->kv_heads) * config->head_dim,
                                  .weight = weight,
                                  .eps = config->norm_eps,
                                  .rows = rows,
                                  .heads = head_count,
                                  .head_dim = config->head_dim};
    return FORWARD_CALL(forward, head_norm, &args);
}

static bool forward_attention(struct forward *forward, const struct forward_pass *pass,
                              uint32_t index) {
    const struct model *model = forward->model;
    const struct model_config *config = &model->config;
    const struct model_layer *layer = &model->layers[index];
    const struct forward_activations *a = &forward->memory.activations;
    uint32_t query_dim = config->heads * config->head_dim;
    struct rope_kv_write_args rope = {.qkv = a->qkv,
                                      .cos_table = model->cos_table,
                                      .sin_table = model->sin_table,
                                      .rows = forward_step_rows(forward, pass),
                                      .kv = forward_kv_view(forward, index),
                                      .heads = config->heads,
                                      .rotary_dims = config->rotary_dims};
    struct attention_args attention = {.q = a->qkv,
                                       .q_stride =
                                           query_dim + 2 * config->kv_heads * config->head_dim,
                                       .rows = rope.rows,
                                       .kv = rope.kv,
                                       .out = a->attention,
                                       .workspace = forward->memory.workspace,
                                       .heads = config->heads,
                                       .context_max = pass->context_max};
    return forward_head_norm(forward, a->qkv, layer->query_norm, config->heads, pass->rows) &&
           forward_head_norm(forward, a->qkv + query_dim, layer->key_norm, config->kv_heads,
                             pass->rows) &&
           FORWARD_CALL(forward, rope_kv_write, &rope) &&
           FORWARD_CALL(forward, attention, &attention);
}

/* ---------------------------------------------------------------- the pass */

static bool forward_layer(struct forward *forward, const struct forward_pass *pass,
                          uint32_t index) {
    const struct model_layer *layer = &forward->model->layers[index];
    const struct forward_activations *a = &forward->memory.activations;
    return forward_norm_linear(forward, layer->attention_norm, &layer->qkv, a->qkv, pass->rows) &&
           forward_attention(forward, pass, index) &&
           forward_output_linear(forward, &layer->output, pass->rows) &&
           forward_norm_linear(forward, layer->ffn_norm, &layer->gate_up, a->gate_up, pass->rows) &&
           forward_gated_linear(forward, &layer->down, pass->rows);
}

/* Every row through every layer; then the sampled rows, gathered and normed, in `final`. */
static bool forward_body(struct forward *forward, const struct forward_pass *pass) {
    const struct model *model = forward->model;
    const struct forward_memory *memory = &forward->memory;
    struct embed_args embed = {.token = memory->inputs.token,
                               .table = &model->embedding,
                               .x = memory->activations.x,
                               .rows = pass->rows};
    if (!FORWARD_CALL(forward, embed, &embed)) {
        return false;
    }
    for (uint32_t i = 0; i < model->config.layers; i++) {
        if (!forward_layer(forward, pass, i)) {
            return false;
        }
    }
    struct norm_args norm = {.x = memory->activations.x,
                             .row_index = memory->inputs.sampled_row,
                             .weight = model->final_norm,
                             .y = memory->activations.final,
                             .eps = model->config.norm_eps,
                             .rows = pass->sampled,
                             .dim = model->config.dim};
    return pass->sampled == 0 || FORWARD_CALL(forward, rms_norm, &norm);
}

static bool forward_sample(struct forward *forward, const struct forward_pass *pass) {
    const struct forward_memory *memory = &forward->memory;
    const struct forward_inputs *in = &memory->inputs;
    struct head_sample_args args = {.x = memory->activations.final,
                                    .weight = forward->model->head,
                                    .sketch = forward->options.head_sketch ? &forward->model->sketch
                                                                           : NULL,
                                    .params = {.temperature = in->temperature,
                                               .top_k = in->top_k,
                                               .top_p_q16 = in->top_p_q16,
                                               .min_p_q16 = in->min_p_q16,
                                               .repetition = in->repetition,
                                               .presence = in->presence,
                                               .frequency = in->frequency,
                                               .seed = in->seed,
                                               .position = in->draw_position,
                                               .seen_begin = in->seen_begin,
                                               .seen_id = in->seen_id,
                                               .seen_count = in->seen_count},
                                    .token = memory->outputs.sampled_token,
                                    .bad = memory->outputs.sampled_bad,
                                    .workspace = memory->workspace,
                                    .rows = pass->sampled};
    return pass->sampled == 0 || FORWARD_CALL(forward, head_sample, &args);
}

/* ---------------------------------------------------------------- a batch in, tokens out */

static bool forward_copy_in(struct forward *forward, void *to, const void *from, size_t bytes) {
    return bytes == 0 ||
           forward_note(forward, "copy in",
                        device_copy_in(forward->device, DEVICE_STREAM_COMPUTE, to, from, bytes));
}

static bool forward_copy_inputs(struct forward *forward, const struct batch *batch) {
    const struct forward_memory *memory = &forward->memory;
    const struct forward_inputs *in = &memory->staged_inputs;
    size_t seen_bytes = (size_t)batch->seen_begin[batch->sampled_count] * sizeof *in->seen_id;
    return forward_copy_in(forward, memory->inputs.token, in->token, memory->fixed_input_bytes) &&
           forward_copy_in(forward, memory->inputs.seen_id, in->seen_id, seen_bytes) &&
           forward_copy_in(forward, memory->inputs.seen_count, in->seen_count, seen_bytes);
}

static bool forward_upload(struct forward *forward, const struct batch *batch,
                           const struct forward_pass *pass) {
    const struct forward_memory *memory = &forward->memory;
    const struct forward_inputs *in = &memory->staged_inputs;
    forward_inputs_stage(in, batch, pass);
    bool is_there =
        forward->ahead.is_under_way
            ? forward_note(forward, "copy in",
                           forward_ahead_take(&forward->ahead, &memory->inputs, in, batch, pass))
            : forward_copy_inputs(forward, batch);
    return is_there &&
           forward_note(forward, "fill",
                        device_fill(forward->device, DEVICE_STREAM_COMPUTE,
                                    memory->outputs.sampled_token, 0, memory->output_bytes));
}

/* Waits for the pass, not for what is sent ahead meanwhile. */
static enum forward_status forward_sync(struct forward *forward, char *err, size_t err_bytes) {
    return device_sync_stream(forward->device, DEVICE_STREAM_COMPUTE, err, err_bytes) == KERNELS_OK
               ? FORWARD_OK
               : FORWARD_FAILED;
}

static bool forward_copy_out(struct forward *forward) {
    const struct forward_memory *memory = &forward->memory;
    return forward_note(forward, "copy out",
                        device_copy_out(forward->device, DEVICE_STREAM_COMPUTE,
                                        memory->staged_outputs.sampled_token,
                                        memory->outputs.sampled_token, memory->output_bytes));
}

static enum forward_status forward_read_back(struct forward *forward, struct batch *batch,
                                             char *err, size_t err_bytes) {
    const struct forward_outputs *out = &forward->memory.staged_outputs;
    enum forward_status status = forward_sync(forward, err, err_bytes);
    if (status == FORWARD_OK) {
        memcpy(batch->sampled_token, out->sampled_token,
               batch->sampled_count * sizeof *batch->sampled_token);
        memcpy(batch->sampled_bad, out->sampled_bad, batch->sampled_count);
        memcpy(batch->row_bad, out->row_bad, batch->row_count);
    }
    return status;
}

/* ---------------------------------------------------------------- logits */

static bool forward_logits(struct forward *forward, uint32_t first, uint32_t count, float *out) {
    const struct model_config *config = &forward->model->config;
    struct head_logits_args args = {.x = forward->memory.activations.final +
                                         (size_t)first * config->dim,
                                    .weight = forward->model->head,
                                    .logits = forward->logits,
                                    .workspace = forward->memory.workspace,
                                    .rows = count};
    return FORWARD_CALL(forward, head_logits, &args) &&
           forward_note(forward, "copy out",
                        device_copy_out(forward->device, DEVICE_STREAM_COMPUTE,
                                        out + (size_t)first * config->vocabulary, forward->logits,
                                        (size_t)count * config->vocabulary * sizeof *out));
}

static bool forward_all_logits(struct forward *forward, uint32_t sampled_count, float *out) {
    for (uint32_t first = 0; first < sampled_count; first += FORWARD_LOGITS_ROWS) {
        uint32_t left = sampled_count - first;
        uint32_t count = left < FORWARD_LOGITS_ROWS ? left : FORWARD_LOGITS_ROWS;
        if (!forward_logits(forward, first, count, out)) {
            return false;
        }
    }
    return true;
}

static enum forward_status forward_reserve_logits(struct forward *forward, char *err,
                                                  size_t err_bytes) {
    size_t bytes =
        (size_t)FORWARD_LOGITS_ROWS * forward->model->config.vocabulary * sizeof *forward->logits;
    if (forward->ops->head_logits == NULL) {
        snprintf(err, err_bytes, "tier %s has no op head_logits", forward->ops->tier);
        return FORWARD_UNSUPPORTED;
    }
    void *memory = NULL;
    if (forward->logits == NULL &&
        device_alloc(forward->device, DEVICE_MEMORY, bytes, &memory) != KERNELS_OK) {
        snprintf(err, err_bytes, "no memory for logits: %zu bytes", bytes);
        return FORWARD_NO_MEMORY;
    }
    forward->logits = forward->logits != NULL ? forward->logits : memory;
    return FORWARD_OK;
}

enum forward_status forward_run_logits(struct forward *forward, struct batch *batch, float *logits,
                                       char *err, size_t err_bytes) {
    enum forward_status status = forward_reserve_logits(forward, err, err_bytes);
    struct forward_pass pass = forward_pass_make(&forward->options, batch);
    if (status != FORWARD_OK) {
        return status;
    }
    if (!forward_upload(forward, batch, &pass) || !forward_body(forward, &pass)) {
        return forward_fault(forward, err, err_bytes);
    }
    if (!forward_all_logits(forward, batch->sampled_count, logits) || !forward_copy_out(forward)) {
        return forward_fault(forward, err, err_bytes);
    }
    return forward_read_back(forward, batch, err, err_bytes);
}

/* The final rows of the pass that has just been run are still there. */
static enum forward_status forward_show_logits(struct forward *forward, const struct batch *batch,
                                               char *err, size_t err_bytes) {
    const struct forward_tap *tap = forward->options.tap;
    enum forward_status status = forward_reserve_logits(forward, err, err_bytes);
    if (status == FORWARD_OK &&
        !forward_all_logits(forward, batch->sampled_count, forward->tapped)) {
        status = forward_fault(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_sync(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        tap->see(tap->context, batch, forward->tapped);
    }
    return status;
}

/* By one launch where the pass was captured, else op by op: the same kernels, the same bits. */
static bool forward_launch(struct forward *forward, const struct forward_pass *pass) {
    struct device_graph *graph = forward_graphs_find(&forward->graphs, pass);
    if (graph != NULL) {
        return forward_note(forward, "graph", device_graph_launch(forward->device, graph));
    }
    return forward_body(forward, pass) && forward_sample(forward, pass);
}

static bool forward_start_pass(struct forward *forward, const struct batch *batch,
                               const struct forward_pass *pass) {
    assert(batch->row_count > 0);
    return forward_upload(forward, batch, pass) && forward_launch(forward, pass) &&
           forward_copy_out(forward);
}

enum forward_status forward_start(struct forward *forward, const struct batch *batch, char *err,
                                  size_t err_bytes) {
    const struct forward_pass pass = forward_pass_make(&forward->options, batch);
    return forward_start_pass(forward, batch, &pass) ? FORWARD_OK
                                                     : forward_fault(forward, err, err_bytes);
}

enum forward_status forward_send_ahead(struct forward *forward, const struct batch *guess,
                                       char *err, size_t err_bytes) {
    const struct forward_pass pass = forward_pass_make(&forward->options, guess);
    assert(forward->options.sends_ahead && guess->row_count > 0);
    return forward_note(forward, "copy ahead", forward_ahead_send(&forward->ahead, guess, &pass))
               ? FORWARD_OK
               : forward_fault(forward, err, err_bytes);
}

enum forward_status forward_finish(struct forward *forward, struct batch *batch, char *err,
                                   size_t err_bytes) {
    enum forward_status status = forward_read_back(forward, batch, err, err_bytes);
    if (status == FORWARD_OK && forward->tapped != NULL && batch->sampled_count > 0) {
        status = forward_show_logits(forward, batch, err, err_bytes);
    }
    return status;
}

enum forward_status forward_run(struct forward *forward, struct batch *batch, char *err,
                                size_t err_bytes) {
    enum forward_status status = forward_start(forward, batch, err, err_bytes);
    return status == FORWARD_OK ? forward_finish(forward, batch, err, err_bytes) : status;
}

enum forward_status forward_warm_up(struct forward *forward, struct batch *batch, uint32_t rows,
                                    char *err, size_t err_bytes) {
    struct forward_pass pass = forward_pass_make(&forward->options, batch);
    assert(forward->options.row_bucket_count > 0 && rows >= pass.rows);
    pass.rows = rows;
    return forward_start_pass(forward, batch, &pass)
               ? forward_read_back(forward, batch, err, err_bytes)
               : forward_fault(forward, err, err_bytes);
}

/* ---------------------------------------------------------------- graphs */

/* The capture is ended whatever happened in it, else nothing could follow it. */
static bool forward_capture_pass(struct forward *forward, const struct forward_pass *pass) {
    struct device_graph *graph = NULL;
    if (!forward_note(forward, "begin of a capture", device_graph_begin(forward->device))) {
        return false;
    }
    bool is_whole = forward_body(forward, pass) && forward_sample(forward, pass);
    enum kernels_status ended = device_graph_end(forward->device, &graph);
    if (is_whole && !forward_note(forward, "end of a capture", ended)) {
        return false;
    }
    if (!is_whole || !forward_graphs_add(&forward->graphs, pass, graph)) {
        device_graph_close(forward->device, graph);
        return is_whole && forward_note(forward, "a list of graphs", KERNELS_NO_MEMORY);
    }
    return true;
}

enum forward_status forward_capture(struct forward *forward, char *err, size_t err_bytes) {
    struct forward_pass pass;
    for (uint32_t i = 0; forward_pass_decode(&forward->options, i, &pass); i++) {
        if (!forward_capture_pass(forward, &pass)) {
            return forward_fault(forward, err, err_bytes);
        }
    }
    return FORWARD_OK;
}

uint32_t forward_graph_count(const struct forward *forward) {
    return forward->graphs.count;
}

/* ---------------------------------------------------------------- open and close */

static enum forward_status forward_reserve_tap(struct forward *forward, char *err,
                                               size_t err_bytes) {
    size_t count = (size_t)forward->options.limits.sampled_max * forward->model->config.vocabulary;
    if (forward->options.tap == NULL) {
        return FORWARD_OK;
    }
    forward->tapped = malloc(count * sizeof *forward->tapped);
    if (forward->tapped == NULL) {
        snprintf(err, err_bytes, "no memory for the logits of a test");
        return FORWARD_NO_MEMORY;
    }
    return FORWARD_OK;
}

static enum forward_status forward_reserve_ahead(struct forward *forward, char *err,
                                                 size_t err_bytes) {
    if (!forward->options.sends_ahead ||
        forward_ahead_open(&forward->ahead, forward->device, &forward->options.limits) ==
            KERNELS_OK) {
        return FORWARD_OK;
    }
    snprintf(err, err_bytes, "no memory for the next step's inputs: %zu bytes",
             forward->memory.plan.ahead_bytes);
    return FORWARD_NO_MEMORY;
}

enum forward_status forward_poison_page(struct forward *forward, uint32_t page, char *err,
                                        size_t err_bytes) {
    const struct forward_memory *memory = &forward->memory;
    assert(page < forward->options.page_count);
    for (uint32_t layer = 0; layer < forward->model->config.layers; layer++) {
        unsigned char *begin =
            memory->kv + layer * memory->kv_layer_bytes + page * memory->page_bytes;
        if (!forward_note(forward, "fill",
                          device_fill(forward->device, DEVICE_STREAM_COMPUTE, begin, 0xFF,
                                      memory->page_bytes))) {
            return forward_fault(forward, err, err_bytes);
        }
    }
    return FORWARD_OK;
}

void forward_make_plan(const struct model_config *config, const struct kv_form *kv,
                       const struct device *device, const struct forward_options *options,
                       struct forward_plan *plan) {
    forward_memory_make_plan(config, kv, device, options, plan);
}

enum forward_status forward_open(const struct model *model, const struct forward_options *options,
                                 struct forward **out, char *err, size_t err_bytes) {
    enum forward_status status = forward_needs_check(model, err, err_bytes);
    if (status != FORWARD_OK) {
        return status;
    }
    struct forward *forward = calloc(1, sizeof *forward);
    if (forward == NULL) {
        snprintf(err, err_bytes, "no memory for a forward pass");
        return FORWARD_NO_MEMORY;
    }
    forward->model = model;
    forward->device = model->device;
    forward->ops = device_ops(model->device);
    forward->options = *options;
    forward_graphs_init(&forward->graphs, forward->device);
    status = forward_memory_open(&forward->memory, model, options, err, err_bytes);
    if (status == FORWARD_OK && options->poison_pages &&
        !forward_note(forward, "fill",
                      device_fill(forward->device, DEVICE_STREAM_COMPUTE, forward->memory.kv, 0xFF,
                                  forward->memory.plan.kv_bytes))) {
        status = forward_fault(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_reserve_ahead(forward, err, err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_reserve_tap(forward, err, err_bytes);
    }
    if (status != FORWARD_OK) {
        forward_close(forward);
        return status;
    }
    *out = forward;
    return FORWARD_OK;
}

void forward_close(struct forward *forward) {
    if (forward == NULL) {
        return;
    }
    forward_ahead_close(&forward->ahead);
    forward_graphs_deinit(&forward->graphs);
    device_free(forward->device, DEVICE_MEMORY, forward->logits);
    forward_memory_close(&forward->memory);
    free(forward->tapped);
    free(forward);
}
