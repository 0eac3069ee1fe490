/* The epilogue of the INT8 product of a tier whose weights have the forms of avx2/weight.h. Private
 * to kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_DEQUANTIZE_H
#define SOLFLEET_KERNELS_X86_AVX2_DEQUANTIZE_H

#include "kernels/x86/avx2/weight.h"

enum kernels_status avx2_dequantize_by(struct device *device, const struct dequantize_args *args,
                                       avx2_values_bytes_fn *values_bytes);

#endif
