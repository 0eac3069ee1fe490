/* A run of a subcommand in a child process: from its words to its exit code and what it said.
 *
 * The child runs command_main itself, so sanitizers watch it, and dies with the test. Everything
 * here asserts. One run of output at a time: what finish reads back belongs to the last start. */
#ifndef SOLFLEET_TESTS_SUPPORT_RUN_COMMAND_H
#define SOLFLEET_TESTS_SUPPORT_RUN_COMMAND_H

#include <sys/types.h>

enum { RUN_COMMAND_OUTPUT_BYTES_MAX = 1 << 16 };

struct run_command {
    char out[RUN_COMMAND_OUTPUT_BYTES_MAX];  /* standard output */
    char said[RUN_COMMAND_OUTPUT_BYTES_MAX]; /* standard error */
};

/* words: the command and its arguments, ending in NULL. */
pid_t run_command_start(const char *const *words);

/* Waits for the end; returns the exit code. */
int run_command_finish(pid_t pid, struct run_command *run);

void run_command_assert_out(const struct run_command *run, const char *text);
void run_command_assert_said(const struct run_command *run, const char *text);

#endif
