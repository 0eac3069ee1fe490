/* The worker's way out: results and dead letters on their topics, acknowledged by the brokers.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_PUBLISH_H
#define SOLFLEET_CONSUMER_WORKER_PUBLISH_H

#include <stddef.h>

struct worker;
struct inflight_job;

/* The most bytes that the job's result may have in its topic, as far as is known now. */
size_t worker_publish_room(const struct worker *worker, const struct inflight_job *job);

/* The job's outcome is to be published, with a dead letter where that is unsent. */
void worker_publish_result(struct worker *worker, struct inflight_job *job);
/* Only the record is to go to the dead-letter topic, for job->error. */
void worker_publish_letter(struct worker *worker, struct inflight_job *job);

/* Takes reports, and hands over what is to be sent. */
void worker_publish_step(struct worker *worker);

#endif
