/* A sampler: a sequence's sampling parameters as the arrays that the sampling op reads.
 *
 * Pure; the choice of a token is the op's (kernels/ops.h, head_sample). One thread. Refuses to know
 * logits and devices. */
#ifndef SOLFLEET_ENGINE_SAMPLER_H
#define SOLFLEET_ENGINE_SAMPLER_H

#include "engine/batch.h"
#include "engine/sequence.h"

/* Has a row of the batch sampled as the sequence asks, at the position `ahead` tokens behind that
 * after its last token; gives the index in the sampled arrays. What penalties look at is the
 * sequence as it is, without those tokens. */
uint32_t sampler_add(struct batch *batch, const struct sequence *sequence, uint32_t row,
                     uint32_t ahead);

#endif
