/* The worker's dealings with the engine: who may go in and when, what it says, how a job is ended
 * early, and what becomes of one that the engine failed.
 *
 * What waits goes in by the law of the wait queue (engine/wait_queue.h): priorities with ageing,
 * tenants in turn. A job whose owners died before (a suspect) is alone in the engine, one at a
 * time. Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_RUN_H
#define SOLFLEET_CONSUMER_WORKER_RUN_H

#include "schemas/finish_reason.h"

struct worker;
struct inflight_job;
struct engine_event;

/* A claimed job is to go into the engine. */
void worker_run_enqueue(struct worker *worker, struct inflight_job *job);
/* So is one that it had before. */
void worker_run_enqueue_again(struct worker *worker, struct inflight_job *job);
/* It waits no longer, whatever it does now. */
void worker_run_leave_queue(struct worker *worker, struct inflight_job *job);
/* Tried again later. */
void worker_run_rest(struct worker *worker, struct inflight_job *job);
void worker_run_note_start(struct worker *worker, struct inflight_job *job,
                           const struct engine_event *event);
/* Ends it in the engine; its final event comes all the same. */
void worker_run_stop(struct worker *worker, struct inflight_job *job, enum finish_reason reason);

/* Hands jobs to the engine while it has room. */
void worker_run_submit(struct worker *worker);
/* Takes what the engine says. */
void worker_run_take_events(struct worker *worker);

#endif
