/* The worker's way out: results and dead letters on their topics, then the status, then settled.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_PUBLISH_H
#define SOLFLEET_CONSUMER_WORKER_PUBLISH_H

struct worker;
struct inflight_job;
struct engine_event;

/* The answer of the engine is to be published. */
void worker_publish_answer(struct worker *worker, struct inflight_job *job,
                           struct engine_event *event);
/* A failed result is to be published, for job->error. */
void worker_publish_failure(struct worker *worker, struct inflight_job *job);
/* The record is to go to the dead-letter topic, for job->error. */
void worker_publish_dead_letter(struct worker *worker, struct inflight_job *job);

/* Hands over what is to be sent, takes reports, writes terminal statuses. */
void worker_publish_step(struct worker *worker);

#endif
