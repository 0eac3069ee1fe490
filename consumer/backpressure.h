/* The decision whether to go on consuming: two water marks on what the worker holds.
 *
 * Pure; one thread; no memory. Between the marks the last decision stands, so consuming does not
 * flicker. Refuses to know partitions and the engine. */
#ifndef SOLFLEET_CONSUMER_BACKPRESSURE_H
#define SOLFLEET_CONSUMER_BACKPRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backpressure {
    uint32_t jobs_high, jobs_low; /* low <= high */
    size_t bytes_high, bytes_low; /* of record values held */
    bool paused;
};

struct backpressure_load {
    uint32_t jobs;
    size_t bytes;
    bool engine_is_busy; /* a job waits because the engine had no room for it */
};

/* Takes the load of now; returns whether consuming is to be paused. */
bool backpressure_update(struct backpressure *pressure, const struct backpressure_load *load);

/* How many more jobs may be received before the high mark. */
uint32_t backpressure_room(const struct backpressure *pressure, uint32_t jobs);

#endif
