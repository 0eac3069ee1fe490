/* A delivery worker's way to Redis: calls in order, and what becomes of them when it breaks.
 *
 * Events answer whether they could happen. See delivery_worker. */
#ifndef SOLFLEET_TESTS_SUPPORT_DELIVERY_LINK_H
#define SOLFLEET_TESTS_SUPPORT_DELIVERY_LINK_H

#include "tests/support/delivery_worker.h"

bool delivery_link_serve(struct delivery_worker *worker);  /* Redis runs the next call */
bool delivery_link_hear(struct delivery_worker *worker);   /* the next answer arrives */
bool delivery_link_expire(struct delivery_worker *worker); /* a claim waits no longer */
bool delivery_link_cut(struct delivery_worker *worker);
bool delivery_link_open(struct delivery_worker *worker);
bool delivery_link_renew(struct delivery_worker *worker); /* all leases */

void delivery_link_call(struct delivery_worker *worker, const struct delivery_job *job,
                        enum status_script script);
/* A call that has an answer, if only that there is nobody to ask. */
void delivery_link_ask(struct delivery_worker *worker, struct delivery_job *job,
                       enum status_script script);

#endif
