/* A job's way through the worker: carries out what job_life says is to be done when something has
 * happened to it. The one place from which a step of worker*.c goes on to another.
 *
 * On the worker's thread. Refuses to know why things happen. */
#ifndef SOLFLEET_CONSUMER_WORKER_LIFE_H
#define SOLFLEET_CONSUMER_WORKER_LIFE_H

#include "consumer/job_life.h"

struct worker;
struct inflight_job;
struct engine_event;

/* Afterwards the entry may be gone. */
void worker_life(struct worker *worker, struct inflight_job *job, enum job_life_event what);
/* The same for an end in the engine. Takes the event's text where it is kept. */
void worker_life_end(struct worker *worker, struct inflight_job *job, enum job_life_event what,
                     struct engine_event *event);

#endif
