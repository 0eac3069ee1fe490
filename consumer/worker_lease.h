/* The worker's leases: renewed for everything claimed until it has ended, in batches; and what is
 * learnt with that: a lease that is lost, a client that wants no answer.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_LEASE_H
#define SOLFLEET_CONSUMER_WORKER_LEASE_H

#include <stdint.h>

struct worker;
struct config;
struct status_store_answer;

/* How long a claim holds: as long as the group waits for a worker that says nothing. */
int64_t worker_lease_ms(const struct config *config);
/* Renews when it is time. */
void worker_lease_step(struct worker *worker);
/* Goes on by what Redis said to a renewal. */
void worker_lease_answered(struct worker *worker, const struct status_store_answer *answer);

#endif
