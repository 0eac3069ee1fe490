/* A model's sizing: what it would reserve under each policy for batches of several sizes.
 *
 * Whole contexts: every sequence of a batch may reach max_model_len. One thread. Refuses to know
 * files and how a table is shown. */
#ifndef SOLFLEET_CONSUMER_MODEL_SIZING_H
#define SOLFLEET_CONSUMER_MODEL_SIZING_H

#include "engine/engine_plan.h"
#include "engine/model_policy.h"

#define MODEL_SIZING_BATCHES 5

struct model_sizing {
    uint32_t max_model_len;
    uint32_t batches[MODEL_SIZING_BATCHES];
    bool is_there[MODEL_POLICY_COUNT]; /* the device can compute under it */
    size_t bytes[MODEL_POLICY_COUNT][MODEL_SIZING_BATCHES];
};

/* `options` are filled and checked; their batch sizes are not looked at. */
enum engine_status model_sizing_make(struct model_sizing *sizing,
                                     const struct engine_options *options,
                                     const struct model_config *config, const struct device *device,
                                     char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* The last layer of those from `first` on whose linears are stored alike. */
uint32_t model_sizing_last_alike(enum model_policy policy, const struct model_config *config,
                                 uint32_t first);

/* "F32", "F16" or "I8". */
const char *model_sizing_type_name(enum element_type type);

#endif
