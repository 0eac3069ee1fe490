/* Choosing a token from a row of logits, and the memory that takes. Private to kernels. */
#ifndef SOLFLEET_KERNELS_REFERENCE_SAMPLE_H
#define SOLFLEET_KERNELS_REFERENCE_SAMPLE_H

#include "kernels/ops.h"

/* Bytes for `threads` rows at a time of a vocabulary. */
size_t reference_sample_bytes(uint32_t threads, uint32_t vocabulary);

/* Applies the penalties of sampled row `s` to its logits, or to bounds of them: none of them falls
 * with a logit. Ids beyond the vocabulary are passed over. */
void reference_sample_penalize(const struct sample_params *params, uint32_t s, float *logits,
                               uint32_t vocabulary);

#endif
