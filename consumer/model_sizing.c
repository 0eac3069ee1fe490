#include "consumer/model_sizing.h"

#include <assert.h>

#include "engine/model_plan.h"

static const uint32_t model_sizing_batches[MODEL_SIZING_BATCHES] = {1, 8, 32, 64, 128};

static enum engine_status model_sizing_cell(const struct engine_options *options, uint32_t batch,
                                            enum model_policy policy,
                                            const struct model_config *config,
                                            const struct device *device, size_t *bytes, char *err,
                                            size_t err_bytes) {
    struct engine_options wanted = *options;
    struct engine_plan plan;
    wanted.max_batch_size = batch;
    wanted.max_running = batch;
    wanted.kv_cache_bytes = 0;
    enum engine_status status =
        engine_plan_make(&plan, &wanted, policy, config, device, SIZE_MAX, err, err_bytes);
    *bytes = plan.total_bytes;
    return status;
}

enum engine_status model_sizing_make(struct model_sizing *sizing,
                                     const struct engine_options *options,
                                     const struct model_config *config, const struct device *device,
                                     char *err, size_t err_bytes) {
    sizing->max_model_len = options->max_model_len;
    for (uint32_t batch = 0; batch < MODEL_SIZING_BATCHES; batch++) {
        sizing->batches[batch] = model_sizing_batches[batch];
        for (unsigned policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
            sizing->is_there[policy] =
                model_plan_has_policy(device_ops(device), (enum model_policy)policy);
            if (!sizing->is_there[policy]) {
                continue;
            }
            enum engine_status status =
                model_sizing_cell(options, model_sizing_batches[batch], (enum model_policy)policy,
                                  config, device, &sizing->bytes[policy][batch], err, err_bytes);
            if (status != ENGINE_OK) {
                return status;
            }
        }
    }
    return ENGINE_OK;
}

static bool model_sizing_is_alike(enum model_policy policy, const struct model_config *config,
                                  uint32_t a, uint32_t b) {
    for (unsigned i = 0; i < MODEL_LINEAR_COUNT; i++) {
        enum model_linear linear = (enum model_linear)i;
        if (model_policy_linear(policy, linear, a, config->layers) !=
            model_policy_linear(policy, linear, b, config->layers)) {
            return false;
        }
    }
    return true;
}

uint32_t model_sizing_last_alike(enum model_policy policy, const struct model_config *config,
                                 uint32_t first) {
    uint32_t last = first;
    while (last + 1 < config->layers && model_sizing_is_alike(policy, config, first, last + 1)) {
        last++;
    }
    return last;
}

const char *model_sizing_type_name(enum element_type type) {
    switch (type) {
    case ELEMENT_F32: return "F32";
    case ELEMENT_F16: return "F16";
    case ELEMENT_I8: return "I8";
    }
    assert(!"a type of elements");
    return NULL;
}
