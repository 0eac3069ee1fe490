/* A status breaker: decides whether the server is worth asking.
 *
 * After so many misses in a row it opens, and nothing is asked for a pause; then one call, the
 * probe, is let through and decides: closed again, or open for twice as long. Plain values, one
 * thread, no memory. Refuses to know what a miss is. */
#ifndef SOLFLEET_CONSUMER_STATUS_BREAKER_H
#define SOLFLEET_CONSUMER_STATUS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define STATUS_BREAKER_PAUSE_MS_MIN 100
#define STATUS_BREAKER_PAUSE_MS_MAX 5000

struct status_breaker {
    uint32_t misses_max; /* set by the owner: so many open it */
    uint32_t misses;
    bool is_open, is_probing;
    int64_t pause_ms, open_until_ns;
    uint64_t opened_total;
};

/* Whether a call may go now. */
bool status_breaker_allows(const struct status_breaker *breaker, int64_t now_ns);
/* It goes. True if it is the probe: its answer or miss must be told with that. */
bool status_breaker_begin(struct status_breaker *breaker);
/* A call was answered as it should be. Only a probe closes an open breaker. */
void status_breaker_answered(struct status_breaker *breaker, bool is_probe);
/* A call was not. While the breaker is open only the probe's counts. */
void status_breaker_missed(struct status_breaker *breaker, bool is_probe, int64_t now_ns);
/* When the next probe may go; INT64_MAX while it is closed or a probe is under way. */
int64_t status_breaker_deadline_ns(const struct status_breaker *breaker);
/* A new server: closed, all but the count forgotten. */
void status_breaker_reset(struct status_breaker *breaker);

#endif
