#include "engine/model_plan.h"

#include <stdio.h>

#include "engine/model_policy.h"
#include "kernels/rope_table.h"

#define MODEL_PLAN_LENGTH_DEFAULT 4096u

struct weight_form model_plan_table_form(const struct model_config *config,
                                         enum model_policy policy) {
    return (struct weight_form){.type = model_policy_table(policy),
                                .n = config->vocabulary,
                                .k = config->dim,
                                .activation = ACTIVATION_F32,
                                .fast = model_policy_is_fast(policy)};
}

struct weight_form model_plan_sketch_form(const struct model_config *config) {
    return (struct weight_form){.type = ELEMENT_I8,
                                .n = config->vocabulary,
                                .k = config->dim,
                                .activation = ACTIVATION_PER_TOKEN};
}

struct kv_form model_plan_kv_form(const struct model_config *config, enum model_policy policy) {
    return (struct kv_form){.type = model_policy_kv(policy),
                            .kv_heads = config->kv_heads,
                            .head_dim = config->head_dim};
}

size_t model_plan_align(size_t bytes) {
    const size_t alignment = KERNELS_ALIGNMENT_BYTES;
    return (bytes + alignment - 1) / alignment * alignment;
}

enum model_status model_plan_length(const struct model_config *config, uint32_t *max_model_len,
                                    char *err, size_t err_bytes) {
    uint32_t longest = config->context_tokens < ROPE_TABLE_POSITIONS_MAX ? config->context_tokens
                                                                         : ROPE_TABLE_POSITIONS_MAX;
    if (*max_model_len > longest) {
        snprintf(err, err_bytes, "max_model_len %u is more than the model's %u tokens",
                 *max_model_len, longest);
        return MODEL_BAD_OPTION;
    }
    if (*max_model_len == 0) {
        *max_model_len = longest < MODEL_PLAN_LENGTH_DEFAULT ? longest : MODEL_PLAN_LENGTH_DEFAULT;
    }
    return MODEL_OK;
}

bool model_plan_has_policy(const struct kernel_ops *ops, enum model_policy policy) {
    const struct weight_form least = {.type = ELEMENT_F16, .n = 1, .k = 1, .fast = true};
    size_t bytes;
    char ignored[128];
    return !model_policy_is_fast(policy) ||
           ops->weight_packed_bytes(&least, &bytes, ignored, sizeof ignored) == KERNELS_OK;
}

/* Adds what a weight of this form takes. */
static enum model_status model_plan_add(const struct kernel_ops *ops,
                                        const struct weight_form *form, size_t *total, char *err,
                                        size_t err_bytes) {
    size_t bytes;
    if (ops->weight_packed_bytes(form, &bytes, err, err_bytes) != KERNELS_OK) {
        return MODEL_BAD_FILE;
    }
    *total += model_plan_align(bytes);
    return MODEL_OK;
}

static enum model_status model_plan_blocks(const struct model_config *config,
                                           enum model_policy policy, const struct kernel_ops *ops,
                                           struct model_plan *plan, char *err, size_t err_bytes) {
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        for (unsigned i = 0; i < MODEL_LINEAR_COUNT; i++) {
            struct weight_form form =
                model_policy_form(policy, config, (enum model_linear)i, layer);
            enum model_status status =
                model_plan_add(ops, &form, &plan->block_weight_bytes, err, err_bytes);
            if (status != MODEL_OK) {
                return status;
            }
        }
    }
    return MODEL_OK;
}

/* Bytes of the head's copy with its two bounds. The f32 policy is for tests and comparisons: it
 * computes every logit. */
static enum model_status model_plan_sketch(const struct model_config *config,
                                           const struct model_options *options,
                                           const struct kernel_ops *ops, size_t *bytes, char *err,
                                           size_t err_bytes) {
    struct weight_form form = model_plan_sketch_form(config);
    if (!ops->takes_head_sketch || options->head_sketch_off ||
        options->policy == MODEL_POLICY_F32) {
        return MODEL_OK;
    }
    *bytes = 2 * model_plan_align(config->vocabulary * sizeof(float));
    return model_plan_add(ops, &form, bytes, err, err_bytes);
}

enum model_status model_plan_make(const struct model_config *config,
                                  const struct model_options *options, const struct kernel_ops *ops,
                                  struct model_plan *plan, char *err, size_t err_bytes) {
    enum model_policy policy = options->policy;
    struct weight_form table = model_plan_table_form(config, policy);
    struct kv_form kv = model_plan_kv_form(config, policy);
    *plan = (struct model_plan){0};
    if (!model_plan_has_policy(ops, policy)) {
        snprintf(err, err_bytes,
                 "policy %s needs a CUDA device: its 16-bit products are cuBLASLt's, which the %s "
                 "kernels lack",
                 model_policy_name(policy), ops->tier);
        return MODEL_UNSUPPORTED;
    }
    enum model_status status = model_plan_blocks(config, policy, ops, plan, err, err_bytes);
    if (status == MODEL_OK) {
        status = model_plan_add(ops, &table, &plan->embedding_bytes, err, err_bytes);
    }
    if (status == MODEL_OK) {
        status = model_plan_sketch(config, options, ops, &plan->sketch_bytes, err, err_bytes);
    }
    if (status != MODEL_OK) {
        return status;
    }
    size_t norms = 2 * (size_t)config->layers + 1;
    size_t table_floats = (size_t)options->max_model_len * (config->rotary_dims / 2);
    plan->head_bytes = config->tied_head ? 0 : plan->embedding_bytes;
    plan->norm_bytes = norms * model_plan_align(config->dim * sizeof(float));
    plan->rope_bytes = 2 * model_plan_align(table_floats * sizeof(float));
    plan->total_bytes = plan->block_weight_bytes + plan->embedding_bytes + plan->head_bytes +
                        plan->sketch_bytes + plan->norm_bytes + plan->rope_bytes;
    plan->page_bytes = config->layers * ops->page_bytes(&kv);
    if (plan->page_bytes == 0) {
        snprintf(err, err_bytes, "the %s kernels take no heads of width %u", ops->tier,
                 kv.head_dim);
        return MODEL_BAD_FILE;
    }
    return MODEL_OK;
}
