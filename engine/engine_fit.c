#include "engine/engine_fit.h"

#include <stdio.h>

#include "engine/model_policy.h"
#include "kernels/ops.h"

/* What is asked again and again with one thing changed. */
struct engine_fit {
    struct engine_options options;
    const struct model_config *config;
    const struct device *device;
    size_t free_bytes;
};

/* Bytes of weights, 0 where it does not fit. */
static size_t engine_fit_weights(const struct engine_fit *fit, enum model_policy policy,
                                 uint32_t max_model_len) {
    struct engine_options options = fit->options;
    struct engine_plan plan;
    char ignored[256];
    options.max_model_len = max_model_len;
    if (engine_plan_make(&plan, &options, policy, fit->config, fit->device, fit->free_bytes,
                         ignored, sizeof ignored) != ENGINE_OK) {
        return 0;
    }
    return plan.total_bytes <= plan.budget_bytes ? plan.model.total_bytes : 0;
}

/* In whole pages; 0 = none. What is needed grows with the length. */
static uint32_t engine_fit_length(const struct engine_fit *fit, enum model_policy policy) {
    uint32_t fits = 0, fails = (fit->options.max_model_len + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    while (fails - fits > 1) {
        uint32_t middle = fits + (fails - fits) / 2;
        if (engine_fit_weights(fit, policy, middle * KV_PAGE_TOKENS) > 0) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    return fits * KV_PAGE_TOKENS;
}

/* The largest that fits; MODEL_POLICY_COUNT = none. One of other numerics is nobody's stand-in. */
static enum model_policy engine_fit_policy(const struct engine_fit *fit) {
    enum model_policy best = MODEL_POLICY_COUNT;
    size_t best_bytes = 0;
    for (unsigned i = 0; i < MODEL_POLICY_COUNT; i++) {
        if (model_policy_is_fast((enum model_policy)i)) {
            continue;
        }
        size_t bytes = engine_fit_weights(fit, (enum model_policy)i, fit->options.max_model_len);
        if (bytes > best_bytes) {
            best_bytes = bytes;
            best = (enum model_policy)i;
        }
    }
    return best;
}

void engine_fit_explain(const struct engine_plan *plan, const struct engine_options *options,
                        const struct model_config *config, const struct device *device,
                        size_t free_bytes, char *err, size_t err_bytes) {
    const struct engine_fit fit = {
        .options = *options, .config = config, .device = device, .free_bytes = free_bytes};
    uint32_t length = engine_fit_length(&fit, plan->model_options.policy);
    enum model_policy policy = engine_fit_policy(&fit);
    char ways[128] = "no other policy or length would fit";
    if (length > 0 && policy != MODEL_POLICY_COUNT) {
        snprintf(ways, sizeof ways, "policy %s would fit, or max_model_len %u",
                 model_policy_name(policy), length);
    } else if (length > 0) {
        snprintf(ways, sizeof ways, "max_model_len %u would fit", length);
    } else if (policy != MODEL_POLICY_COUNT) {
        snprintf(ways, sizeof ways, "policy %s would fit", model_policy_name(policy));
    } else if (options->kv_cache_bytes > 0) {
        snprintf(ways, sizeof ways, "lower kv_cache_bytes");
    }
    snprintf(err, err_bytes,
             "%s needs %zu bytes (weights %zu, KV cache %zu) and may take %zu of the device's %zu "
             "free: %s",
             options->model_path, plan->total_bytes, plan->model.total_bytes,
             plan->forward.kv_bytes, plan->budget_bytes, free_bytes, ways);
}
