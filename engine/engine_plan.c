#include "engine/engine_plan.h"

#include <assert.h>
#include <stdio.h>

#include "engine/kv_pages.h"
#include "engine/model_plan.h"
#include "engine/model_policy.h"
#include "engine/repetition.h"
#include "engine/scheduler.h"
#include "engine/speculation.h"

#define ENGINE_PLAN_CHUNK_MAX (1u << 16)
#define ENGINE_PLAN_TOKENS_MAX (1u << 24)
#define ENGINE_PLAN_DELAY_MS_MAX 3600000
#define ENGINE_PLAN_AGEING_MS_MAX 3600000
#define ENGINE_PLAN_FREE_SHARE 4 /* the default KV cache takes at most this part of free memory */
#define ENGINE_PLAN_GPU_SHARE 0.9

/* ---------------------------------------------------------------- options */

static void engine_plan_default(uint32_t *value, uint32_t otherwise) {
    *value = *value != 0 ? *value : otherwise;
}

void engine_plan_fill_defaults(struct engine_options *options) {
    options->policy = options->policy != NULL ? options->policy : "int8";
    options->device = options->device != NULL ? options->device : "auto";
    engine_plan_default(&options->max_batch_size, 32);
    engine_plan_default(&options->max_running, options->max_batch_size);
    engine_plan_default(&options->max_queue_size, 1024);
    engine_plan_default(&options->max_batch_tokens, 4096);
    engine_plan_default(&options->prefill_chunk_tokens, 256);
    if (options->max_queue_delay_ms == 0) {
        options->max_queue_delay_ms = 50;
    } else if (options->max_queue_delay_ms < 0) {
        options->max_queue_delay_ms = 0;
    }
    if (options->priority_ageing_ms == 0) {
        options->priority_ageing_ms = 2000;
    } else if (options->priority_ageing_ms < 0) {
        options->priority_ageing_ms = 0;
    }
    if (options->max_speculative_tokens == 0) {
        options->max_speculative_tokens = 5;
    } else if (options->max_speculative_tokens < 0) {
        options->max_speculative_tokens = 0;
    }
    options->repetition_cycles = options->repetition_cycles != 0 ? options->repetition_cycles : 8;
    engine_plan_default(&options->repetition_cycle_tokens, 64);
    engine_plan_default(&options->repetition_tokens, 256);
    if (options->gpu_memory_utilization <= 0) {
        options->gpu_memory_utilization = ENGINE_PLAN_GPU_SHARE;
    }
    if (options->progress_interval_ms == 0) {
        options->progress_interval_ms = 250;
    }
}

static bool engine_plan_check_range(const char *name, int64_t value, int64_t min, int64_t max,
                                    char *err, size_t err_bytes) {
    if (value < min || value > max) {
        snprintf(err, err_bytes, "%s is %lld: from %lld to %lld", name, (long long)value,
                 (long long)min, (long long)max);
        return false;
    }
    return true;
}

enum engine_status engine_plan_check(const struct engine_options *options,
                                     enum model_policy *policy, char *err, size_t err_bytes) {
    const struct {
        const char *name;
        int64_t value, min, max;
    } ranges[] = {
        {"max_batch_size", options->max_batch_size, 1, ENGINE_BATCH_SIZE_MAX},
        {"max_running", options->max_running, 1, ENGINE_BATCH_SIZE_MAX},
        {"max_queue_size", options->max_queue_size, 1,
         SCHEDULER_HANDLES_MAX - ENGINE_BATCH_SIZE_MAX},
        {"max_batch_tokens", options->max_batch_tokens, 1, ENGINE_PLAN_TOKENS_MAX},
        {"prefill_chunk_tokens", options->prefill_chunk_tokens, 1, ENGINE_PLAN_CHUNK_MAX},
        {"max_queue_delay_ms", options->max_queue_delay_ms, 0, ENGINE_PLAN_DELAY_MS_MAX},
        {"priority_ageing_ms", options->priority_ageing_ms, 0, ENGINE_PLAN_AGEING_MS_MAX},
        {"progress_interval_ms", options->progress_interval_ms, 1, ENGINE_PLAN_DELAY_MS_MAX},
        {"max_speculative_tokens", options->max_speculative_tokens, 0, SPECULATION_TOKENS_MAX},
        {"repetition_cycles", options->repetition_cycles < 0 ? 2 : options->repetition_cycles, 2,
         ENGINE_PLAN_TOKENS_MAX},
        {"repetition_cycle_tokens", options->repetition_cycle_tokens, 1,
         REPETITION_CYCLE_TOKENS_MAX},
        {"repetition_tokens", options->repetition_tokens, 1, ENGINE_PLAN_TOKENS_MAX},
        /* A prompt and an answer of a token each; 0 is the model's own. */
        {"max_model_len", options->max_model_len == 0 ? 2 : options->max_model_len, 2,
         ENGINE_PLAN_TOKENS_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (!engine_plan_check_range(ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max,
                                     err, err_bytes)) {
            return ENGINE_BAD_OPTION;
        }
    }
    if (options->gpu_memory_utilization > 1) {
        snprintf(err, err_bytes, "gpu_memory_utilization is %g: more than 0, up to 1",
                 options->gpu_memory_utilization);
        return ENGINE_BAD_OPTION;
    }
    if (options->model_path == NULL || options->model_path[0] == '\0') {
        snprintf(err, err_bytes, "no model is given");
        return ENGINE_BAD_OPTION;
    }
    if (!model_policy_parse(options->policy, policy)) {
        snprintf(err, err_bytes, "unknown policy `%s`", options->policy);
        return ENGINE_BAD_OPTION;
    }
    return ENGINE_OK;
}

enum engine_status engine_plan_model_status(enum model_status status) {
    switch (status) {
    case MODEL_OK: return ENGINE_OK;
    case MODEL_BAD_FILE: return ENGINE_BAD_MODEL;
    case MODEL_BAD_OPTION: return ENGINE_BAD_OPTION;
    case MODEL_DOES_NOT_FIT:
    case MODEL_NO_MEMORY:
    case MODEL_UNSUPPORTED:
    case MODEL_FAILED: break;
    }
    return ENGINE_NO_DEVICE;
}

/* ---------------------------------------------------------------- plan */

static void engine_plan_buckets(struct engine_plan *plan, const struct device_info *info,
                                uint32_t rows_max) {
    if (!info->fixed_row_shapes) {
        return;
    }
    for (uint32_t rows = 1; rows < rows_max; rows *= 2) {
        plan->row_buckets[plan->row_bucket_count++] = rows;
    }
    plan->row_buckets[plan->row_bucket_count++] = rows_max;
    assert(plan->row_bucket_count <= ENGINE_PLAN_BUCKETS_MAX);
}

static struct batch_limits engine_plan_batch_limits(const struct engine_options *options,
                                                    uint32_t vocabulary) {
    uint32_t context = options->max_model_len;
    uint32_t sampled = options->max_batch_size > ENGINE_PLAN_DRAFT_ROWS_MAX
                           ? options->max_batch_size
                           : ENGINE_PLAN_DRAFT_ROWS_MAX;
    return (struct batch_limits){.rows_max = sampled + options->prefill_chunk_tokens,
                                 .slots_max = options->max_running,
                                 .sampled_max = sampled,
                                 .slot_pages_max = (context + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS,
                                 .vocabulary = vocabulary,
                                 .seen_max = options->max_batch_size *
                                             (context < vocabulary ? context : vocabulary)};
}

/* The host's memory is shared with everything else; a card's is the engine's, but for what the
 * driver, graphs and a neighbour may want. */
static size_t engine_plan_budget(const struct engine_options *options,
                                 const struct device_info *info, size_t free_bytes) {
    return info->memory_is_host || free_bytes == SIZE_MAX
               ? free_bytes
               : (size_t)((double)free_bytes * options->gpu_memory_utilization);
}

/* Pages when nobody says how many, the scratch page included: for max_running whole contexts; on
 * the host within a quarter of the free memory, on a card as many as there is room for, since
 * prompts that come again use them, too. For one context at least: the caller finds that it does
 * not fit. */
static size_t engine_plan_default_pages(const struct engine_plan *plan,
                                        const struct engine_options *options,
                                        const struct device_info *info, uint32_t slot_pages) {
    size_t wanted = (size_t)options->max_running * slot_pages + 1;
    size_t others = plan->model.total_bytes + plan->forward.total_bytes;
    size_t room = plan->budget_bytes > others ? plan->budget_bytes - others : 0;
    if (info->memory_is_host) {
        room = plan->budget_bytes / ENGINE_PLAN_FREE_SHARE;
    } else if (!options->prefix_cache_off && plan->budget_bytes != SIZE_MAX) {
        wanted = SIZE_MAX;
    }
    size_t share = room / plan->model.page_bytes;
    size_t count = wanted < share ? wanted : share;
    return count > (size_t)slot_pages + 1 ? count : (size_t)slot_pages + 1;
}

/* Those, or what kv_cache_bytes asks for. `plan->forward` is that of no pages. */
static uint32_t engine_plan_pages(const struct engine_plan *plan,
                                  const struct engine_options *options,
                                  const struct device_info *info, uint32_t slot_pages) {
    size_t wanted = (size_t)options->max_running * slot_pages + 1;
    size_t count = engine_plan_default_pages(plan, options, info, slot_pages);
    if (options->kv_cache_bytes > 0) {
        count = options->kv_cache_bytes / plan->model.page_bytes;
        if (options->prefix_cache_off && count > wanted) {
            count = wanted; /* more could never be used */
        }
        count = count > 2 ? count : 2;
    }
    return (uint32_t)(count < KV_PAGES_MAX ? count : KV_PAGES_MAX);
}

static void engine_plan_forward(struct engine_plan *plan, const struct engine_options *options,
                                const struct model_config *config, const struct device *device,
                                const struct device_info *info) {
    struct kv_form kv = model_plan_kv_form(config, plan->model_options.policy);
    struct forward_options *forward = &plan->forward_options;
    *forward = (struct forward_options){
        .limits = engine_plan_batch_limits(options, config->vocabulary),
        .row_buckets = plan->row_bucket_count > 0 ? plan->row_buckets : NULL,
        .row_bucket_count = plan->row_bucket_count,
        .head_sketch = plan->model.sketch_bytes > 0,
        .sends_ahead = !info->memory_is_host,
        .has_graphs = info->has_graphs && !options->graphs_off && plan->row_bucket_count > 0,
        .fast = model_policy_is_fast(plan->model_options.policy),
        .poison_pages = options->poison_pages,
        .tap = options->tap};
    forward_make_plan(config, &kv, device, forward, &plan->forward);
    forward->page_count = engine_plan_pages(plan, options, info, forward->limits.slot_pages_max);
    forward_make_plan(config, &kv, device, forward, &plan->forward);
    plan->total_bytes = plan->model.total_bytes + plan->forward.total_bytes;
}

enum engine_status engine_plan_make(struct engine_plan *plan, struct engine_options *options,
                                    enum model_policy policy, const struct model_config *config,
                                    const struct device *device, size_t free_bytes, char *err,
                                    size_t err_bytes) {
    struct device_info info;
    device_describe(device, &info);
    *plan = (struct engine_plan){.budget_bytes = engine_plan_budget(options, &info, free_bytes)};
    engine_plan_buckets(plan, &info,
                        engine_plan_batch_limits(options, config->vocabulary).rows_max);
    enum model_status status = model_plan_length(config, &options->max_model_len, err, err_bytes);
    if (status == MODEL_OK) {
        plan->model_options = (struct model_options){.policy = policy,
                                                     .max_model_len = options->max_model_len,
                                                     .row_buckets = plan->row_buckets,
                                                     .row_bucket_count = plan->row_bucket_count,
                                                     .head_sketch_off = options->head_sketch_off};
        status = model_plan_make(config, &plan->model_options, device_ops(device), &plan->model,
                                 err, err_bytes);
    }
    if (status != MODEL_OK) {
        return engine_plan_model_status(status);
    }
    engine_plan_forward(plan, options, config, device, &info);
    return ENGINE_OK;
}
