/* The worker's way in: a record becomes an entry in flight, decoded, whose id Redis is asked for.
 * Steps of worker.c, on its thread. */
#ifndef SOLFLEET_CONSUMER_WORKER_INTAKE_H
#define SOLFLEET_CONSUMER_WORKER_INTAKE_H

#include <stdbool.h>

struct worker;

/* True while the worker is full, and has not been for long: records stay where they are. */
bool worker_intake_holds(const struct worker *worker);
/* Takes records, decodes them, and asks for their ids. */
void worker_intake_receive(struct worker *worker);

#endif
