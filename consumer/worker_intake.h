/* The worker's way in: a record becomes a claimed job in the engine, or a dead letter.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_INTAKE_H
#define SOLFLEET_CONSUMER_WORKER_INTAKE_H

#include <stdbool.h>

struct worker;
struct status_store_answer;
struct inflight_job;

/* True while the worker is full, and has not been for long: records stay where they are. */
bool worker_intake_holds(const struct worker *worker);
/* Takes records, decodes them, and asks Redis for their ids. */
void worker_intake_receive(struct worker *worker);
/* Goes on by what Redis said to a claim. */
void worker_intake_claimed(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer);
/* Hands claimed jobs to the engine while it has room. */
void worker_intake_submit(struct worker *worker);

#endif
