#include "engine/forward_layers.h"

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

bool forward_layers_run(struct forward *forward, const struct forward_pass *pass) {
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

bool forward_layers_sample(struct forward *forward, const struct forward_pass *pass) {
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
