/* The worker's repair at its start: what the results topic says of the last repair_window_s becomes
 * statuses where Redis has lost them.
 *
 * Begun before the group is joined, so that its beginning is fixed, and worked in slices of
 * worker_step beside the jobs: neither readiness nor a job waits for it. Private to worker*.c. */
#ifndef SOLFLEET_CONSUMER_WORKER_REPAIR_H
#define SOLFLEET_CONSUMER_WORKER_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker;

/* False while no broker answers: try again. Otherwise it has begun, or is not to be. */
bool worker_repair_start(struct worker *worker, int timeout_ms, char *err, size_t err_bytes);

/* A slice, and the end of it when all is read, or the worker drains. */
void worker_repair_step(struct worker *worker);

/* When the next slice is due (monotonic ns); INT64_MAX = there is none. */
int64_t worker_repair_due_ns(const struct worker *worker);

#endif
