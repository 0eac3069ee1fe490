/* The worker's deadlines: a job's time as a moment, and the end of what waits beyond it.
 *
 * Part of the worker; see worker_state.h. The moment is worked out once, when the record comes,
 * from the age that its timestamp gives it; from then on only the monotonic clock counts. What
 * waits, in the worker or in the engine's queue, ends here, however long the engine's step takes;
 * what runs is cut by the engine. */
#ifndef SOLFLEET_CONSUMER_WORKER_DEADLINE_H
#define SOLFLEET_CONSUMER_WORKER_DEADLINE_H

#include "consumer/inflight.h"

struct worker;

/* The job's deadline, for a record that has just come. */
void worker_deadline_note(struct worker *worker, struct inflight_job *job);
/* The job's state has changed. */
void worker_deadline_follow(struct worker *worker, struct inflight_job *job);
/* Ends what is past its deadline and has not begun. */
void worker_deadline_step(struct worker *worker);

#endif
