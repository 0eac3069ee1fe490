/* Where an op's results lie: what can be compared between devices, bit by bit.
 *
 * Pure; any thread. Left out: `bad`, which is OR-ed into what was there; columns and pages whose
 * contents or layout belong to a back end (a page's show in what attention makes of them). */
#ifndef SOLFLEET_KERNELS_OP_OUTPUTS_H
#define SOLFLEET_KERNELS_OP_OUTPUTS_H

#include "kernels/op_watch.h"

#define OP_OUTPUTS_MAX 4u

/* Device memory: `rows` pieces of row_bytes, stride_bytes apart. */
struct op_output {
    const void *data;
    size_t row_bytes, stride_bytes;
    uint32_t rows;
};

/* Gives the results of a call; returns how many. */
size_t op_outputs(const struct watched_op *seen, struct op_output outputs[OP_OUTPUTS_MAX]);

#endif
