#include <stdlib.h>
#include <string.h>

#include "consumer/await.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "schemas/job.h"

struct command_wait_options {
    bool show, code, live;
    int64_t timeout_ms, grace_ms, connect_timeout_ms;
};

#define AT(field) offsetof(struct command_wait_options, field)
static const struct config_option command_wait_table[] = {
    {"show", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(show), "print each answer, by sections"},
    {"code", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(code), "print only the code of each answer"},
    {"live", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(live), "show progress while waiting"},
    {"timeout_ms", CONFIG_INT, "0", 0, 1e12, NULL, 0, AT(timeout_ms),
     "longest wait; 0: as long as it takes"},
    {"grace_ms", CONFIG_INT, "3000", 0, 1e9, NULL, 0, AT(grace_ms),
     "how long an id may be unknown before it is given up"},
    {"connect_timeout_ms", CONFIG_INT, "5000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long Redis or the broker may be away"},
};
#undef AT

static const char command_wait_help[] =
    "Waits until every job has ended, and prints a line for each as it ends. With --show or\n"
    "--code the answers themselves are printed in the end, in the order of the ids.\n"
    "\n"
    "  solfleet wait two-sum-3f9a2c41d0b7 --show\n"
    "  solfleet submit problems.jsonl | xargs solfleet wait --live\n"
    "\n"
    "Exit code: 0 all done; 1 one ended failed, expired or cancelled; 3 one is unknown;\n"
    "4 Redis is unreachable; 5 the time-out came first (the jobs go on).";

static int command_wait_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* True when a word is no id or stands twice (said). */
static bool command_wait_has_bad_id(const struct config *config) {
    size_t count = config->argument_count;
    const char **sorted = calloc(count + 1, sizeof *sorted);
    bool bad = sorted == NULL;
    for (size_t i = 0; !bad && i < count; i++) {
        sorted[i] = config->arguments[i];
        bad = !job_request_id_is_valid(sorted[i], strlen(sorted[i]));
        if (bad) {
            command_fail("wait", COMMAND_EXIT_USAGE,
                         "'%.160s' is no request id (1 to 128 of A-Z a-z 0-9 . _ : -)", sorted[i]);
        }
    }
    if (!bad) {
        qsort(sorted, count, sizeof *sorted, command_wait_compare);
    }
    for (size_t i = 1; !bad && i < count; i++) {
        bad = strcmp(sorted[i - 1], sorted[i]) == 0;
        if (bad) {
            command_fail("wait", COMMAND_EXIT_USAGE, "%s stands twice", sorted[i]);
        }
    }
    free(sorted);
    return bad;
}

static int command_wait_for(const struct config *config, void *own, struct interrupt *interrupt) {
    const struct command_wait_options *options = own;
    if (options->show && options->code) {
        return command_fail("wait", COMMAND_EXIT_USAGE, "choose one of --show and --code");
    }
    if (command_wait_has_bad_id(config)) {
        return COMMAND_EXIT_USAGE;
    }
    struct await_options await = {
        .command = "wait",
        .ids = (const char *const *)config->arguments,
        .count = config->argument_count,
        .print = options->code   ? AWAIT_PRINT_CODE
                 : options->show ? AWAIT_PRINT_TEXT
                                 : AWAIT_PRINT_LINE,
        .live = options->live,
        .timeout_ms = options->timeout_ms,
        .grace_ms = options->grace_ms,
        .connect_timeout_ms = options->connect_timeout_ms,
        .interrupt = interrupt,
    };
    return await_jobs(config, &await);
}

static int command_wait_run(int argc, char **argv) {
    struct command_wait_options options = {0};
    const struct config_spec spec = {
        .name = "wait",
        .command = CONFIG_WAIT,
        .usage = "ID...",
        .summary = command_wait_help,
        .own = command_wait_table,
        .own_count = sizeof command_wait_table / sizeof command_wait_table[0],
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 4096,
    };
    return command_run_interruptible(&spec, argc, argv, command_wait_for);
}

const struct command command_wait_entry = {"wait", "wait until jobs have ended, and print answers",
                                           command_wait_run};
