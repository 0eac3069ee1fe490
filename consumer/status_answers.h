/* Status answers: the queue between the replies of Redis and the worker that takes them.
 *
 * First in, first out; grows as needed (its bound is what is in flight). One thread. Owns copies of
 * the outcomes in it; the one of the answer taken last lives until the next take. Refuses to know
 * where answers come from. */
#ifndef SOLFLEET_CONSUMER_STATUS_ANSWERS_H
#define SOLFLEET_CONSUMER_STATUS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/status_store.h"

struct status_answers {
    struct status_store_answer *ring; /* [capacity], a power of two or 0 */
    uint32_t first, count, capacity;
    struct status_store_outcome *lent;
};

/* Copies the answer with its outcome. */
void status_answers_push(struct status_answers *answers, const struct status_store_answer *answer);
bool status_answers_take(struct status_answers *answers, struct status_store_answer *answer);
void status_answers_deinit(struct status_answers *answers);

#endif
