/* What one pass tells the kernels by value: counts, rounded up to buckets where a device wants few
 * shapes, so that a plan or a graph made for a bucket serves every batch in it.
 *
 * Pure functions; one thread. Refuses to know what is computed. */
#ifndef SOLFLEET_ENGINE_FORWARD_PASS_H
#define SOLFLEET_ENGINE_FORWARD_PASS_H

#include "engine/forward.h"
#include "engine/forward_memory.h"

struct forward_pass {
    uint32_t rows, segments, sampled, context_max;
};

struct forward_pass forward_pass_make(const struct forward_options *options,
                                      const struct batch *batch);

/* Rows, segments and samples of `in` up to the pass's: they compute something that nobody reads. */
void forward_pass_pad(const struct forward_pass *pass, const struct batch *batch,
                      const struct forward_inputs *in);

/* The passes of steps in which every row is sampled, index 0 and on; false past the last. */
bool forward_pass_decode(const struct forward_options *options, uint32_t index,
                         struct forward_pass *out);

#endif
