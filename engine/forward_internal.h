/* A forward pass from inside: what its parts share. Private to engine/forward*.c. */
#ifndef SOLFLEET_ENGINE_FORWARD_INTERNAL_H
#define SOLFLEET_ENGINE_FORWARD_INTERNAL_H

#include "engine/forward_ahead.h"
#include "engine/forward_graphs.h"
#include "engine/forward_memory.h"

#define FORWARD_LOGITS_ROWS 32u /* of forward_run_logits at a time */

struct forward {
    const struct model *model;    /* borrowed */
    struct device *device;        /* borrowed */
    const struct kernel_ops *ops; /* borrowed */
    struct forward_options options;
    struct forward_memory memory;
    struct forward_ahead ahead;   /* zeroed unless options.sends_ahead */
    struct forward_graphs graphs; /* of whole passes, sampling included */
    float *logits;                /* device f32 [FORWARD_LOGITS_ROWS, V]; made when first needed */
    float *tapped;                /* host f32 [sampled_max, V]; NULL without a tap */
    const char *fault_op;         /* what a pass failed in */
    enum kernels_status fault;
};

/* Remembers what failed; true when nothing did. */
static inline bool forward_note(struct forward *forward, const char *op,
                                enum kernels_status status) {
    if (status != KERNELS_OK) {
        forward->fault_op = op;
        forward->fault = status;
    }
    return status == KERNELS_OK;
}

#define FORWARD_CALL(forward, op, arguments) \
    forward_note((forward), #op, (forward)->ops->op((forward)->device, (arguments)))

#endif
