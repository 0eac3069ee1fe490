/* A guess of the next step's batch, made and sent ahead while a step computes. Private to the
 * engine with a model.
 *
 * The guess goes on with what runs: every job draws another token and none ends but by its length,
 * none starts, nothing is speculated, and pages are given out as they lie. What it is for says
 * engine/forward_ahead. Nothing where the device is the host: there is no time to be used. */
#ifndef SOLFLEET_ENGINE_ENGINE_AHEAD_H
#define SOLFLEET_ENGINE_ENGINE_AHEAD_H

#include "engine/engine_real.h"

/* False when memory ran out. */
bool engine_ahead_init(struct engine_real *real, const struct forward_options *forward)
    __attribute__((warn_unused_result));
void engine_ahead_deinit(struct engine_real *real); /* accepts zeroed */

/* Between the start of a pass over real->batch and its finish. */
enum forward_status engine_ahead_send(struct engine_real *real, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
