/* A status reply: what a script said of one key, as the answer to its ticket.
 *
 * Pure, any thread, no memory of its own: texts are borrowed from the reply. Total: whatever a
 * server says gives an answer, or false. Refuses to know commands and connections. */
#ifndef SOLFLEET_CONSUMER_STATUS_REPLY_H
#define SOLFLEET_CONSUMER_STATUS_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "consumer/status_link.h"
#include "consumer/status_script.h"
#include "consumer/status_store.h"

struct status_reply {
    struct status_store_answer answer; /* without its ticket; `sealed` points to `outcome` */
    struct status_store_outcome outcome;
    bool is_for_nobody; /* an advance, a release, a renewal that says nothing */
    bool is_missing;    /* FINISH: to be asked again with the result */
};

/* False when that script cannot have said this. */
bool status_reply_read(struct status_reply *out, enum status_script script,
                       const struct status_link_reply *reply, size_t element);

#endif
