/* The worker's wait: the one poll(2) over all that something can come from, until the first time
 * that something is due.
 * A step of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_WAIT_H
#define SOLFLEET_CONSUMER_WORKER_WAIT_H

struct worker;

/* Waits up to max_wait_ms, and lets Redis' connections read and write. */
void worker_wait_step(struct worker *worker, int max_wait_ms);

#endif
