#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/command_model.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "consumer/model_sizing.h"
#include "engine/engine_plan.h"
#include "engine/model_policy.h"
#include "schemas/json_writer.h"

struct command_model_facts {
    struct model_identity identity;
    struct model_config config;
    struct engine_options options; /* as an engine would take them */
    struct engine_plan plan;       /* for this device and the memory that is free now */
    struct model_sizing sizing;
    struct device_info device_info;
    enum model_policy policy;
    double int8_share_percent;
};

/* The plan line by line. */
struct command_model_purpose {
    const char *key, *text;
    size_t bytes;
};

enum { COMMAND_MODEL_PURPOSES = 13 };

static const char command_model_help[] =
    "Checks a model file and tells what is in it, and what it needs on a device.\n"
    "\n"
    "  solfleet model models/SmolLM2-135M-Instruct.Q4_1.gguf --policy int8\n"
    "\n"
    "The plan is the one that a worker with the same options makes and logs before it reserves\n"
    "anything. The table is for batches all of whose sequences may fill the context.\n"
    "\n"
    "Every size, name and type in the file is checked, and its tokenizer and chat template are\n"
    "opened; the values of its weights are looked at only when it is loaded.\n"
    "\n"
    "Exit code: 0 it can be used; 6 not on this device or under this policy; 7 it cannot.";

const char *command_model_path(const struct config *config) {
    if (config->argument_count > 0) {
        return config->arguments[0];
    }
    return config->model[0] != '\0' ? config->model : NULL;
}

int command_model_exit(enum model_status status) {
    switch (status) {
    case MODEL_OK: return COMMAND_EXIT_OK;
    case MODEL_BAD_FILE: return COMMAND_EXIT_BAD_MODEL;
    case MODEL_BAD_OPTION: return COMMAND_EXIT_USAGE;
    case MODEL_DOES_NOT_FIT:
    case MODEL_NO_MEMORY:
    case MODEL_UNSUPPORTED:
    case MODEL_FAILED: return COMMAND_EXIT_NO_DEVICE;
    }
    return COMMAND_EXIT_BUG;
}

/* ---------------------------------------------------------------- printing */

static const char *command_model_template(const struct command_model_facts *facts) {
    return facts->identity.chat == CHAT_TEMPLATE_CHATML ? "chatml" : "none";
}

static void command_model_list(const struct command_model_facts *facts,
                               struct command_model_purpose out[COMMAND_MODEL_PURPOSES]) {
    const struct model_plan *model = &facts->plan.model;
    const struct forward_plan *forward = &facts->plan.forward;
    const struct command_model_purpose purposes[COMMAND_MODEL_PURPOSES] = {
        {"block_weight_bytes", "weights of the blocks", model->block_weight_bytes},
        {"embedding_bytes", "embedding", model->embedding_bytes},
        {"head_bytes", "head", model->head_bytes},
        {"sketch_bytes", "INT8 copy of the head", model->sketch_bytes},
        {"norm_bytes", "norms", model->norm_bytes},
        {"rope_bytes", "rotary tables", model->rope_bytes},
        {"kv_bytes", "keys and values", forward->kv_bytes},
        {"activation_bytes", "activations, one set for all layers", forward->activation_bytes},
        {"workspace_bytes", "workspace", forward->workspace_bytes},
        {"batch_bytes", "batch of a step", forward->batch_bytes},
        {"ahead_bytes", "inputs of the step after", forward->ahead_bytes},
        {"graph_bytes", "graphs, as an allowance", forward->graph_bytes},
        {"pinned_bytes", "copies of batches, in the host's memory", forward->pinned_bytes},
    };
    memcpy(out, purposes, sizeof purposes);
}

static void command_model_print_file(const struct command_model_facts *facts) {
    const struct model_config *config = &facts->config;
    printf("%s\n", facts->identity.name);
    printf("  sha256        %s\n", facts->identity.sha256);
    printf("  architecture  %s: %u layers, width %u, %u heads (%u for keys and values) of %u, "
           "feed-forward %u\n",
           config->architecture, config->layers, config->dim, config->heads, config->kv_heads,
           config->head_dim, config->ffn_dim);
    printf("  vocabulary    %u tokens, %s head\n", config->vocabulary,
           config->tied_head ? "tied" : "its own");
    printf("  context       %u tokens\n", config->context_tokens);
    printf("  template      %s\n", command_model_template(facts));
    printf("  file          %.1f MiB: %s\n", (double)facts->identity.file_bytes / (1 << 20),
           facts->identity.formats);
}

static const char *command_model_type(const struct command_model_facts *facts,
                                      enum model_linear linear, uint32_t layer) {
    return model_sizing_type_name(
        model_policy_linear(facts->policy, linear, layer, facts->config.layers));
}

static void command_model_print_precision(const struct command_model_facts *facts) {
    const char *table = model_sizing_type_name(model_policy_table(facts->policy));
    printf("precision under policy %s\n", model_policy_name(facts->policy));
    for (uint32_t first = 0, last; first < facts->config.layers; first = last + 1) {
        last = model_sizing_last_alike(facts->policy, &facts->config, first);
        printf("  layers %u to %u: query, key and value %s, output %s, gate and up %s, down %s\n",
               first, last, command_model_type(facts, MODEL_LINEAR_QKV, first),
               command_model_type(facts, MODEL_LINEAR_OUTPUT, first),
               command_model_type(facts, MODEL_LINEAR_GATE_UP, first),
               command_model_type(facts, MODEL_LINEAR_DOWN, first));
    }
    printf("  embedding %s, head %s, norms F32, keys and values %s\n", table, table,
           model_sizing_type_name(model_policy_kv(facts->policy)));
    printf("  INT8: %.1f %% of the blocks' multiply-adds\n", facts->int8_share_percent);
}

static void command_model_print_plan(const struct command_model_facts *facts) {
    const double mib = 1 << 20;
    const struct engine_plan *plan = &facts->plan;
    struct command_model_purpose purposes[COMMAND_MODEL_PURPOSES];
    command_model_list(facts, purposes);
    printf("plan on %s: %u sequences in a step, up to %u tokens each\n", facts->device_info.name,
           facts->options.max_batch_size, facts->options.max_model_len);
    for (size_t i = 0; i < COMMAND_MODEL_PURPOSES; i++) {
        printf("  %15zu bytes %10.1f MiB  %s\n", purposes[i].bytes, (double)purposes[i].bytes / mib,
               purposes[i].text);
    }
    printf("  %15zu bytes %10.1f MiB  in all; %.1f MiB are free\n", plan->total_bytes,
           (double)plan->total_bytes / mib, (double)facts->device_info.memory_free_bytes / mib);
    printf("  keys and values: %.1f KiB a token, room for %zu tokens\n",
           (double)plan->model.page_bytes / KV_PAGE_TOKENS / 1024,
           (size_t)(plan->forward_options.page_count - 1) * KV_PAGE_TOKENS);
}

static void command_model_print_sizing(const struct command_model_facts *facts) {
    const struct model_sizing *sizing = &facts->sizing;
    printf("GiB for batches of whole contexts of %u tokens\n  %-10s", sizing->max_model_len,
           "batch");
    for (uint32_t batch = 0; batch < MODEL_SIZING_BATCHES; batch++) {
        printf(" %8u", sizing->batches[batch]);
    }
    for (unsigned policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        if (!sizing->is_there[policy]) {
            continue;
        }
        printf("\n  %-10s", model_policy_name((enum model_policy)policy));
        for (uint32_t batch = 0; batch < MODEL_SIZING_BATCHES; batch++) {
            printf(" %8.2f", (double)sizing->bytes[policy][batch] / (1 << 30));
        }
    }
    printf("\n");
}

static void command_model_print_text(const struct command_model_facts *facts) {
    command_model_print_file(facts);
    command_model_print_precision(facts);
    command_model_print_plan(facts);
    command_model_print_sizing(facts);
}

static void command_model_uint(struct json_writer *writer, const char *key, uint64_t value) {
    json_writer_key(writer, key);
    json_writer_uint(writer, value);
}

static void command_model_string(struct json_writer *writer, const char *key, const char *value) {
    json_writer_key(writer, key);
    json_writer_string(writer, value);
}

static void command_model_write_config(struct json_writer *writer,
                                       const struct model_config *config) {
    command_model_string(writer, "architecture", config->architecture);
    command_model_uint(writer, "layers", config->layers);
    command_model_uint(writer, "dim", config->dim);
    command_model_uint(writer, "heads", config->heads);
    command_model_uint(writer, "kv_heads", config->kv_heads);
    command_model_uint(writer, "head_dim", config->head_dim);
    command_model_uint(writer, "ffn_dim", config->ffn_dim);
    command_model_uint(writer, "vocabulary", config->vocabulary);
    command_model_uint(writer, "context_tokens", config->context_tokens);
    json_writer_key(writer, "tied_head");
    json_writer_bool(writer, config->tied_head);
}

static void command_model_write_precision(struct json_writer *writer,
                                          const struct command_model_facts *facts) {
    static const char *const keys[MODEL_LINEAR_COUNT] = {
        [MODEL_LINEAR_QKV] = "qkv",
        [MODEL_LINEAR_OUTPUT] = "output",
        [MODEL_LINEAR_GATE_UP] = "gate_up",
        [MODEL_LINEAR_DOWN] = "down",
    };
    const char *table = model_sizing_type_name(model_policy_table(facts->policy));
    json_writer_key(writer, "precision");
    json_writer_begin_object(writer);
    command_model_string(writer, "embedding", table);
    command_model_string(writer, "head", table);
    command_model_string(writer, "norms", "F32");
    command_model_string(writer, "keys_and_values",
                         model_sizing_type_name(model_policy_kv(facts->policy)));
    json_writer_key(writer, "layers");
    json_writer_begin_array(writer);
    for (uint32_t layer = 0; layer < facts->config.layers; layer++) {
        json_writer_begin_object(writer);
        for (unsigned i = 0; i < MODEL_LINEAR_COUNT; i++) {
            command_model_string(writer, keys[i],
                                 command_model_type(facts, (enum model_linear)i, layer));
        }
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
    json_writer_end_object(writer);
}

static void command_model_write_plan(struct json_writer *writer,
                                     const struct command_model_facts *facts) {
    struct command_model_purpose purposes[COMMAND_MODEL_PURPOSES];
    command_model_list(facts, purposes);
    json_writer_key(writer, "plan");
    json_writer_begin_object(writer);
    command_model_string(writer, "device", facts->device_info.name);
    command_model_uint(writer, "max_batch_size", facts->options.max_batch_size);
    command_model_uint(writer, "max_model_len", facts->options.max_model_len);
    for (size_t i = 0; i < COMMAND_MODEL_PURPOSES; i++) {
        command_model_uint(writer, purposes[i].key, purposes[i].bytes);
    }
    command_model_uint(writer, "total_bytes", facts->plan.total_bytes);
    command_model_uint(writer, "free_bytes", facts->device_info.memory_free_bytes);
    command_model_uint(writer, "page_bytes", facts->plan.model.page_bytes);
    command_model_uint(writer, "kv_pages", facts->plan.forward_options.page_count);
    json_writer_end_object(writer);
}

static void command_model_write_sizing(struct json_writer *writer,
                                       const struct model_sizing *sizing) {
    json_writer_key(writer, "sizing");
    json_writer_begin_array(writer);
    for (unsigned policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        for (uint32_t batch = 0; sizing->is_there[policy] && batch < MODEL_SIZING_BATCHES;
             batch++) {
            json_writer_begin_object(writer);
            command_model_string(writer, "policy", model_policy_name((enum model_policy)policy));
            command_model_uint(writer, "batch", sizing->batches[batch]);
            command_model_uint(writer, "max_model_len", sizing->max_model_len);
            command_model_uint(writer, "bytes", sizing->bytes[policy][batch]);
            json_writer_end_object(writer);
        }
    }
    json_writer_end_array(writer);
}

static int command_model_print_json(const struct command_model_facts *facts) {
    struct json_writer writer;
    json_writer_init(&writer, 1024);
    json_writer_begin_object(&writer);
    command_model_string(&writer, "name", facts->identity.name);
    command_model_string(&writer, "sha256", facts->identity.sha256);
    command_model_uint(&writer, "file_bytes", facts->identity.file_bytes);
    command_model_string(&writer, "formats", facts->identity.formats);
    command_model_string(&writer, "chat_template", command_model_template(facts));
    command_model_write_config(&writer, &facts->config);
    command_model_string(&writer, "policy", model_policy_name(facts->policy));
    json_writer_key(&writer, "int8_share_percent");
    json_writer_double(&writer, facts->int8_share_percent);
    command_model_write_precision(&writer, facts);
    command_model_write_plan(&writer, facts);
    command_model_write_sizing(&writer, &facts->sizing);
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    if (text == NULL) {
        return command_fail("model", COMMAND_EXIT_BUG, "out of memory");
    }
    puts(text);
    free(text);
    return COMMAND_EXIT_OK;
}

/* ---------------------------------------------------------------- running */

static enum engine_status command_model_plan(struct command_model_facts *facts,
                                             const struct device *device, char *err,
                                             size_t err_bytes) {
    struct engine_options *options = &facts->options;
    const struct model_options file = {.path = options->model_path,
                                       .policy = facts->policy,
                                       .max_model_len = options->max_model_len};
    enum model_status described = model_describe(&file, device_ops(device), &facts->config,
                                                 &facts->plan.model, err, err_bytes);
    if (described == MODEL_OK) {
        described = model_identify(options->model_path, &facts->identity, err, err_bytes);
    }
    enum engine_status status = engine_plan_model_status(described);
    device_describe(device, &facts->device_info);
    if (status == ENGINE_OK) {
        status = engine_plan_make(&facts->plan, options, facts->policy, &facts->config, device,
                                  facts->device_info.memory_free_bytes, err, err_bytes);
    }
    if (status == ENGINE_OK) {
        status = model_sizing_make(&facts->sizing, options, &facts->config, device, err, err_bytes);
    }
    facts->int8_share_percent = model_policy_int8_share_percent(facts->policy, &facts->config);
    return status;
}

static int command_model_show(const struct config *config, struct command_model_facts *facts) {
    char err[1024] = "";
    struct device *device = NULL;
    engine_config_options(config, &facts->options);
    facts->options.model_path = command_model_path(config);
    if (facts->options.model_path == NULL) {
        return command_fail("model", COMMAND_EXIT_USAGE, "which file? 'solfleet model FILE'");
    }
    engine_plan_fill_defaults(&facts->options);
    enum engine_status status = engine_plan_check(&facts->options, &facts->policy, err, sizeof err);
    if (status == ENGINE_OK) {
        const struct device_options options = {.spec = facts->options.device,
                                               .tier = facts->options.cpu_tier,
                                               .threads = facts->options.threads,
                                               .cublaslt = facts->options.cublaslt};
        enum kernels_status opened = device_open(&options, &device, err, sizeof err);
        status = opened == KERNELS_OK        ? ENGINE_OK
                 : opened == KERNELS_INVALID ? ENGINE_BAD_OPTION
                                             : ENGINE_NO_DEVICE;
    }
    if (status == ENGINE_OK) {
        status = command_model_plan(facts, device, err, sizeof err);
    }
    int code = engine_config_exit(status);
    if (code != COMMAND_EXIT_OK) {
        code = command_fail("model", (enum command_exit)code, "%s", err);
    } else if (config->json) {
        code = command_model_print_json(facts);
    } else {
        command_model_print_text(facts);
    }
    device_close(device); /* the facts name it */
    return code;
}

static int command_model_run(int argc, char **argv) {
    const struct config_spec spec = {
        .name = "model",
        .command = CONFIG_MODEL,
        .usage = "[FILE]",
        .summary = command_model_help,
        .arguments_max = 1,
    };
    struct config config;
    struct command_model_facts facts = {.policy = MODEL_POLICY_INT8};
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        code = command_model_show(&config, &facts);
    }
    config_deinit(&config);
    return code;
}

const struct command command_model_entry = {"model", "check a model file and tell what is in it",
                                            command_model_run};
