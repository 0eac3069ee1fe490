#include "engine/forward_needs.h"

#include <stdbool.h>
#include <stdio.h>

struct forward_needs {
    enum kernel_op ops[KERNEL_OP_COUNT];
    size_t count;
};

static void forward_need(struct forward_needs *needs, enum kernel_op op) {
    for (size_t i = 0; i < needs->count; i++) {
        if (needs->ops[i] == op) {
            return;
        }
    }
    needs->ops[needs->count++] = op;
}

static void forward_need_linear(struct forward_needs *needs, const struct weight *weight,
                                enum kernel_op f32_source, enum kernel_op i8_source) {
    bool is_f32 = weight->form.activation == ACTIVATION_F32;
    forward_need(needs, is_f32 ? f32_source : i8_source);
    forward_need(needs, is_f32 ? KERNEL_OP_linear_f32 : KERNEL_OP_linear_i8);
}

static void forward_collect_needs(const struct model *model, struct forward_needs *needs) {
    static const enum kernel_op always[] = {KERNEL_OP_embed, KERNEL_OP_rms_norm,
                                            KERNEL_OP_rope_kv_write, KERNEL_OP_attention,
                                            KERNEL_OP_head_sample};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        forward_need(needs, always[i]);
    }
    for (uint32_t i = 0; i < model->config.layers; i++) {
        const struct model_layer *layer = &model->layers[i];
        forward_need_linear(needs, &layer->qkv, KERNEL_OP_rms_norm, KERNEL_OP_rms_norm_quantize);
        forward_need_linear(needs, &layer->output, KERNEL_OP_linear_f32, KERNEL_OP_quantize);
        forward_need_linear(needs, &layer->gate_up, KERNEL_OP_rms_norm,
                            KERNEL_OP_rms_norm_quantize);
        forward_need_linear(needs, &layer->down, KERNEL_OP_silu_mul, KERNEL_OP_silu_mul_quantize);
        if (layer->query_norm != NULL || layer->key_norm != NULL) {
            forward_need(needs, KERNEL_OP_head_norm);
        }
    }
}

/* Forms that the ops have but this pass does not drive yet. */
static bool forward_has_static_scales(const struct model *model) {
    for (uint32_t i = 0; i < model->config.layers; i++) {
        const struct model_layer *layer = &model->layers[i];
        const struct weight *weights[] = {&layer->qkv, &layer->output, &layer->gate_up,
                                          &layer->down};
        for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++) {
            if (weights[w]->form.activation == ACTIVATION_STATIC) {
                return true;
            }
        }
    }
    return false;
}

enum forward_status forward_needs_check(const struct model *model, char *err, size_t err_bytes) {
    struct forward_needs needs = {.count = 0};
    if (forward_has_static_scales(model)) {
        snprintf(err, err_bytes, "static activation scales are not supported");
        return FORWARD_UNSUPPORTED;
    }
    forward_collect_needs(model, &needs);
    if (kernel_ops_require(device_ops(model->device), needs.ops, needs.count, err, err_bytes) !=
        KERNELS_OK) {
        return FORWARD_UNSUPPORTED;
    }
    return FORWARD_OK;
}
