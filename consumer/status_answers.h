/* Status answers: what the tickets of commands are told, queued for the worker that takes it.
 *
 * First in, first out; grows as needed (its bound is what is in flight). One thread. Owns copies of
 * the outcomes in it; the one of the answer taken last lives until the next take. Refuses to know
 * connections, and when a command counts as unanswered. */
#ifndef SOLFLEET_CONSUMER_STATUS_ANSWERS_H
#define SOLFLEET_CONSUMER_STATUS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/status_command.h"
#include "consumer/status_link.h"
#include "consumer/status_store.h"

struct status_answers {
    struct status_store_answer *ring; /* [capacity], a power of two or 0 */
    uint32_t first, count, capacity;
    struct status_store_outcome *lent;
    uint64_t claims_unanswered, late_answers, seals_unanswered; /* keys */
};

/* Tells a command's tickets that Redis did not answer, unless they have been told. */
void status_answers_unreached(struct status_answers *answers, struct status_command *command);
/* Tells them what Redis said: each element of the reply must be readable (status_reply). Those that
 * were told before hear of it only where it may stop a job, or names a claim's attempt. */
void status_answers_reply(struct status_answers *answers, const struct status_command *command,
                          const struct status_link_reply *reply);

/* Copies the answer with its outcome. */
void status_answers_push(struct status_answers *answers, const struct status_store_answer *answer);
bool status_answers_take(struct status_answers *answers, struct status_store_answer *answer);
void status_answers_deinit(struct status_answers *answers);

#endif
