#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "consumer/bench_arrivals.h"
#include "consumer/bench_engine.h"
#include "consumer/bench_engine_profile.h"
#include "consumer/command.h"
#include "consumer/command_bench.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "schemas/json_writer.h"

#define COMMAND_BENCH_ENGINE_BATCHES_MAX 32

struct command_bench_engine_options {
    const char *batch;
    int64_t prompt_tokens, completion_tokens, prefill_chunk_tokens, repetitions;
    bool profile;
};

#define AT(field) offsetof(struct command_bench_engine_options, field)
static const struct config_option command_bench_engine_table[] = {
    {"batch", CONFIG_LIST, "1,8,32", 0, 0, NULL, 0, AT(batch), "numbers of sequences at a time"},
    {"prompt_tokens", CONFIG_INT, "128", 1, BENCH_ARRIVALS_PROMPT_TOKENS_MAX, NULL, 0,
     AT(prompt_tokens), "tokens of each prompt"},
    {"completion_tokens", CONFIG_INT, "128", 1, BENCH_ARRIVALS_PROMPT_TOKENS_MAX, NULL, 0,
     AT(completion_tokens), "tokens of each answer after the first"},
    {"prefill_chunk_tokens", CONFIG_INT, "256", 1, 65536, NULL, 0, AT(prefill_chunk_tokens),
     "prompt tokens computed in a step"},
    {"repetitions", CONFIG_INT, "3", 1, BENCH_ENGINE_REPETITIONS_MAX, NULL, 0, AT(repetitions),
     "times that each is measured, after a warm-up"},
    {"profile", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(profile),
     "one repetition more, for where a step's time goes, operation by operation"},
};
#undef AT

static const char command_bench_engine_help[] =
    "Measures a model alone: its prompts computed in chunks, then its answers, greedily, a token\n"
    "of every sequence a step. Tokens a second are of all sequences together (as\n"
    "llama-batched-bench counts), the median of the repetitions; step_ms_p50 is of answering\n"
    "steps, first_token_ms_p50 counts from the start of all prompts. peak_bytes is the most memory\n"
    "the process had resident, loading included: each batch size runs in a process of its own.\n"
    "foreign_share is the part of the machine's processor time that others took: repeat where it\n"
    "is not small.\n"
    "\n"
    "  solfleet bench engine --model models/SmolLM2-135M-Instruct.Q4_1.gguf --batch 1,8,32";

/* ---- printing -------------------------------------------------------------------------------- */

static void command_bench_engine_print_head(void) {
    printf("%5s %-9s %-9s %7s  %12s %12s %17s %14s %9s %10s %8s\n", "batch", "precision", "tier",
           "threads", "prefill tok/s", "decode tok/s", "(min..max)", "first token ms", "step ms",
           "peak MiB", "foreign");
}

static void command_bench_engine_print_row(const struct bench_engine_options *options,
                                           const struct bench_engine_report *report) {
    char range[32];
    snprintf(range, sizeof range, "(%.1f..%.1f)", report->decode_tokens_per_s_min,
             report->decode_tokens_per_s_max);
    printf("%5u %-9s %-9s %7u  %13.1f %12.1f %17s %14.1f %9.2f %10.1f %7.1f%%\n", options->batch,
           model_policy_name(options->policy), report->device.tier, report->device.threads,
           report->prefill_tokens_per_s, report->decode_tokens_per_s, range,
           report->first_token_ms_p50, report->step_ms_p50, (double)report->peak_bytes / (1 << 20),
           report->foreign_share * 100);
    if (options->profile) {
        bench_engine_profile_print("prefill", &report->prefill_profile);
        bench_engine_profile_print("decode", &report->decode_profile);
    }
}

static bool command_bench_engine_print_json(const struct bench_engine_options *options,
                                            const struct bench_engine_report *report) {
    const struct {
        const char *key;
        double value;
    } figures[] = {{"prefill_tokens_per_s", report->prefill_tokens_per_s},
                   {"decode_tokens_per_s", report->decode_tokens_per_s},
                   {"decode_tokens_per_s_min", report->decode_tokens_per_s_min},
                   {"decode_tokens_per_s_max", report->decode_tokens_per_s_max},
                   {"first_token_ms_p50", report->first_token_ms_p50},
                   {"step_ms_p50", report->step_ms_p50},
                   {"peak_bytes", (double)report->peak_bytes},
                   {"prompt_tokens", options->prompt_tokens},
                   {"completion_tokens", options->completion_tokens},
                   {"repetitions", options->repetitions},
                   {"threads", report->device.threads},
                   {"foreign_share", report->foreign_share}};
    struct json_writer writer;
    json_writer_init(&writer, 512);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "batch");
    json_writer_uint(&writer, options->batch);
    json_writer_key(&writer, "precision");
    json_writer_string(&writer, model_policy_name(options->policy));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        json_writer_key(&writer, figures[i].key);
        json_writer_double(&writer, figures[i].value);
    }
    json_writer_key(&writer, "tier");
    json_writer_string(&writer, report->device.tier);
    json_writer_key(&writer, "device");
    json_writer_string(&writer, report->device.name);
    if (options->profile) {
        json_writer_key(&writer, "prefill_profile");
        bench_engine_profile_write(&writer, &report->prefill_profile);
        json_writer_key(&writer, "decode_profile");
        bench_engine_profile_write(&writer, &report->decode_profile);
    }
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    if (text) {
        puts(text);
    }
    free(text);
    return text != NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int command_bench_engine_measure(const struct bench_engine_options *options, bool json) {
    struct bench_engine_report report = {0};
    char err[512] = "";
    int code = bench_engine_measure(options, &report, err, sizeof err);
    if (code) {
        return command_fail("bench engine", (enum command_exit)code, "%s", err);
    }
    if (!json) {
        command_bench_engine_print_row(options, &report);
    } else if (!command_bench_engine_print_json(options, &report)) {
        return command_fail("bench engine", COMMAND_EXIT_BUG, "out of memory");
    }
    return fflush(stdout) == 0 ? COMMAND_EXIT_OK : COMMAND_EXIT_USAGE;
}

/* In a process of its own, so that peak memory is that of this batch size. No thread of ours or of
 * any library has been started yet: forking is safe. */
static int command_bench_engine_fork(const struct bench_engine_options *options, bool json) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        return command_fail("bench engine", COMMAND_EXIT_BUG, "cannot start a process");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(command_bench_engine_measure(options, json));
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return command_fail("bench engine", COMMAND_EXIT_BUG, "the measuring process died");
    }
    return WEXITSTATUS(status);
}

/* Reads "1,8,32"; the count, or 0 when it is no list of batch sizes. */
static size_t command_bench_engine_read_batches(const char *list, uint32_t *batches) {
    size_t count = 0;
    char copy[256];
    snprintf(copy, sizeof copy, "%s", list);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        struct bench_arrivals_range one;
        if (count == COMMAND_BENCH_ENGINE_BATCHES_MAX ||
            !bench_arrivals_parse_range(word, BENCH_ENGINE_BATCH_MAX, &one) || one.min != one.max) {
            return 0;
        }
        batches[count++] = one.min;
    }
    return count;
}

static int command_bench_engine_all(const struct config *config,
                                    const struct command_bench_engine_options *own) {
    uint32_t batches[COMMAND_BENCH_ENGINE_BATCHES_MAX];
    size_t count = command_bench_engine_read_batches(own->batch, batches);
    struct bench_engine_options options = {.model_path = config->model,
                                           .device = config->device,
                                           .cublaslt = config->cublaslt,
                                           .cpu_tier = engine_config_tier(config->cpu_tier),
                                           .threads = (uint32_t)config->threads,
                                           .prompt_tokens = (uint32_t)own->prompt_tokens,
                                           .completion_tokens = (uint32_t)own->completion_tokens,
                                           .prefill_chunk_tokens =
                                               (uint32_t)own->prefill_chunk_tokens,
                                           .repetitions = (uint32_t)own->repetitions,
                                           .graphs = config->graphs,
                                           .profile = own->profile};
    if (!config->model[0]) {
        return command_fail("bench engine", COMMAND_EXIT_USAGE,
                            "--model FILE is needed; 'make model' fetches a small one to models/");
    }
    if (count == 0) {
        return command_fail("bench engine", COMMAND_EXIT_USAGE,
                            "--batch %s: give up to %d numbers of 1..%d, as 1,8,32", own->batch,
                            COMMAND_BENCH_ENGINE_BATCHES_MAX, BENCH_ENGINE_BATCH_MAX);
    }
    if (!model_policy_parse(config->policy, &options.policy)) {
        return command_fail("bench engine", COMMAND_EXIT_USAGE, "unknown policy '%s'",
                            config->policy);
    }
    if (!config->json) {
        command_bench_engine_print_head();
    }
    int code = COMMAND_EXIT_OK;
    for (size_t i = 0; i < count && code == COMMAND_EXIT_OK; i++) {
        options.batch = batches[i];
        code = command_bench_engine_fork(&options, config->json);
    }
    return code;
}

int command_bench_engine_run(int argc, char **argv) {
    struct command_bench_engine_options options = {0};
    const struct config_spec spec = {
        .name = "bench engine",
        .command = CONFIG_GENERATE, /* a model on a device: no broker, no Redis */
        .usage = "--model FILE",
        .summary = command_bench_engine_help,
        .own = command_bench_engine_table,
        .own_count = sizeof command_bench_engine_table / sizeof command_bench_engine_table[0],
        .own_values = &options,
    };
    struct config config;
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        code = command_bench_engine_all(&config, &options);
    }
    config_deinit(&config);
    return code;
}
