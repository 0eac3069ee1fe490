/* A status control: what is said on the control channel, to every worker at once.
 *
 * A connection of its own that mends itself and subscribes again. What was said meanwhile is lost:
 * whatever matters stands in a status, too, and is read there at the next renewal of its lease. One
 * thread; nothing blocks. Refuses to know jobs and what is done about it. */
#ifndef SOLFLEET_CONSUMER_STATUS_CONTROL_H
#define SOLFLEET_CONSUMER_STATUS_CONTROL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/job.h"

struct status_control;
struct clock;

struct status_control_options {
    const char *address; /* as redis_address_parse takes it */
    const char *prefix;
    int64_t greeting_timeout_ms;
    struct clock *clock; /* borrowed; NULL = the real one */
};

/* False with the reason when the address is malformed; an unreachable server is no failure. */
bool status_control_open(const struct status_control_options *options, struct status_control **out,
                         char *err, size_t err_bytes) __attribute__((warn_unused_result));
void status_control_close(struct status_control *control); /* accepts NULL */

struct pollfd status_control_pollfd(const struct status_control *control);
/* When status_control_handle is due at the latest (monotonic ns); INT64_MAX = no time. */
int64_t status_control_deadline_ns(const struct status_control *control);
void status_control_handle(struct status_control *control, short revents);

/* The next id that is to be cancelled; false when there is none now. */
bool status_control_take_cancel(struct status_control *control,
                                char request_id[JOB_ID_BYTES_MAX + 1]);

#endif
