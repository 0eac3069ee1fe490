#include "engine/model_policy.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* A policy is one type for every linear, save those named in `sixteen_bit` (a bit per linear) and
 * those of the first and last layers where `whole_ends` of them are kept in 16 bits; `fast` where
 * 16-bit products need not be canonical. */
struct model_policy_rule {
    const char *name;
    enum element_type linears;
    enum element_type table; /* embedding and head */
    enum element_type kv;
    uint32_t sixteen_bit;
    uint32_t whole_ends;
    bool fast;
};

#define MODEL_POLICY_BIT(linear) (1u << (linear))

/* What it costs, measured on SmolLM2-135M as perplexity against f16 (1,465 tokens of technical
 * English, tests/golden/smollm2): int8 +3.01 %, balanced +1.89 %, latency +1.79 %. The inputs of
 * `down` are products and have the largest outliers: in 16 bits that one linear, a quarter of the
 * multiply-adds, wins back more than a third of the loss; the layers at both ends a little more. */
static const struct model_policy_rule model_policy_rules[MODEL_POLICY_COUNT] = {
    [MODEL_POLICY_F32] = {"f32", ELEMENT_F32, ELEMENT_F32, ELEMENT_F32, 0, 0, false},
    [MODEL_POLICY_F16] = {"f16", ELEMENT_F16, ELEMENT_F16, ELEMENT_F16, 0, 0, false},
    [MODEL_POLICY_INT8] = {"int8", ELEMENT_I8, ELEMENT_F16, ELEMENT_F16, 0, 0, false},
    [MODEL_POLICY_BALANCED] = {"balanced", ELEMENT_I8, ELEMENT_F16, ELEMENT_F16,
                               MODEL_POLICY_BIT(MODEL_LINEAR_DOWN), 0, false},
    [MODEL_POLICY_LATENCY] = {"latency", ELEMENT_I8, ELEMENT_F16, ELEMENT_F16,
                              MODEL_POLICY_BIT(MODEL_LINEAR_DOWN), 1, false},
    [MODEL_POLICY_FAST] = {"fast", ELEMENT_I8, ELEMENT_F16, ELEMENT_F16, 0, 0, true},
};

static const struct model_policy_rule *model_policy_rule(enum model_policy policy) {
    assert((unsigned)policy < MODEL_POLICY_COUNT);
    return &model_policy_rules[policy];
}

const char *model_policy_name(enum model_policy policy) {
    return model_policy_rule(policy)->name;
}

bool model_policy_parse(const char *name, enum model_policy *out) {
    for (unsigned i = 0; i < MODEL_POLICY_COUNT; i++) {
        if (strcmp(model_policy_rules[i].name, name) == 0) {
            *out = (enum model_policy)i;
            return true;
        }
    }
    return false;
}

enum element_type model_policy_linear(enum model_policy policy, enum model_linear linear,
                                      uint32_t layer, uint32_t layers) {
    const struct model_policy_rule *rule = model_policy_rule(policy);
    bool is_end = layer < rule->whole_ends || layer + rule->whole_ends >= layers;
    if (is_end || (rule->sixteen_bit & MODEL_POLICY_BIT(linear)) != 0) {
        return ELEMENT_F16;
    }
    return rule->linears;
}

bool model_policy_is_fast(enum model_policy policy) {
    return model_policy_rule(policy)->fast;
}

enum element_type model_policy_table(enum model_policy policy) {
    return model_policy_rule(policy)->table;
}

enum element_type model_policy_kv(enum model_policy policy) {
    return model_policy_rule(policy)->kv;
}

void model_policy_shape(const struct model_config *config, enum model_linear linear, uint32_t *n,
                        uint32_t *k) {
    switch (linear) {
    case MODEL_LINEAR_QKV:
        *n = (config->heads + 2 * config->kv_heads) * config->head_dim;
        *k = config->dim;
        return;
    case MODEL_LINEAR_OUTPUT:
        *n = config->dim;
        *k = config->heads * config->head_dim;
        return;
    case MODEL_LINEAR_GATE_UP:
        *n = 2 * config->ffn_dim;
        *k = config->dim;
        return;
    case MODEL_LINEAR_DOWN:
        *n = config->dim;
        *k = config->ffn_dim;
        return;
    case MODEL_LINEAR_COUNT: break;
    }
    assert(!"no such linear");
}

struct weight_form model_policy_form(enum model_policy policy, const struct model_config *config,
                                     enum model_linear linear, uint32_t layer) {
    struct weight_form form = {.type = model_policy_linear(policy, linear, layer, config->layers)};
    form.activation = form.type == ELEMENT_I8 ? ACTIVATION_PER_TOKEN : ACTIVATION_F32;
    form.fast = form.type == ELEMENT_F16 && model_policy_is_fast(policy);
    model_policy_shape(config, linear, &form.n, &form.k);
    return form;
}

double model_policy_int8_share_percent(enum model_policy policy,
                                       const struct model_config *config) {
    double int8 = 0, all = 0;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        for (unsigned i = 0; i < MODEL_LINEAR_COUNT; i++) {
            struct weight_form form =
                model_policy_form(policy, config, (enum model_linear)i, layer);
            double products = (double)form.n * (double)form.k;
            all += products;
            int8 += form.type == ELEMENT_I8 ? products : 0;
        }
    }
    return 100.0 * int8 / all;
}
