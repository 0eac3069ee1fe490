#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/status_client.h"

struct command_cancel_options {
    int64_t connect_timeout_ms;
};

static const struct config_option command_cancel_table[] = {
    {"connect_timeout_ms", CONFIG_INT, "5000", 1, 1e9, NULL, 0,
     offsetof(struct command_cancel_options, connect_timeout_ms), "how long Redis may be silent"},
};

static const char command_cancel_help[] =
    "Asks the workers to end jobs early. The worker that has a job, or gets it, ends it within a\n"
    "step and publishes its result with status `cancelled` and the text so far. A job that has\n"
    "ended stays as it is. Asking twice changes nothing.\n"
    "\n"
    "  solfleet cancel two-sum-3f9a2c41d0b7\n"
    "  solfleet cancel ID && solfleet wait ID\n"
    "\n"
    "Exit code: 0 asked for, or ended already; 3 one is unknown so far (it is cancelled if it\n"
    "comes yet); 4 Redis is unreachable.";

/* What it means for a job that the wish has met in a state. */
static const char *command_cancel_say(enum status_state state) {
    if (state == STATUS_UNKNOWN) {
        return "unknown so far: cancelled if it comes";
    }
    return status_state_is_terminal(state) ? "has ended before" : "asked for";
}

static int command_cancel_print(const struct config *config, const enum status_state *states) {
    int code = COMMAND_EXIT_OK;
    for (size_t i = 0; i < config->argument_count; i++) {
        bool ended = status_state_is_terminal(states[i]);
        if (config->json) {
            printf("{\"request_id\":\"%s\",\"state\":\"%s\",\"cancel_requested\":%s}\n",
                   config->arguments[i], status_state_name(states[i]), ended ? "false" : "true");
        } else {
            printf("%s  %s  %s\n", config->arguments[i], status_state_name(states[i]),
                   command_cancel_say(states[i]));
        }
        code = states[i] == STATUS_UNKNOWN ? COMMAND_EXIT_UNKNOWN_ID : code;
    }
    return code;
}

static int command_cancel_fail(enum status_client_status got, const char *err) {
    if (got == STATUS_CLIENT_UNREACHABLE) {
        return command_fail_redis("cancel", err);
    }
    return command_fail(
        "cancel", got == STATUS_CLIENT_BAD_SETTING ? COMMAND_EXIT_USAGE : COMMAND_EXIT_UNREACHABLE,
        "%s; see --redis", err);
}

static int command_cancel_ask(const struct config *config, void *own) {
    const struct command_cancel_options *options = own;
    for (size_t i = 0; i < config->argument_count; i++) {
        if (!job_request_id_is_valid(config->arguments[i], strlen(config->arguments[i]))) {
            return command_fail("cancel", COMMAND_EXIT_USAGE,
                                "'%.160s' is no request id (1 to 128 of A-Z a-z 0-9 . _ : -)",
                                config->arguments[i]);
        }
    }
    struct status_client *client = NULL;
    enum status_state *states = calloc(config->argument_count + 1, sizeof *states);
    char err[512] = "out of memory";
    enum status_client_status got = STATUS_CLIENT_REFUSED;
    if (states != NULL) {
        got = status_client_open(config->redis, config->key_prefix, options->connect_timeout_ms,
                                 &client, err, sizeof err);
    }
    if (got == STATUS_CLIENT_OK) {
        got = status_client_cancel(client, (const char *const *)config->arguments,
                                   config->argument_count, config->status_ttl_s, states, err,
                                   sizeof err);
    }
    int code = got == STATUS_CLIENT_OK ? command_cancel_print(config, states)
                                       : command_cancel_fail(got, err);
    free(states);
    status_client_close(client);
    return code;
}

static int command_cancel_run(int argc, char **argv) {
    struct command_cancel_options options = {0};
    const struct config_spec spec = {
        .name = "cancel",
        .command = CONFIG_STATUS,
        .usage = "ID...",
        .summary = command_cancel_help,
        .own = command_cancel_table,
        .own_count = 1,
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 4096,
    };
    return command_run(&spec, argc, argv, command_cancel_ask);
}

const struct command command_cancel_entry = {"cancel", "ask for jobs to be ended early",
                                             command_cancel_run};
