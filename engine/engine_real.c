#include "engine/engine_real.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/engine_ahead.h"
#include "engine/engine_fit.h"
#include "engine/engine_step.h"
#include "engine/log.h"
#include "engine/model_policy.h"

static struct engine_real *engine_real_of(struct engine *engine) {
    return (struct engine_real *)engine;
}

/* ---------------------------------------------------------------- plan */

static void engine_real_log_plan(const struct engine_real *real) {
    const struct engine_plan *plan = &real->plan;
    log_write(real->base.log, LOG_LEVEL_INFO, "engine.plan",
              LOG_FIELDS(log_int("block_weight_bytes", (int64_t)plan->model.block_weight_bytes),
                         log_int("embedding_bytes", (int64_t)plan->model.embedding_bytes),
                         log_int("head_bytes", (int64_t)plan->model.head_bytes),
                         log_int("sketch_bytes", (int64_t)plan->model.sketch_bytes),
                         log_int("norm_bytes", (int64_t)plan->model.norm_bytes),
                         log_int("rope_bytes", (int64_t)plan->model.rope_bytes),
                         log_int("kv_bytes", (int64_t)plan->forward.kv_bytes),
                         log_int("activation_bytes", (int64_t)plan->forward.activation_bytes),
                         log_int("workspace_bytes", (int64_t)plan->forward.workspace_bytes),
                         log_int("batch_bytes", (int64_t)plan->forward.batch_bytes),
                         log_int("ahead_bytes", (int64_t)plan->forward.ahead_bytes),
                         log_int("graph_bytes", (int64_t)plan->forward.graph_bytes),
                         log_int("pinned_bytes", (int64_t)plan->forward.pinned_bytes),
                         log_int("total_bytes", (int64_t)plan->total_bytes),
                         log_int("budget_bytes", (int64_t)plan->budget_bytes),
                         log_int("free_bytes", (int64_t)real->device_info.memory_free_bytes),
                         log_int("kv_pages", plan->forward_options.page_count),
                         log_int("max_model_len", real->options.max_model_len)));
}

static enum engine_status engine_real_make_plan(struct engine_real *real, enum model_policy policy,
                                                char *err, size_t err_bytes) {
    struct engine_options *options = &real->options;
    struct engine_plan *plan = &real->plan;
    const struct model_options file = {.path = options->model_path,
                                       .policy = policy,
                                       .max_model_len = options->max_model_len,
                                       .head_sketch_off = options->head_sketch_off};
    struct model_config config;
    enum model_status described =
        model_describe(&file, device_ops(real->device), &config, &plan->model, err, err_bytes);
    if (described != MODEL_OK) {
        return engine_plan_model_status(described);
    }
    enum engine_status status =
        engine_plan_make(plan, options, policy, &config, real->device,
                         real->device_info.memory_free_bytes, err, err_bytes);
    if (status != ENGINE_OK) {
        return status;
    }
    plan->model_options.path = options->model_path;
    plan->model_options.cache_beside = options->weight_cache_beside;
    plan->model_options.cache_folder = options->weight_cache_folder;
    engine_real_log_plan(real);
    if (plan->total_bytes > plan->budget_bytes) {
        engine_fit_explain(plan, options, &config, real->device,
                           real->device_info.memory_free_bytes, err, err_bytes);
        return ENGINE_NO_DEVICE;
    }
    return ENGINE_OK;
}

/* ---------------------------------------------------------------- open */

static enum engine_status engine_real_open_device(struct engine_real *real, char *err,
                                                  size_t err_bytes) {
    struct device_options options = {.spec = real->options.device,
                                     .tier = real->options.cpu_tier,
                                     .threads = real->options.threads,
                                     .cublaslt = real->options.cublaslt};
    enum kernels_status status = device_open(&options, &real->device, err, err_bytes);
    if (status != KERNELS_OK) {
        return status == KERNELS_INVALID ? ENGINE_BAD_OPTION : ENGINE_NO_DEVICE;
    }
    device_enter_thread(real->device);
    device_describe(real->device, &real->device_info);
    return ENGINE_OK;
}

static bool engine_real_init_numbers(struct engine_numbers *numbers, uint32_t count) {
    numbers->free = calloc(count, sizeof *numbers->free);
    for (uint32_t i = 0; i < count && numbers->free != NULL; i++) {
        numbers->free[numbers->free_count++] = count - 1 - i; /* the smallest is taken first */
    }
    return numbers->free != NULL;
}

static struct repetition_rule engine_real_repetition(const struct engine_options *options) {
    int32_t cycles = options->repetition_cycles;
    return (struct repetition_rule){.cycles = cycles > 0 ? (uint32_t)cycles : 0,
                                    .cycle_tokens_max = options->repetition_cycle_tokens,
                                    .tokens_min = options->repetition_tokens};
}

static bool engine_real_init_tables(struct engine_real *real,
                                    const struct forward_options *forward) {
    const struct engine_options *options = &real->options;
    uint32_t tickets_max = real->base.tickets_max;
    struct scheduler_limits scheduler = {
        .handles_max = tickets_max,
        .max_batch_size = options->max_batch_size,
        .max_running = options->max_running,
        .max_batch_tokens = options->max_batch_tokens,
        .prefill_chunk_tokens = options->prefill_chunk_tokens,
        .pages_total = forward->page_count - 1,
        .max_queue_delay_ns = options->max_queue_delay_ms * CLOCK_NS_PER_MS,
        .priority_ageing_ns = options->priority_ageing_ms * CLOCK_NS_PER_MS,
        .bucket_strict = options->bucket_strict};
    struct intake_limits intake = {.max_model_len = options->max_model_len,
                                   .pages_total = forward->page_count - 1,
                                   .repetition = engine_real_repetition(options)};
    struct scheduler_pages pages = engine_step_pages(real);
    real->sequences = calloc(tickets_max, sizeof(struct sequence *));
    return real->sequences != NULL && engine_real_init_numbers(&real->handles, tickets_max) &&
           engine_real_init_numbers(&real->slots, options->max_running) &&
           ticket_index_init(&real->tickets, tickets_max) &&
           deadline_heap_init(&real->deadlines, tickets_max) &&
           kv_cache_init(&real->cache, forward->page_count, !options->prefix_cache_off, NULL) &&
           batch_init(&real->batch, &forward->limits) && engine_ahead_init(real, forward) &&
           scheduler_init(&real->scheduler, &scheduler, &pages) &&
           intake_init(&real->intake, real->model->tokenizer, &real->model->chat, &intake);
}

/* A row on the scratch page, in the shape of a row bucket (0: where there are none), so that the
 * first job does not pay for plans and cold memory. */
static enum engine_status engine_real_warm_up(struct engine_real *real, uint32_t bucket, char *err,
                                              size_t err_bytes) {
    static const int32_t token = 0;
    struct batch *batch = &real->batch;
    batch_clear(batch);
    batch_add_segment(batch, 0, 0, &token, 1);
    batch_add_sampled(batch, 0);
    enum forward_status status =
        bucket == 0 ? forward_run(real->forward, batch, err, err_bytes)
                    : forward_warm_up(real->forward, batch, bucket, err, err_bytes);
    return status == FORWARD_OK ? ENGINE_OK : ENGINE_FAILED;
}

/* Every row bucket once, so that plans are made and modules loaded, then the graphs of decode
 * steps. */
static enum engine_status engine_real_get_ready(struct engine_real *real, char *err,
                                                size_t err_bytes) {
    enum engine_status status = ENGINE_OK;
    if (real->plan.row_bucket_count == 0) {
        return engine_real_warm_up(real, 0, err, err_bytes);
    }
    for (uint32_t i = 0; i < real->plan.row_bucket_count && status == ENGINE_OK; i++) {
        status = engine_real_warm_up(real, real->plan.row_buckets[i], err, err_bytes);
    }
    if (status == ENGINE_OK && real->plan.forward_options.has_graphs &&
        forward_capture(real->forward, err, err_bytes) != FORWARD_OK) {
        return ENGINE_FAILED;
    }
    log_write(real->base.log, LOG_LEVEL_INFO, "engine.ready",
              LOG_FIELDS(log_int("row_buckets", real->plan.row_bucket_count),
                         log_int("graphs", forward_graph_count(real->forward))));
    return status;
}

static enum engine_status engine_real_open_forward(struct engine_real *real, char *err,
                                                   size_t err_bytes) {
    enum forward_status status =
        forward_open(real->model, &real->plan.forward_options, &real->forward, err, err_bytes);
    if (status == FORWARD_UNSUPPORTED) {
        return ENGINE_BAD_MODEL;
    }
    if (status != FORWARD_OK) {
        return ENGINE_NO_DEVICE;
    }
    if (!engine_real_init_tables(real, &real->plan.forward_options)) {
        snprintf(err, err_bytes, "no memory for the tables of %u tickets", real->base.tickets_max);
        return ENGINE_NO_DEVICE;
    }
    return engine_real_get_ready(real, err, err_bytes);
}

static void engine_real_log_cache(const struct engine_real *real) {
    static const char *const states[] = {[MODEL_CACHE_NONE] = "none",
                                         [MODEL_CACHE_READ] = "read",
                                         [MODEL_CACHE_WRITTEN] = "written",
                                         [MODEL_CACHE_UNUSABLE] = "unusable",
                                         [MODEL_CACHE_FAILED] = "failed"};
    const struct model_cache_note *note = &real->model->cache;
    enum log_level level = note->state == MODEL_CACHE_FAILED ? LOG_LEVEL_WARN : LOG_LEVEL_INFO;
    log_write(real->base.log, level, "model.weight_cache",
              LOG_FIELDS(log_text("state", states[note->state]), log_text("file", note->path),
                         log_text("reason", note->why)));
}

static enum engine_status engine_real_open_parts(struct engine_real *real, char *err,
                                                 size_t err_bytes) {
    enum model_policy policy = MODEL_POLICY_INT8;
    enum engine_status status = engine_plan_check(&real->options, &policy, err, err_bytes);
    if (status == ENGINE_OK) {
        status = engine_real_open_device(real, err, err_bytes);
    }
    if (status == ENGINE_OK) {
        status = engine_real_make_plan(real, policy, err, err_bytes);
    }
    if (status == ENGINE_OK) {
        status = engine_plan_model_status(
            model_open(&real->plan.model_options, real->device, &real->model, err, err_bytes));
    }
    if (status == ENGINE_OK) {
        engine_real_log_cache(real);
        status = engine_real_open_forward(real, err, err_bytes);
    }
    return status;
}

/* ---------------------------------------------------------------- methods */

static enum engine_status engine_real_admit(struct engine *engine, uint64_t ticket, struct job *job,
                                            int64_t admitted_ns, void **work,
                                            struct job_error *rejected) {
    struct sequence *sequence = NULL;
    enum engine_status status =
        intake_admit(&engine_real_of(engine)->intake, ticket, job, &sequence, rejected);
    if (status == ENGINE_OK) {
        sequence->admitted_ns = admitted_ns;
        *work = sequence;
    }
    return status;
}

static void engine_real_drop(struct engine *engine, void *work) {
    (void)engine;
    sequence_close(work);
}

static void engine_real_enter_thread(struct engine *engine) {
    device_enter_thread(engine_real_of(engine)->device);
}

static enum engine_status engine_real_step(struct engine *engine, bool *worked, int64_t *wake_ns,
                                           char *err, size_t err_bytes) {
    return engine_step_run(engine_real_of(engine), worked, wake_ns, err, err_bytes);
}

static void engine_real_info(const struct engine *engine, struct engine_info *out) {
    const struct engine_real *real = (const struct engine_real *)engine;
    out->model_name = real->model->name;
    out->model_sha256 = real->model->sha256;
    out->policy = model_policy_name(real->model->policy);
    out->numerics = model_policy_is_fast(real->model->policy) ? real->device_info.numerics_fast
                                                              : real->device_info.numerics;
    out->device_name = real->device_info.name;
    out->tier = real->device_info.tier;
    out->threads = real->device_info.threads;
    out->max_model_len = real->options.max_model_len;
    out->max_queue_size = real->options.max_queue_size;
    out->reserved_bytes = real->plan.total_bytes;
}

static void engine_real_close(struct engine *engine) {
    struct engine_real *real = engine_real_of(engine);
    engine_base_deinit(engine);
    for (uint32_t i = 0; i < engine->tickets_max && real->sequences != NULL; i++) {
        sequence_close(real->sequences[i]);
    }
    free(real->sequences);
    free(real->handles.free);
    free(real->slots.free);
    intake_deinit(&real->intake);
    scheduler_deinit(&real->scheduler);
    ticket_index_deinit(&real->tickets);
    deadline_heap_deinit(&real->deadlines);
    batch_deinit(&real->batch);
    engine_ahead_deinit(real);
    kv_cache_deinit(&real->cache);
    forward_close(real->forward);
    model_close(real->model);
    device_close(real->device);
    free(real);
}

static const struct engine_methods engine_real_methods = {.admit = engine_real_admit,
                                                          .drop = engine_real_drop,
                                                          .enter_thread = engine_real_enter_thread,
                                                          .step = engine_real_step,
                                                          .info = engine_real_info,
                                                          .close = engine_real_close};

enum engine_status engine_real_open(const struct engine_options *options, struct engine **out,
                                    char *err, size_t err_bytes) {
    struct engine_real *real = calloc(1, sizeof *real);
    if (real == NULL) {
        snprintf(err, err_bytes, "no memory for an engine");
        return ENGINE_FAILED;
    }
    real->options = *options;
    engine_plan_fill_defaults(&real->options);
    uint64_t tickets_max = (uint64_t)real->options.max_queue_size + real->options.max_running;
    if (tickets_max > SCHEDULER_HANDLES_MAX) {
        tickets_max = SCHEDULER_HANDLES_MAX; /* refused by name below */
    }
    enum engine_status status =
        engine_base_init(&real->base, &engine_real_methods, (uint32_t)tickets_max, options->clock,
                         options->log, err, err_bytes);
    if (status != ENGINE_OK) {
        free(real);
        return status;
    }
    status = engine_real_open_parts(real, err, err_bytes);
    if (status != ENGINE_OK) {
        engine_real_close(&real->base);
        return status;
    }
    *out = &real->base;
    return ENGINE_OK;
}
