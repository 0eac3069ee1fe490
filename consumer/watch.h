/* A watch: follows a set of jobs in Redis until each has ended.
 *
 * Subscribes to their events first, then reads every status, then waits for events; all that have
 * not ended are read again every second, since an event may be lost. A broken connection is opened
 * again. One thread, one poll(2). Refuses to know Kafka, and how what it sees is shown. */
#ifndef SOLFLEET_CONSUMER_WATCH_H
#define SOLFLEET_CONSUMER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/status.h"

struct interrupt;
struct status_client;

enum watch_end {
    WATCH_ENDED,     /* every job has ended or stayed unknown beyond the grace */
    WATCH_TIMED_OUT, /* some have not ended: see the entries */
    WATCH_UNREACHABLE,
    WATCH_REFUSED, /* Redis answers with errors */
    WATCH_INTERRUPTED
};

struct watch_entry {
    struct status status; /* state STATUS_UNKNOWN until a status has been seen */
    bool ended;           /* in a terminal state */
    bool given_up;        /* no status within the grace */
    int64_t missing_since_ns;
};

struct watch_options {
    const char *const *ids; /* no two alike */
    size_t count;
    int64_t timeout_ms;          /* 0 = none */
    int64_t grace_ms;            /* how long an id may be unknown */
    int64_t reconnect_ms;        /* how long Redis may be away */
    int64_t tick_ms;             /* most time between two calls of on_tick; 0 = 1000 */
    struct interrupt *interrupt; /* borrowed; NULL = not interruptible */
    /* Both may be NULL. on_change comes when an entry's state or progress differs; `before` is the
     * state it had. */
    void (*on_change)(void *context, size_t index, const struct watch_entry *entry,
                      enum status_state before);
    void (*on_tick)(void *context);
    void *context;
};

/* Fills entries[0..count-1], which the caller deinits whatever is returned. err is filled for
 * UNREACHABLE and REFUSED. */
enum watch_end watch_run(struct status_client *client, const struct watch_options *options,
                         struct watch_entry *entries, char *err, size_t err_bytes);

void watch_entries_deinit(struct watch_entry *entries, size_t count);

#endif
