#include <stdio.h>
#include <stdlib.h>

#include "consumer/command.h"
#include "consumer/command_model.h"
#include "consumer/config.h"
#include "engine/model_policy.h"
#include "schemas/json_writer.h"

struct command_model_facts {
    struct model_identity identity;
    struct model_config config;
    struct model_plan plan;
    enum model_policy policy;
    double int8_share_percent;
};

static const char command_model_help[] =
    "Checks a model file and tells what is in it, and what it needs on a device.\n"
    "\n"
    "  solfleet model models/SmolLM2-135M-Instruct.Q4_1.gguf --policy int8\n"
    "\n"
    "Every size, name and type in the file is checked, and its tokenizer and chat template are\n"
    "opened; the values of its weights are looked at only when it is loaded.\n"
    "\n"
    "Exit code: 0 it can be used; 7 it cannot.";

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
    case MODEL_FAILED: return COMMAND_EXIT_NO_DEVICE;
    }
    return COMMAND_EXIT_BUG;
}

/* ---------------------------------------------------------------- printing */

static const char *command_model_template(const struct command_model_facts *facts) {
    return facts->identity.chat == CHAT_TEMPLATE_CHATML ? "chatml" : "none";
}

static void command_model_print_text(const struct command_model_facts *facts) {
    const struct model_config *config = &facts->config;
    const struct model_plan *plan = &facts->plan;
    const double mib = 1 << 20;
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
    printf("  file          %.1f MiB: %s\n", (double)facts->identity.file_bytes / mib,
           facts->identity.formats);
    printf("under policy %s\n", model_policy_name(facts->policy));
    printf("  INT8          %.1f %% of the blocks' multiply-adds\n", facts->int8_share_percent);
    printf("  weights       %.1f MiB: blocks %.1f, embedding %.1f, head %.1f, norms %.1f, rotary "
           "tables %.1f\n",
           (double)plan->total_bytes / mib, (double)plan->block_weight_bytes / mib,
           (double)plan->embedding_bytes / mib, (double)plan->head_bytes / mib,
           (double)plan->norm_bytes / mib, (double)plan->rope_bytes / mib);
    printf("  keys, values  %.1f KiB a token\n", (double)plan->page_bytes / KV_PAGE_TOKENS / 1024);
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

static int command_model_print_json(const struct command_model_facts *facts) {
    const struct model_plan *plan = &facts->plan;
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
    command_model_uint(&writer, "block_weight_bytes", plan->block_weight_bytes);
    command_model_uint(&writer, "embedding_bytes", plan->embedding_bytes);
    command_model_uint(&writer, "head_bytes", plan->head_bytes);
    command_model_uint(&writer, "norm_bytes", plan->norm_bytes);
    command_model_uint(&writer, "rope_bytes", plan->rope_bytes);
    command_model_uint(&writer, "total_bytes", plan->total_bytes);
    command_model_uint(&writer, "page_bytes", plan->page_bytes);
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

static enum model_status command_model_read(const char *path, struct command_model_facts *facts,
                                            char *err, size_t err_bytes) {
    struct model_options options = {.path = path, .policy = facts->policy};
    struct device_options device_options = {.spec = "cpu", .threads = 1};
    struct device *device;
    if (device_open(&device_options, &device, err, err_bytes) != KERNELS_OK) {
        return MODEL_FAILED;
    }
    enum model_status status =
        model_describe(&options, device_ops(device), &facts->config, &facts->plan, err, err_bytes);
    device_close(device);
    if (status == MODEL_OK) {
        status = model_identify(path, &facts->identity, err, err_bytes);
    }
    return status;
}

static int command_model_show(const struct config *config) {
    char err[1024] = "";
    struct command_model_facts facts = {.policy = MODEL_POLICY_INT8};
    const char *path = command_model_path(config);
    if (path == NULL) {
        return command_fail("model", COMMAND_EXIT_USAGE, "which file? 'solfleet model FILE'");
    }
    if (!model_policy_parse(config->policy, &facts.policy)) {
        return command_fail("model", COMMAND_EXIT_USAGE, "unknown policy '%s'", config->policy);
    }
    enum model_status status = command_model_read(path, &facts, err, sizeof err);
    if (status != MODEL_OK) {
        return command_fail("model", (enum command_exit)command_model_exit(status), "%s", err);
    }
    facts.int8_share_percent = model_policy_int8_share_percent(facts.policy, &facts.config);
    if (config->json) {
        return command_model_print_json(&facts);
    }
    command_model_print_text(&facts);
    return COMMAND_EXIT_OK;
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
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        code = command_model_show(&config);
    }
    config_deinit(&config);
    return code;
}

const struct command command_model_entry = {"model", "check a model file and tell what is in it",
                                            command_model_run};
