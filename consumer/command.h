/* A subcommand of the one binary: a name, a line of help, and the function that runs it.
 *
 * A command lives in command_<name>.c, defines one `const struct command command_<name>_entry`, and
 * adds itself to the table in command.c when it lands. It reads its own options, `--help` and
 * `--json` through consumer/config.h. Constant data, main thread. Refuses to know what any command
 * does. */
#ifndef SOLFLEET_CONSUMER_COMMAND_H
#define SOLFLEET_CONSUMER_COMMAND_H

#include <stddef.h>
#include <stdio.h>

#include "consumer/kafka_client.h"

struct config;
struct config_spec;
struct interrupt;

/* The exit codes that scripts rely on. */
enum command_exit {
    COMMAND_EXIT_OK = 0,
    COMMAND_EXIT_JOB_NOT_DONE = 1, /* a job ended failed, expired or cancelled */
    COMMAND_EXIT_USAGE = 2,        /* usage or configuration */
    COMMAND_EXIT_UNKNOWN_ID = 3,
    COMMAND_EXIT_UNREACHABLE = 4, /* broker or Redis */
    COMMAND_EXIT_TIMED_OUT = 5,   /* wait */
    COMMAND_EXIT_NO_DEVICE = 6,   /* or the model does not fit */
    COMMAND_EXIT_BAD_MODEL = 7,
    COMMAND_EXIT_BUG = 70,
    COMMAND_EXIT_REDELIVERED = 75, /* worker: jobs not settled will be delivered again */
    COMMAND_EXIT_INTERRUPTED = 130
};

struct command {
    const char *name;
    const char *summary; /* for the list of commands: one line, no full stop */
    /* argv[0] is the command's name. Returns a command_exit; what went wrong has been said. */
    int (*run)(int argc, char **argv);
};

/* The table, in the order of the help. NULL when there is no such command or index. */
const struct command *command_find(const char *name);
const struct command *command_at(size_t index);

/* Finds and runs the command of argv[1]; the whole of main but its set-up. */
int command_main(int argc, char **argv);

/* Reads the configuration that `spec` describes and does the command's work with it and the options
 * of its own; its exit code, or that of a wrong or a `--help` command line. */
int command_run(const struct config_spec *spec, int argc, char **argv,
                int (*work)(const struct config *config, void *own));
/* The same; SIGINT and SIGTERM then come through the descriptor only. */
int command_run_interruptible(const struct config_spec *spec, int argc, char **argv,
                              int (*work)(const struct config *config, void *own,
                                          struct interrupt *interrupt));

/* Says "solfleet NAME: <message>" on stderr and returns `code`. The message tells what happened and
 * what to do next. */
int command_fail(const char *name, enum command_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails because Kafka, or Redis, is away: what was said of it, and what to do next. */
int command_fail_kafka(const char *name, const char *said);
int command_fail_redis(const char *name, const char *said);
/* Fails as the outcome of a call to Kafka that was not OK demands. */
int command_fail_client(const char *name, enum kafka_client_status status, const char *said);

#endif
