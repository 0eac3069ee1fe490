#include "consumer/watch.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/interrupt.h"
#include "consumer/status_client.h"
#include "engine/clock.h"

#define WATCH_REREAD_NS CLOCK_NS_PER_S
#define WATCH_RETRY_NS (CLOCK_NS_PER_S / 5)

struct watch {
    struct status_client *client;
    const struct watch_options *options;
    struct watch_entry *entries;
    size_t *order;       /* indices, sorted by id: from an event to its entry */
    bool *dirty;         /* to be read in this round */
    const char **ids;    /* scratch: those read in this round */
    size_t *indices;     /* scratch: their entries */
    struct status *read; /* scratch */
    bool subscribed;
    int64_t started_ns, reread_ns, down_since_ns;
};

static const char *watch_id(const struct watch *watch, size_t index) {
    return watch->options->ids[index];
}

static int watch_compare(const void *a, const void *b, void *context) {
    const struct watch *watch = context;
    return strcmp(watch_id(watch, *(const size_t *)a), watch_id(watch, *(const size_t *)b));
}

static bool watch_init(struct watch *watch) {
    size_t count = watch->options->count;
    watch->order = calloc(count + 1, sizeof *watch->order);
    watch->dirty = calloc(count + 1, sizeof *watch->dirty);
    watch->ids = calloc(count + 1, sizeof *watch->ids);
    watch->indices = calloc(count + 1, sizeof *watch->indices);
    watch->read = calloc(count + 1, sizeof *watch->read);
    if (!watch->order || !watch->dirty || !watch->ids || !watch->indices || !watch->read) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        watch->order[i] = i;
        watch->entries[i] = (struct watch_entry){.missing_since_ns = watch->started_ns};
        status_init(&watch->entries[i].status, watch_id(watch, i));
    }
    qsort_r(watch->order, count, sizeof *watch->order, watch_compare, watch);
    return true;
}

static void watch_deinit(struct watch *watch) {
    free(watch->order);
    free(watch->dirty);
    free(watch->ids);
    free(watch->indices);
    free(watch->read);
}

/* ---- what has been read ---------------------------------------------------------------------- */

static bool watch_differs(const struct status *old, const struct status *new) {
    return old->state != new->state || old->attempt != new->attempt ||
           old->completion_tokens != new->completion_tokens;
}

static void watch_tell(const struct watch *watch, size_t index, enum status_state before) {
    if (watch->options->on_change) {
        watch->options->on_change(watch->options->context, index, &watch->entries[index], before);
    }
}

/* Puts a status that was read into its entry; takes it over. */
static void watch_take(struct watch *watch, size_t index, struct status *read, int64_t now_ns) {
    struct watch_entry *entry = &watch->entries[index];
    enum status_state before = entry->status.state;
    if (read->state == STATUS_UNKNOWN) {
        if (before != STATUS_UNKNOWN && !entry->missing_since_ns) {
            entry->missing_since_ns = now_ns; /* it was there: it has just expired */
        }
        entry->given_up =
            now_ns - entry->missing_since_ns >= watch->options->grace_ms * CLOCK_NS_PER_MS;
        status_deinit(read);
        if (entry->given_up) {
            watch_tell(watch, index, before);
        }
        return;
    }
    bool differs = watch_differs(&entry->status, read);
    status_deinit(&entry->status);
    entry->status = *read;
    entry->missing_since_ns = 0;
    entry->ended = status_state_is_terminal(read->state);
    if (differs) {
        watch_tell(watch, index, before);
    }
}

static bool watch_is_open(const struct watch_entry *entry) {
    return !entry->ended && !entry->given_up;
}

/* Reads the statuses marked dirty, or all that are open. */
static enum status_client_status watch_read(struct watch *watch, bool all, char *err,
                                            size_t err_bytes) {
    size_t count = 0;
    for (size_t i = 0; i < watch->options->count; i++) {
        if (watch_is_open(&watch->entries[i]) && (all || watch->dirty[i])) {
            watch->indices[count] = i;
            watch->ids[count++] = watch_id(watch, i);
        }
    }
    if (count == 0) {
        return STATUS_CLIENT_OK;
    }
    enum status_client_status status =
        status_client_read(watch->client, watch->ids, count, watch->read, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        return status;
    }
    int64_t now_ns = clock_monotonic_ns(NULL);
    for (size_t i = 0; i < count; i++) {
        watch->dirty[watch->indices[i]] = false;
        watch_take(watch, watch->indices[i], &watch->read[i], now_ns);
    }
    return STATUS_CLIENT_OK;
}

static int watch_find(const void *key, const void *element, const struct watch *watch) {
    return strcmp(key, watch_id(watch, *(const size_t *)element));
}

static void watch_mark(struct watch *watch, const char *id) {
    size_t low = 0, high = watch->options->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = watch_find(id, &watch->order[middle], watch);
        if (order == 0) {
            watch->dirty[watch->order[middle]] = true;
            return;
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static enum status_client_status watch_take_events(struct watch *watch, char *err,
                                                   size_t err_bytes) {
    char id[JOB_ID_BYTES_MAX + 1];
    enum status_client_status status;
    while ((status = status_client_take_event(watch->client, id, err, err_bytes)) ==
           STATUS_CLIENT_OK) {
        watch_mark(watch, id);
    }
    return status == STATUS_CLIENT_NONE ? STATUS_CLIENT_OK : status;
}

/* A server that was away, or just started, owes every missing status a fresh grace. */
static void watch_renew_grace(struct watch *watch) {
    for (size_t i = 0; i < watch->options->count; i++) {
        if (watch->entries[i].missing_since_ns) {
            watch->entries[i].missing_since_ns = clock_monotonic_ns(NULL);
        }
    }
}

/* One round of looking: subscribe if need be, take events, read what may have changed. */
static enum status_client_status watch_look(struct watch *watch, char *err, size_t err_bytes) {
    enum status_client_status status = STATUS_CLIENT_OK;
    bool all = clock_monotonic_ns(NULL) >= watch->reread_ns;
    if (!watch->subscribed) {
        status = status_client_subscribe(watch->client, watch->options->ids, watch->options->count,
                                         err, err_bytes);
        watch_renew_grace(watch);
        all = true;
    } else {
        status = watch_take_events(watch, err, err_bytes);
    }
    watch->subscribed = status == STATUS_CLIENT_OK;
    if (status == STATUS_CLIENT_OK) {
        status = watch_read(watch, all, err, err_bytes);
    }
    if (all) {
        watch->reread_ns = clock_monotonic_ns(NULL) + WATCH_REREAD_NS;
    }
    return status;
}

/* Sleeps until an event, an interrupt, or the next thing to do. */
static bool watch_wait(struct watch *watch) {
    const struct watch_options *options = watch->options;
    int64_t now_ns = clock_monotonic_ns(NULL);
    int64_t until_ns = watch->down_since_ns ? now_ns + WATCH_RETRY_NS : watch->reread_ns;
    int64_t tick_ns = now_ns + (options->tick_ms ? options->tick_ms : 1000) * CLOCK_NS_PER_MS;
    until_ns = until_ns < tick_ns ? until_ns : tick_ns;
    if (options->timeout_ms) {
        int64_t end_ns = watch->started_ns + options->timeout_ms * CLOCK_NS_PER_MS;
        until_ns = until_ns < end_ns ? until_ns : end_ns;
    }
    int64_t wait_ms = until_ns > now_ns ? (until_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 0;
    struct pollfd ready[2] = {
        {.fd = watch->down_since_ns ? -1 : status_client_event_fd(watch->client), .events = POLLIN},
        {.fd = options->interrupt ? options->interrupt->fd : -1, .events = POLLIN}};
    poll(ready, 2, (int)wait_ms);
    return !options->interrupt || !interrupt_take(options->interrupt);
}

static bool watch_is_over(const struct watch *watch) {
    for (size_t i = 0; i < watch->options->count; i++) {
        if (watch_is_open(&watch->entries[i])) {
            return false;
        }
    }
    return true;
}

/* How long ago something began, in milliseconds. */
static int64_t watch_since_ms(int64_t then_ns) {
    return (clock_monotonic_ns(NULL) - then_ns) / CLOCK_NS_PER_MS;
}

static enum watch_end watch_loop(struct watch *watch, char *err, size_t err_bytes) {
    const struct watch_options *options = watch->options;
    for (;;) {
        enum status_client_status status = watch_look(watch, err, err_bytes);
        if (status == STATUS_CLIENT_OK) {
            watch->down_since_ns = 0;
        } else if (status != STATUS_CLIENT_UNREACHABLE) {
            return WATCH_REFUSED;
        } else if (!watch->down_since_ns) {
            watch->down_since_ns = clock_monotonic_ns(NULL);
        } else if (watch_since_ms(watch->down_since_ns) >= options->reconnect_ms) {
            return WATCH_UNREACHABLE;
        }
        if (options->on_tick) {
            options->on_tick(options->context);
        }
        if (watch_is_over(watch)) {
            return WATCH_ENDED;
        }
        if (options->timeout_ms && watch_since_ms(watch->started_ns) >= options->timeout_ms) {
            return WATCH_TIMED_OUT;
        }
        if (!watch_wait(watch)) {
            return WATCH_INTERRUPTED;
        }
    }
}

enum watch_end watch_run(struct status_client *client, const struct watch_options *options,
                         struct watch_entry *entries, char *err, size_t err_bytes) {
    struct watch watch = {.client = client,
                          .options = options,
                          .entries = entries,
                          .started_ns = clock_monotonic_ns(NULL)};
    memset(entries, 0, options->count * sizeof *entries);
    enum watch_end end = WATCH_REFUSED;
    if (watch_init(&watch)) {
        end = watch_loop(&watch, err, err_bytes);
    } else {
        snprintf(err, err_bytes, "out of memory");
    }
    watch_deinit(&watch);
    return end;
}

void watch_entries_deinit(struct watch_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        status_deinit(&entries[i].status);
    }
}
