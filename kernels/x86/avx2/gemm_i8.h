/* The INT8 matrix product of a tier whose weights have the forms of avx2/weight.h. Private to
 * kernels: the tier gives the sums of a range of panels, other forms go to the reference. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_GEMM_I8_H
#define SOLFLEET_KERNELS_X86_AVX2_GEMM_I8_H

#include "kernels/ops.h"
#include "kernels/pool.h"

/* panels: called with the args as context; its items are panels. */
enum kernels_status avx2_gemm_i8_by(struct device *device, const struct gemm_i8_args *args,
                                    pool_range_fn *panels);

#endif
