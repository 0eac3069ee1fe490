#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "consumer/command.h"
#include "consumer/command_model.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "engine/model_policy.h"
#include "engine/verify.h"
#include "schemas/json_writer.h"

enum { SIDES = 2 };

struct command_verify_options {
    const char *against;
    int64_t tokens;
};

#define AT(field) offsetof(struct command_verify_options, field)
static const struct config_option command_verify_table[] = {
    {"against", CONFIG_CHOICE, "reference", 0, 0, "auto|reference|avx2|avx512", 0, AT(against),
     "kernels on the CPU that the device is held to"},
    {"tokens", CONFIG_INT, "288", 1, VERIFY_TOKENS_MAX, NULL, 0, AT(tokens),
     "tokens that both compute; an attention block has 256"},
};
#undef AT

static const char command_verify_help[] =
    "Computes the same tokens of a model on a device and on the CPU, and compares every result of\n"
    "every operation bit by bit: whether the two may bear the same `numerics`. Names the first\n"
    "operation that differs.\n"
    "\n"
    "  solfleet verify --model models/SmolLM2-135M-Instruct.Q4_1.gguf --device cuda:0\n"
    "\n"
    "With --json the last line is an object.\n"
    "\n"
    "Exit code: 0 equal; 1 a result differs; 2 wrong options; 6 no usable device, or it failed;\n"
    "7 the file is bad.";

/* A statement, code, and two languages: rows unlike each other. */
static const char command_verify_text[] =
    "Given an array of integers nums and an integer target, return the indices of the two numbers "
    "that add up to target. Each input has exactly one solution, and no element is used twice.\n\n"
    "给定一个整数数组 nums 和一个整数目标值 target,请你在该数组中找出和为目标值的那两个整数,并返回"
    "它们的数组下标。你可以按任意顺序返回答案。\n\n"
    "## Approach\n\nKeep the index of every value seen so far in a hash table; for each number look "
    "up what is missing to the target. One pass: O(n) time, O(n) space.\n\n```python\n"
    "def two_sum(nums: list[int], target: int) -> list[int]:\n    seen = {}\n"
    "    for i, value in enumerate(nums):\n        if target - value in seen:\n"
    "            return [seen[target - value], i]\n        seen[value] = i\n    return []\n```\n";

/* ---------------------------------------------------------------- printing */

static void command_verify_word(struct json_writer *writer, const char *key, const char *value) {
    json_writer_key(writer, key);
    json_writer_string(writer, value);
}

static void command_verify_count(struct json_writer *writer, const char *key, uint64_t value) {
    json_writer_key(writer, key);
    json_writer_uint(writer, value);
}

static int command_verify_print_json(const struct verify_options *options,
                                     const struct device_info infos[SIDES],
                                     const struct verify_report *report) {
    struct json_writer writer;
    json_writer_init(&writer, 512);
    json_writer_begin_object(&writer);
    command_verify_word(&writer, "device", infos[0].name);
    command_verify_word(&writer, "tier", infos[0].tier);
    command_verify_word(&writer, "numerics", infos[0].numerics);
    command_verify_word(&writer, "against_device", infos[1].name);
    command_verify_word(&writer, "against_tier", infos[1].tier);
    command_verify_word(&writer, "against_numerics", infos[1].numerics);
    command_verify_word(&writer, "policy", model_policy_name(options->policy));
    command_verify_count(&writer, "tokens", report->tokens);
    command_verify_count(&writer, "operations", report->ops);
    command_verify_count(&writer, "bytes", report->bytes);
    json_writer_key(&writer, "equal");
    json_writer_bool(&writer, report->is_equal);
    if (!report->is_equal) {
        command_verify_word(&writer, "operation", report->op);
        command_verify_count(&writer, "call", report->call);
        command_verify_count(&writer, "position", report->position);
        command_verify_count(&writer, "rows", report->rows);
    }
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    if (text == NULL) {
        return command_fail("verify", COMMAND_EXIT_BUG, "out of memory");
    }
    puts(text);
    free(text);
    return COMMAND_EXIT_OK;
}

static int command_verify_print(const struct config *config, const struct verify_options *options,
                                const struct device_info infos[SIDES],
                                const struct verify_report *report) {
    if (config->json) {
        int code = command_verify_print_json(options, infos, report);
        if (code != COMMAND_EXIT_OK) {
            return code;
        }
    } else {
        printf("%s (%s, %s) against %s (%s, %s), policy %s\n", infos[0].name, infos[0].tier,
               infos[0].numerics, infos[1].name, infos[1].tier, infos[1].numerics,
               model_policy_name(options->policy));
        printf("%" PRIu64 " tokens, %" PRIu64 " operations, %.1f MB of results: %s\n",
               report->tokens, report->ops, (double)report->bytes / 1e6,
               report->is_equal ? "equal bit by bit" : "DIFFERENT");
    }
    if (!report->is_equal && !config->json) {
        printf("first in %s, call %u of these, in the pass of %u row%s from position %u\n",
               report->op, report->call, report->rows, report->rows == 1 ? "" : "s",
               report->position);
    }
    return report->is_equal ? COMMAND_EXIT_OK : COMMAND_EXIT_JOB_NOT_DONE;
}

/* ---------------------------------------------------------------- running */

static int command_verify_compute(const struct config *config, const struct verify_options *options,
                                  struct device *const devices[SIDES]) {
    char err[1024] = "";
    struct verify_report report;
    struct device_info infos[SIDES];
    for (unsigned i = 0; i < SIDES; i++) {
        device_enter_thread(devices[i]);
        device_describe(devices[i], &infos[i]);
    }
    enum model_status status = verify_run(options, devices, &report, err, sizeof err);
    if (status != MODEL_OK) {
        return command_fail("verify", (enum command_exit)command_model_exit(status), "%s", err);
    }
    return command_verify_print(config, options, infos, &report);
}

static int command_verify_work(const struct config *config, void *own) {
    const struct command_verify_options *given = own;
    char err[1024] = "";
    const struct device_options sides[SIDES] = {{.spec = config->device,
                                                 .tier = engine_config_tier(config->cpu_tier),
                                                 .threads = (uint32_t)config->threads,
                                                 .cublaslt = config->cublaslt},
                                                {.spec = "cpu",
                                                 .tier = engine_config_tier(given->against),
                                                 .threads = (uint32_t)config->threads}};
    struct device *devices[SIDES] = {NULL};
    struct verify_options options = {.path = command_model_path(config),
                                     .text = command_verify_text,
                                     .tokens = (uint32_t)given->tokens};
    if (options.path == NULL) {
        return command_fail("verify", COMMAND_EXIT_USAGE, "which model? 'solfleet verify FILE'");
    }
    if (!model_policy_parse(config->policy, &options.policy)) {
        return command_fail("verify", COMMAND_EXIT_USAGE, "unknown policy %s", config->policy);
    }
    int code = COMMAND_EXIT_OK;
    for (unsigned i = 0; i < SIDES && code == COMMAND_EXIT_OK; i++) {
        if (device_open(&sides[i], &devices[i], err, sizeof err) != KERNELS_OK) {
            code = command_fail("verify", COMMAND_EXIT_NO_DEVICE, "%s", err);
        }
    }
    if (code == COMMAND_EXIT_OK) {
        code = command_verify_compute(config, &options, devices);
    }
    for (unsigned i = 0; i < SIDES; i++) {
        device_close(devices[i]);
    }
    return code;
}

static int command_verify_run(int argc, char **argv) {
    struct command_verify_options options = {0};
    const struct config_spec spec = {
        .name = "verify",
        .command = CONFIG_VERIFY,
        .usage = "[FILE]",
        .summary = command_verify_help,
        .own = command_verify_table,
        .own_count = sizeof command_verify_table / sizeof command_verify_table[0],
        .own_values = &options,
        .arguments_max = 1,
    };
    return command_run(&spec, argc, argv, command_verify_work);
}

const struct command command_verify_entry = {
    "verify", "hold a device's arithmetic to the CPU's, bit by bit", command_verify_run};
