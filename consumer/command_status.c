#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/progress_view.h"
#include "consumer/status_client.h"
#include "consumer/watch.h"

struct command_status_options {
    int64_t connect_timeout_ms;
};

static const struct config_option command_status_table[] = {
    {"connect_timeout_ms", CONFIG_INT, "5000", 1, 1e9, NULL, 0,
     offsetof(struct command_status_options, connect_timeout_ms), "how long Redis may be silent"},
};

static const char command_status_help[] =
    "Prints what Redis knows about jobs: one line each, or with --json one object each.\n"
    "\n"
    "  solfleet status two-sum-3f9a2c41d0b7\n"
    "  solfleet status --json two-sum-3f9a2c41d0b7\n"
    "\n"
    "Exit code: 0 known, whatever the state; 3 one is unknown; 4 Redis is unreachable.";

static int command_status_print(const struct config *config, struct status *statuses) {
    int code = COMMAND_EXIT_OK;
    for (size_t i = 0; i < config->argument_count; i++) {
        struct watch_entry entry = {.status = statuses[i]};
        entry.ended = status_state_is_terminal(statuses[i].state);
        char *text = config->json ? status_encode(&statuses[i]) : NULL;
        if (text) {
            puts(text);
        } else {
            progress_view_print_entry(stdout, &entry);
        }
        free(text);
        if (statuses[i].state == STATUS_UNKNOWN) {
            code = COMMAND_EXIT_UNKNOWN_ID;
        }
    }
    return code;
}

static int command_status_show(const struct config *config, void *own) {
    const struct command_status_options *options = own;
    for (size_t i = 0; i < config->argument_count; i++) {
        if (!job_request_id_is_valid(config->arguments[i], strlen(config->arguments[i]))) {
            return command_fail("status", COMMAND_EXIT_USAGE,
                                "'%.160s' is no request id (1 to 128 of A-Z a-z 0-9 . _ : -)",
                                config->arguments[i]);
        }
    }
    struct status_client *client = NULL;
    struct status *statuses = calloc(config->argument_count + 1, sizeof *statuses);
    char err[512] = "out of memory";
    enum status_client_status got = STATUS_CLIENT_REFUSED;
    if (statuses) {
        got = status_client_open(config->redis, config->key_prefix, options->connect_timeout_ms,
                                 &client, err, sizeof err);
    }
    if (got == STATUS_CLIENT_OK) {
        got = status_client_read(client, (const char *const *)config->arguments,
                                 config->argument_count, statuses, err, sizeof err);
    }
    int code;
    if (got == STATUS_CLIENT_OK) {
        code = command_status_print(config, statuses);
        for (size_t i = 0; i < config->argument_count; i++) {
            status_deinit(&statuses[i]);
        }
    } else {
        code = got == STATUS_CLIENT_BAD_SETTING ? COMMAND_EXIT_USAGE : COMMAND_EXIT_UNREACHABLE;
        if (got == STATUS_CLIENT_UNREACHABLE) {
            command_fail_redis("status", err);
        } else {
            command_fail("status", (enum command_exit)code, "%s; see --redis", err);
        }
    }
    free(statuses);
    status_client_close(client);
    return code;
}

static int command_status_run(int argc, char **argv) {
    struct command_status_options options = {0};
    const struct config_spec spec = {
        .name = "status",
        .command = CONFIG_STATUS,
        .usage = "ID...",
        .summary = command_status_help,
        .own = command_status_table,
        .own_count = 1,
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 4096,
    };
    return command_run(&spec, argc, argv, command_status_show);
}

const struct command command_status_entry = {"status", "print what is known about jobs",
                                             command_status_run};
