/* The ops of a pass, put on the device one after another: embedding, layers, sampling.
 *
 * Arrays are those of forward->memory, and nothing is read back or waited for, so that the same
 * calls can be recorded as a graph. False when an op was refused, which is noted in `forward`.
 * Private to engine/forward*.c; one thread. */
#ifndef SOLFLEET_ENGINE_FORWARD_LAYERS_H
#define SOLFLEET_ENGINE_FORWARD_LAYERS_H

#include "engine/forward_internal.h"
#include "engine/forward_pass.h"

/* Every row through every layer; then the sampled rows, gathered and normed, in `final`. */
bool forward_layers_run(struct forward *forward, const struct forward_pass *pass)
    __attribute__((warn_unused_result));

/* Draws a token for each row of `final`. */
bool forward_layers_sample(struct forward *forward, const struct forward_pass *pass)
    __attribute__((warn_unused_result));

#endif
