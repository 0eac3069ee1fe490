/* A delivery worker's way to the brokers: records published in order, commits, assignments.
 *
 * Events answer whether they could happen. See delivery_worker. */
#ifndef SOLFLEET_TESTS_SUPPORT_DELIVERY_BROKER_H
#define SOLFLEET_TESTS_SUPPORT_DELIVERY_BROKER_H

#include "tests/support/delivery_worker.h"

bool delivery_broker_append(struct delivery_worker *worker);      /* the broker has a record */
bool delivery_broker_acknowledge(struct delivery_worker *worker); /* and says so */
bool delivery_broker_commit(struct delivery_worker *worker);      /* the next step of one */
bool delivery_broker_revoke(struct delivery_worker *worker, int number, bool commits);
bool delivery_broker_assign(struct delivery_worker *worker, int number);

void delivery_broker_send(struct delivery_worker *worker, const struct delivery_job *job,
                          bool is_letter);

#endif
