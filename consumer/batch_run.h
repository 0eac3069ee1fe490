/* A batch run: the lines of a batch file sent as jobs, a bounded window of them at a time, and
 * their outcomes gathered in the journal.
 *
 * Each line's status is read before it is sent, so what was answered in an earlier run is not sent
 * again. Statuses are polled: a window is one round trip. One thread. Refuses to know how the files
 * are called and what is printed in the end. */
#ifndef SOLFLEET_CONSUMER_BATCH_RUN_H
#define SOLFLEET_CONSUMER_BATCH_RUN_H

#include <stddef.h>
#include <stdint.h>

struct batch_file;
struct batch_journal;
struct batch_progress;
struct config;
struct interrupt;
struct kafka_producer;
struct status_client;

#define BATCH_RUN_WINDOW_MAX 4096

struct batch_run_options {
    const struct config *config;
    const struct batch_file *file;
    struct batch_journal *journal;
    struct batch_progress *progress;
    struct kafka_producer *producer; /* closed by the run */
    struct status_client *client;
    struct interrupt *interrupt;
    size_t window;
    int64_t timeout_ms; /* how long broker or Redis may be away */
};

enum batch_run_status {
    BATCH_RUN_OK = 0,      /* every line has ended */
    BATCH_RUN_INTERRUPTED, /* the journal has all that is known */
    BATCH_RUN_UNREACHABLE, /* broker or Redis; the journal has all that is known */
    BATCH_RUN_FAILED       /* of this machine: disk, memory, or a file changed meanwhile */
};

/* All but OK and INTERRUPTED fill err. */
enum batch_run_status batch_run(const struct batch_run_options *options, char *err,
                                size_t err_bytes) __attribute__((warn_unused_result));

#endif
