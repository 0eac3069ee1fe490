/* The worker's farewells: to partitions that the group takes away, and to the group itself.
 *
 * What has not begun to run is given back at once, what runs goes on under its lease for a bounded
 * time; then it is given back, too.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_LEAVE_H
#define SOLFLEET_CONSUMER_WORKER_LEAVE_H

struct worker;

/* Looks over the jobs when partitions have gone, and leaves the group when it is time. */
void worker_leave_step(struct worker *worker);
/* Parked jobs whose holder may have ended, jobs that may be tried again, orphans out of time. */
void worker_leave_take_due(struct worker *worker);

#endif
