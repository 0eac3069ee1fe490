/* A child process that a benchmark needs: started in a process group of its own, its output in a
 * file, and killed by the system should we die first.
 *
 * One thread: the one that started a child stays until it has stopped it. Refuses to know what the
 * child does. */
#ifndef SOLFLEET_CONSUMER_BENCH_CHILD_H
#define SOLFLEET_CONSUMER_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bench_child {
    pid_t pid; /* 0 = none */
    int status;
    const char *log_path; /* borrowed */
};

/* Runs argv[0], found in PATH when it has no slash. False with the reason in err; that there is no
 * such program shows as an early end with status 127. */
bool bench_child_start(struct bench_child *child, char *const *argv, const char *log_path,
                       char *err, size_t err_bytes);

/* False once it has ended. */
bool bench_child_is_running(struct bench_child *child);

/* SIGTERM, then SIGKILL after timeout_ms. Returns the exit code, 128 + signal for one that died by
 * a signal. Accepts a zeroed child: 0. */
int bench_child_stop(struct bench_child *child, int64_t timeout_ms);

/* The last bytes of a file as text, for messages; the caller's to free, NULL when there is none. */
char *bench_child_read_log(const char *path, size_t bytes_max);

#endif
