/* What a model needs of a back end: the ops that a pass over it calls.
 *
 * Pure; any thread. */
#ifndef SOLFLEET_ENGINE_FORWARD_NEEDS_H
#define SOLFLEET_ENGINE_FORWARD_NEEDS_H

#include "engine/forward.h"

/* FORWARD_UNSUPPORTED names in err the first op or form that is lacking. */
enum forward_status forward_needs_check(const struct model *model, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
