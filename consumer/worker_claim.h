/* The worker's claims: asking Redis whose an id is, and what follows from the answer; the jobs that
 * others have, until they let go.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_CLAIM_H
#define SOLFLEET_CONSUMER_WORKER_CLAIM_H

struct worker;
struct inflight_job;
struct status_store_answer;

/* Asks, for the entry's id and fingerprint. */
void worker_claim_ask(struct worker *worker, struct inflight_job *job);
/* Goes on by the answer, which may be a late one. */
void worker_claim_answered(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer);
/* The id turned out to be another record's. */
void worker_claim_conflict(struct worker *worker, struct inflight_job *job);
/* Asks again later: soon at first, then more seldom. */
void worker_claim_park(struct worker *worker, struct inflight_job *job);

#endif
