/* The table of the CUDA back end's kernels: thin wrappers of cuda_ops.h. Immutable; any thread.
 * Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUDA_TABLE_H
#define SOLFLEET_KERNELS_CUDA_CUDA_TABLE_H

#include "kernels/ops.h"

const struct kernel_ops *cuda_table(void);

#endif
