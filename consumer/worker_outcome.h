/* The worker's outcomes: how a job has ended, as a result and in its status. Each is offered to be
 * sealed in Redis before anything of it is published; the one that stands there goes out.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_OUTCOME_H
#define SOLFLEET_CONSUMER_WORKER_OUTCOME_H

#include <stddef.h>

/* How often a result is made smaller: shortened or a failure in its place; a brief one; without the
 * job's headers. */
#define WORKER_OUTCOME_CUTS_MAX 3

struct worker;
struct inflight_job;
struct engine_event;
struct status_store_answer;
struct status_store_outcome;

/* The engine has ended it so: to be sealed. */
void worker_outcome_answer(struct worker *worker, struct inflight_job *job,
                           struct engine_event *event);
/* There is no answer, for job->error: to be sealed. */
void worker_outcome_fail(struct worker *worker, struct inflight_job *job);
/* There is none because of job->called_off: to be sealed. */
void worker_outcome_call_off(struct worker *worker, struct inflight_job *job);
/* Another outcome stands: takes it in place of whatever there is. */
void worker_outcome_adopt(struct worker *worker, struct inflight_job *job,
                          const struct status_store_outcome *sealed);
/* The topic does not take so large a result: a smaller one in its place. */
void worker_outcome_cut(struct worker *worker, struct inflight_job *job, size_t room);

/* Goes on by what Redis said to a seal. */
void worker_outcome_sealed(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer);
/* The result is acknowledged: writes the terminal status. */
void worker_outcome_finish(struct worker *worker, struct inflight_job *job);

#endif
