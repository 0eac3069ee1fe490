/* A subcommand of the one binary: its name, its help, its options, and the function that runs it.
 *
 * A command lives in command_<name>.c, defines one `const struct command command_<name>_entry`, and
 * adds itself to the table in command.c when it lands. Nothing here keeps state: a command is
 * constant data, and what the user typed is a `struct command_line` that main owns and lends to
 * `run`. Main thread only. Refuses to know what any command does. */
#ifndef SOLFLEET_CONSUMER_COMMAND_H
#define SOLFLEET_CONSUMER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The exit codes scripts rely on. */
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

struct command_option {
    const char *name;  /* without the dashes */
    const char *value; /* what the help calls its value; NULL for a flag */
    const char *help;  /* one line, default included */
};

struct command_line;

struct command {
    const char *name;
    const char *arguments; /* of the usage line, e.g. "FILE...|-"; "" when there are none */
    const char *summary;   /* one line for the list of commands, no full stop */
    const char *details;   /* what it does, and at least one example; ends with a newline */
    const struct command_option *options; /* its own; --help and --json need not be named */
    size_t option_count;
    uint32_t positional_min, positional_max;
    bool takes_settings; /* also takes --config FILE and every option of consumer/config.h */
    /* Returns a command_exit. What went wrong has been said on stderr (command_fail). */
    int (*run)(const struct command_line *line);
};

/* An option as the user gave it. A flag's value is "". Strings are borrowed from argv. */
struct command_given {
    const char *name;
    const char *value;
};

#define COMMAND_WORDS_MAX 4096 /* positional words, and options, of one command line */

/* What the user typed after the command's name. */
struct command_line {
    const struct command *command;
    const char **positional; /* owned array of borrowed strings */
    size_t positional_count;
    struct command_given *options; /* owned array: the command's own */
    size_t option_count;
    struct command_given *settings; /* owned array: those of the configuration, in order */
    size_t setting_count;
    bool json; /* --json */
    bool help; /* --help */
};

/* The table, in the order of the help; NULL when there is no such command or index. */
const struct command *command_find(const char *name);
const struct command *command_at(size_t index);

/* Reads the words after the command's name. False when they do not fit the command: *err says what
 * and where. Accepts `--name value`, `--name=value`, `-h`, and `--` before words that begin with a
 * dash; a lone `-` is a word. The last of a repeated option counts. */
bool command_line_init(struct command_line *line, const struct command *command, int argc,
                       char **argv, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
void command_line_deinit(struct command_line *line); /* accepts zero */

/* The value of one of the command's own options; NULL when it was not given. */
const char *command_line_text(const struct command_line *line, const char *name);
bool command_line_has(const struct command_line *line, const char *name);

/* The same as a number: false when it is none or out of range (said on stderr: return
 * COMMAND_EXIT_USAGE); *out keeps the caller's default when the option was not given. */
bool command_line_integer(const struct command_line *line, const char *name, int64_t min,
                          int64_t max, int64_t *out) __attribute__((warn_unused_result));
bool command_line_number(const struct command_line *line, const char *name, double min, double max,
                         double *out) __attribute__((warn_unused_result));

/* Says "solfleet NAME: <message>" on stderr and returns `code`. The message tells what happened and
 * what to do next. */
int command_fail(const struct command_line *line, enum command_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void command_print_help(const struct command *command, FILE *to);
void command_print_list(FILE *to);

#endif
