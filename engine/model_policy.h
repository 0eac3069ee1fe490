/* A policy: which precision each named linear of a model gets, as data.
 *
 * Pure functions over a constant table; any thread. Refuses to know weights and devices. */
#ifndef SOLFLEET_ENGINE_MODEL_POLICY_H
#define SOLFLEET_ENGINE_MODEL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model.h"

/* The linears of a block. */
enum model_linear {
    MODEL_LINEAR_QKV,
    MODEL_LINEAR_OUTPUT,
    MODEL_LINEAR_GATE_UP,
    MODEL_LINEAR_DOWN,
    MODEL_LINEAR_COUNT
};

/* What a linear of a layer is stored as: F32, F16 or I8 (then its inputs are INT8 per token). */
enum element_type model_policy_linear(enum model_policy policy, enum model_linear linear,
                                      uint32_t layer, uint32_t layers);

/* Whether weights of 16 bits are of the fast form (kernels/ops.h). */
bool model_policy_is_fast(enum model_policy policy);

/* What the embedding and the head are stored as: F32 or F16. */
enum element_type model_policy_table(enum model_policy policy);

/* What a KV page stores: F32 or F16. */
enum element_type model_policy_kv(enum model_policy policy);

/* Outputs and inputs of a linear. */
void model_policy_shape(const struct model_config *config, enum model_linear linear, uint32_t *n,
                        uint32_t *k);

/* The weight form of a linear. */
struct weight_form model_policy_form(enum model_policy policy, const struct model_config *config,
                                     enum model_linear linear, uint32_t layer);

/* Share of the blocks' multiply-adds that run in INT8, percent. */
double model_policy_int8_share_percent(enum model_policy policy, const struct model_config *config);

#endif
