/* Status calls: the arguments of the store's calls as their scripts take them, behind a key that a
 * command has begun.
 *
 * No memory of its own, one thread. Refuses to know when a command is sent. */
#ifndef SOLFLEET_CONSUMER_STATUS_CALL_H
#define SOLFLEET_CONSUMER_STATUS_CALL_H

#include "consumer/status_command.h"
#include "consumer/status_store.h"

void status_call_claim(struct status_command *command, const struct status_store_claim *claim);
void status_call_advance(struct status_command *command,
                         const struct status_store_advance *advance);
void status_call_seal(struct status_command *command, const struct status_store_finish *finish);
/* The result goes only where it stays, and is spared where it stands sealed. */
void status_call_finish(struct status_command *command, const struct status_store_finish *finish,
                        size_t result_bytes_max);

#endif
