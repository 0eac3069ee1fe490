#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/command.h"
#include "consumer/command_model.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "engine/compare.h"
#include "schemas/json_writer.h"

struct command_compare_options {
    const char *policy_a, *policy_b, *text;
};

#define AT(field) offsetof(struct command_compare_options, field)
#define POLICIES "f32|f16|int8|balanced|latency|fast"
static const struct config_option command_compare_table[] = {
    {"policy_a", CONFIG_CHOICE, "f32", 0, 0, POLICIES, 0, AT(policy_a),
     "the measure; the first --policy is this one"},
    {"policy_b", CONFIG_CHOICE, "int8", 0, 0, POLICIES, 0, AT(policy_b),
     "what is measured; the second --policy is this one"},
    {"text", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(text), "file with the text to predict (UTF-8)"},
};
#undef AT

static const char command_compare_help[] =
    "Tells what a policy costs: both predict the same text, token by token, and their perplexities\n"
    "are compared.\n"
    "\n"
    "  solfleet compare MODEL.gguf --policy f32 --policy int8 --text TEXT.txt\n"
    "\n"
    "The text is cut into windows of max_model_len tokens; every token but a window's first is\n"
    "scored. With --json the last line is an object.\n"
    "\n"
    "Exit code: 0 compared; 2 wrong options or text; 6 no usable device; 7 the file is bad.";

/* ---------------------------------------------------------------- options */

/* The policies are given as `--policy A --policy B`: renames the first two, so that they are two
 * options. The returned array is the caller's to free, its strings are not. */
static char **command_compare_rename(int argc, char **argv, char renamed[2][64]) {
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int policies = 0;
    for (int i = 0; words != NULL && i < argc; i++) {
        static const char flag[] = "--policy";
        const char *rest = argv[i] + strlen(flag);
        words[i] = argv[i];
        if (policies < 2 && strncmp(argv[i], flag, strlen(flag)) == 0 &&
            (*rest == '\0' || *rest == '=')) {
            snprintf(renamed[policies], sizeof renamed[policies], "%s-%c%s", flag, 'a' + policies,
                     rest);
            words[i] = renamed[policies++];
        }
    }
    return words;
}

/* The whole file, NUL-terminated, owned by the caller; NULL with the reason in err. */
static char *command_compare_read(const char *path, size_t *bytes, char *err, size_t err_bytes) {
    FILE *file = fopen(path, "rb");
    char *text = file != NULL ? malloc(COMPARE_TEXT_BYTES_MAX + 1) : NULL;
    if (text == NULL) {
        snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
    } else {
        *bytes = fread(text, 1, COMPARE_TEXT_BYTES_MAX + 1, file);
        if (ferror(file) || *bytes > COMPARE_TEXT_BYTES_MAX) {
            snprintf(err, err_bytes, "%s: %s", path,
                     ferror(file) ? "cannot be read" : "more than 16 MiB");
            free(text);
            text = NULL;
        } else {
            text[*bytes] = '\0';
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

/* ---------------------------------------------------------------- printing */

static void command_compare_double(struct json_writer *writer, const char *key, double value) {
    json_writer_key(writer, key);
    json_writer_double(writer, value);
}

static int command_compare_print_json(const struct compare_options *options,
                                      const struct compare_report *report) {
    struct json_writer writer;
    json_writer_init(&writer, 512);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "policy_a");
    json_writer_string(&writer, model_policy_name(options->policies[0]));
    json_writer_key(&writer, "policy_b");
    json_writer_string(&writer, model_policy_name(options->policies[1]));
    command_compare_double(&writer, "perplexity_a", report->perplexity[0]);
    command_compare_double(&writer, "perplexity_b", report->perplexity[1]);
    command_compare_double(&writer, "perplexity_loss_percent", report->perplexity_loss_percent);
    command_compare_double(&writer, "int8_share_percent", report->int8_share_percent[1]);
    command_compare_double(&writer, "int8_share_percent_a", report->int8_share_percent[0]);
    command_compare_double(&writer, "same_choice_percent", report->same_choice_percent);
    command_compare_double(&writer, "max_abs_logit_difference", report->logit_difference_max);
    command_compare_double(&writer, "rms_logit_difference", report->logit_difference_rms);
    json_writer_key(&writer, "tokens");
    json_writer_uint(&writer, report->tokens);
    json_writer_key(&writer, "windows");
    json_writer_uint(&writer, report->windows);
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    if (text == NULL) {
        return command_fail("compare", COMMAND_EXIT_BUG, "out of memory");
    }
    puts(text);
    free(text);
    return COMMAND_EXIT_OK;
}

static int command_compare_print(const struct config *config, const struct compare_options *options,
                                 const struct compare_report *report) {
    if (config->json) {
        return command_compare_print_json(options, report);
    }
    printf("%llu tokens in %u windows\n", (unsigned long long)report->tokens, report->windows);
    for (unsigned side = 0; side < 2; side++) {
        printf("%-9s perplexity %.4f, INT8 in %.1f %% of the blocks' multiply-adds\n",
               model_policy_name(options->policies[side]), report->perplexity[side],
               report->int8_share_percent[side]);
    }
    printf("loss      %+.2f %%\n", report->perplexity_loss_percent);
    printf("choices   %.2f %% the same; logits differ by %.4f at most, %.4f rms\n",
           report->same_choice_percent, report->logit_difference_max, report->logit_difference_rms);
    return COMMAND_EXIT_OK;
}

static void command_compare_progress(void *context, double done) {
    (void)context;
    fprintf(stderr, "\r%3.0f %%", 100 * done);
    if (done > 0.9999) {
        fputs("\r     \r", stderr);
    }
}

/* ---------------------------------------------------------------- running */

static int command_compare_measure(const struct config *config, struct compare_options *options) {
    char err[1024] = "";
    const struct device_options device_options = {.spec = config->device,
                                                  .tier = engine_config_tier(config->cpu_tier),
                                                  .threads = (uint32_t)config->threads,
                                                  .cublaslt = config->cublaslt};
    struct device *device;
    struct compare_report report;
    if (device_open(&device_options, &device, err, sizeof err) != KERNELS_OK) {
        return command_fail("compare", COMMAND_EXIT_NO_DEVICE, "%s", err);
    }
    device_enter_thread(device);
    options->progress = isatty(STDERR_FILENO) ? command_compare_progress : NULL;
    enum model_status status = compare_run(options, device, &report, err, sizeof err);
    device_close(device);
    if (status != MODEL_OK) {
        return command_fail("compare", (enum command_exit)command_model_exit(status), "%s", err);
    }
    return command_compare_print(config, options, &report);
}

static int command_compare_start(const struct config *config,
                                 const struct command_compare_options *own) {
    char err[1024] = "";
    struct compare_options options = {.path = command_model_path(config),
                                      .max_model_len = (uint32_t)config->max_model_len};
    if (options.path == NULL) {
        return command_fail("compare", COMMAND_EXIT_USAGE,
                            "which model? 'solfleet compare FILE --policy A --policy B --text F'");
    }
    if (own->text == NULL) {
        return command_fail("compare", COMMAND_EXIT_USAGE, "--text FILE is needed");
    }
    if (!model_policy_parse(own->policy_a, &options.policies[0]) ||
        !model_policy_parse(own->policy_b, &options.policies[1])) {
        return command_fail("compare", COMMAND_EXIT_USAGE, "unknown policy");
    }
    char *text = command_compare_read(own->text, &options.text_bytes, err, sizeof err);
    if (text == NULL) {
        return command_fail("compare", COMMAND_EXIT_USAGE, "%s", err);
    }
    options.text = text;
    int code = command_compare_measure(config, &options);
    free(text);
    return code;
}

static int command_compare_run(int argc, char **argv) {
    struct command_compare_options options = {0};
    char renamed[2][64];
    const struct config_spec spec = {
        .name = "compare",
        .command = CONFIG_COMPARE,
        .usage = "[FILE] --policy A --policy B --text FILE",
        .summary = command_compare_help,
        .own = command_compare_table,
        .own_count = sizeof command_compare_table / sizeof command_compare_table[0],
        .own_values = &options,
        .arguments_max = 1,
    };
    char **words = command_compare_rename(argc, argv, renamed);
    if (words == NULL) {
        return command_fail("compare", COMMAND_EXIT_BUG, "out of memory");
    }
    struct config config;
    int code;
    if (config_start(&config, &spec, argc, words, &code) == 0) {
        code = command_compare_start(&config, &options);
    }
    config_deinit(&config);
    free(words);
    return code;
}

const struct command command_compare_entry = {"compare", "tell what a policy costs in perplexity",
                                              command_compare_run};
