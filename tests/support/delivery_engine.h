/* A delivery worker's engine: jobs begin and end, or it fails; suspects run alone.
 *
 * Events answer whether they could happen. See delivery_worker. */
#ifndef SOLFLEET_TESTS_SUPPORT_DELIVERY_ENGINE_H
#define SOLFLEET_TESTS_SUPPORT_DELIVERY_ENGINE_H

#include "tests/support/delivery_worker.h"

bool delivery_engine_admit(struct delivery_worker *worker);
bool delivery_engine_compute(struct delivery_worker *worker); /* a job begins, or ends */
bool delivery_engine_break(struct delivery_worker *worker);   /* it fails one */
bool delivery_engine_call_off(struct delivery_worker *worker);
bool delivery_engine_give_up(struct delivery_worker *worker); /* an orphan */
bool delivery_engine_due(struct delivery_worker *worker);     /* a parked or resting job */
bool delivery_engine_runs_poison(const struct delivery_worker *worker);

#endif
