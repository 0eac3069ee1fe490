/* An await: waiting for jobs to end, as `wait` and `submit --wait` do it, from ids to exit code.
 *
 * Runs a watch, shows it, prints what was asked for, and says on stderr what went wrong. One
 * thread. Refuses to know how the jobs were sent. */
#ifndef SOLFLEET_CONSUMER_AWAIT_H
#define SOLFLEET_CONSUMER_AWAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct interrupt;

enum await_print {
    AWAIT_PRINT_LINE, /* one line a job */
    AWAIT_PRINT_TEXT, /* the answers, by sections where they have some */
    AWAIT_PRINT_CODE  /* the answers' code */
};

struct await_options {
    const char *command; /* whose name stands before messages */
    const char *const *ids;
    size_t count;
    enum await_print print;
    bool live; /* show progress while waiting */
    int64_t timeout_ms, grace_ms, connect_timeout_ms;
    struct interrupt *interrupt; /* borrowed */
};

/* Returns a command_exit. */
int await_jobs(const struct config *config, const struct await_options *options);

#endif
