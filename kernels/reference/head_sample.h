/* head_sample in terms of a tier's head_logits. Private to kernels. */
#ifndef SOLFLEET_KERNELS_REFERENCE_HEAD_SAMPLE_H
#define SOLFLEET_KERNELS_REFERENCE_HEAD_SAMPLE_H

#include "kernels/ops.h"

typedef enum kernels_status reference_head_logits_fn(struct device *device,
                                                     const struct head_logits_args *args);

/* Workspace bytes for `rows` sampled rows. */
size_t reference_head_sample_bytes(uint32_t threads, uint32_t rows, uint32_t vocabulary);

enum kernels_status reference_head_sample_by(struct device *device,
                                             const struct head_sample_args *args,
                                             reference_head_logits_fn *head_logits);

#endif
