/* The decision how to go on consuming: two water marks on what the worker holds.
 *
 * Full means at a high mark and not yet back at the low ones. When full, records are first left in
 * the client library, which costs nothing and ends at once; only a worker that stays full pauses
 * its partitions, since a pause throws away what was fetched and polling must go on for the sake of
 * the group. Pure; one thread; no memory. Refuses to know partitions and the engine. */
#ifndef SOLFLEET_CONSUMER_BACKPRESSURE_H
#define SOLFLEET_CONSUMER_BACKPRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum backpressure_advice {
    BACKPRESSURE_TAKE,
    BACKPRESSURE_HOLD, /* do not poll for now */
    BACKPRESSURE_PAUSE /* pause, and poll */
};

struct backpressure {
    uint32_t jobs_high, jobs_low; /* low <= high */
    size_t bytes_high, bytes_low; /* of record values held */
    int64_t hold_ns;              /* longest time without polling */
    enum backpressure_advice advice;
    int64_t full_since_ns;
};

struct backpressure_load {
    uint32_t jobs;
    size_t bytes;
    bool engine_is_busy; /* a job waits because the engine had no room for it */
};

/* Takes the load of now. */
enum backpressure_advice backpressure_update(struct backpressure *pressure,
                                             const struct backpressure_load *load, int64_t now_ns);

/* When the advice changes by time alone; INT64_MAX = never. */
int64_t backpressure_deadline_ns(const struct backpressure *pressure);

#endif
