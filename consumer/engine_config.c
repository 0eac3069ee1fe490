#include "consumer/engine_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"

int engine_config_exit(enum engine_status status) {
    switch (status) {
    case ENGINE_OK: return COMMAND_EXIT_OK;
    case ENGINE_BAD_OPTION: return COMMAND_EXIT_USAGE;
    case ENGINE_BAD_MODEL: return COMMAND_EXIT_BAD_MODEL;
    case ENGINE_NO_DEVICE:
    case ENGINE_FAILED: return COMMAND_EXIT_NO_DEVICE;
    case ENGINE_BUSY:
    case ENGINE_REJECTED: break;
    }
    return COMMAND_EXIT_BUG;
}

static enum engine_status engine_config_open_null(const struct config *config, struct log *log,
                                                  struct engine **out, char *err,
                                                  size_t err_bytes) {
    struct engine_null_options options = {.max_queue_size = (uint32_t)config->max_queue_size,
                                          .completion_tokens =
                                              (uint32_t)config->null_completion_tokens,
                                          .answer_bytes = (uint32_t)config->null_answer_bytes,
                                          .delay_us = config->null_delay_us,
                                          .log = log};
    return engine_null_open(&options, out, err, err_bytes);
}

const char *engine_config_tier(const char *cpu_tier) {
    return strcmp(cpu_tier, "auto") == 0 ? NULL : cpu_tier;
}

void engine_config_options(const struct config *config, struct engine_options *options) {
    *options = (struct engine_options){
        .model_path = config->model,
        .policy = config->policy,
        .device = config->device,
        .cublaslt = config->cublaslt,
        .cpu_tier = engine_config_tier(config->cpu_tier),
        .threads = (uint32_t)config->threads,
        .max_batch_size = (uint32_t)config->max_batch_size,
        .max_running = (uint32_t)config->max_running,
        .max_queue_size = (uint32_t)config->max_queue_size,
        .max_batch_tokens = (uint32_t)config->max_batch_tokens,
        .prefill_chunk_tokens = (uint32_t)config->prefill_chunk_tokens,
        .max_model_len = (uint32_t)config->max_model_len,
        .max_queue_delay_ms = config->max_queue_delay_ms > 0 ? config->max_queue_delay_ms : -1,
        .priority_ageing_ms = config->priority_ageing_ms > 0 ? config->priority_ageing_ms : -1,
        .bucket_strict = config->bucket_strict,
        .max_speculative_tokens =
            config->max_speculative_tokens > 0 ? (int32_t)config->max_speculative_tokens : -1,
        .repetition_cycles =
            config->repetition_cycles > 0 ? (int32_t)config->repetition_cycles : -1,
        .repetition_cycle_tokens = (uint32_t)config->repetition_cycle_tokens,
        .repetition_tokens = (uint32_t)config->repetition_tokens,
        .head_sketch_off = !config->head_sketch,
        .graphs_off = !config->graphs,
        .prefix_cache_off = !config->prefix_cache,
        .kv_cache_bytes = (size_t)config->kv_cache_bytes,
        .gpu_memory_utilization = config->gpu_memory_utilization,
        .progress_interval_ms = config->progress_interval_ms};
}

/* The user's cache folder for programs, as the XDG base directories say; "" where there is none. */
static void engine_config_user_cache(char *folder, size_t folder_bytes) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    folder[0] = '\0';
    if (cache != NULL && cache[0] == '/') {
        snprintf(folder, folder_bytes, "%s/solfleet", cache);
    } else if (home != NULL && home[0] == '/') {
        snprintf(folder, folder_bytes, "%s/.cache/solfleet", home);
    }
}

static enum engine_status engine_config_open_real(const struct config *config, struct log *log,
                                                  struct engine **out, char *err,
                                                  size_t err_bytes) {
    struct engine_options options;
    char folder[4096];
    engine_config_options(config, &options);
    options.log = log;
    if (strcmp(config->weight_cache, "auto") == 0) {
        engine_config_user_cache(folder, sizeof folder);
        options.weight_cache_beside = true;
        options.weight_cache_folder = folder;
    } else if (strcmp(config->weight_cache, "off") != 0) {
        options.weight_cache_folder = config->weight_cache;
    }
    return engine_open(&options, out, err, err_bytes);
}

/* A path that leads nowhere, or to something else, is the likeliest mistake of a first hour. */
static void engine_config_explain(const char *path, char *err, size_t err_bytes) {
    char magic[4] = "";
    FILE *file = fopen(path, "rb");
    size_t used = strlen(err);
    if (file == NULL) {
        snprintf(err + used, err_bytes - used,
                 "; see --model ('make model' fetches the demo model to models/)");
        return;
    }
    if (fread(magic, 1, sizeof magic, file) < sizeof magic && !ferror(file)) {
        snprintf(err + used, err_bytes - used, "; is it a model file at all?");
    }
    fclose(file);
}

int engine_config_open(const struct config *config, struct log *log, struct engine **out, char *err,
                       size_t err_bytes) {
    bool is_null = strcmp(config->engine, "null") == 0;
    if (!is_null && config->model[0] == '\0') {
        snprintf(err, err_bytes,
                 "--model FILE is missing ('make model' fetches the demo model to "
                 "models/)");
        return COMMAND_EXIT_USAGE;
    }
    enum engine_status status = is_null ? engine_config_open_null(config, log, out, err, err_bytes)
                                        : engine_config_open_real(config, log, out, err, err_bytes);
    if (status == ENGINE_BAD_MODEL) {
        engine_config_explain(config->model, err, err_bytes);
    }
    return engine_config_exit(status);
}
