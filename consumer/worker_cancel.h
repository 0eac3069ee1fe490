/* The worker's ear for cancels: what a client wants no answer to ends here, and is published as
 * cancelled. Part of the worker; see worker_state.h. */
#ifndef SOLFLEET_CONSUMER_WORKER_CANCEL_H
#define SOLFLEET_CONSUMER_WORKER_CANCEL_H

#include "consumer/inflight.h"

struct worker;

/* Hears what has been said on the control channel. */
void worker_cancel_step(struct worker *worker);
/* Ends the job early: once, and only where that still makes a difference. */
void worker_cancel(struct worker *worker, struct inflight_job *job);
/* Its claim has been answered: whatever was said meanwhile counts now. */
void worker_cancel_claimed(struct worker *worker, struct inflight_job *job);

#endif
