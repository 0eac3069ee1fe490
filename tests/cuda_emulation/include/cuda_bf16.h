/* BF16 as storage, with conversions and no arithmetic: shadows the toolkit's header. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_BF16_H
#define SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_BF16_H

#include "kernels/canonical.h"

struct alignas(2) __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
    return canonical_float(static_cast<uint32_t>(value.bits) << 16);
}
/* Half to even; a NaN becomes CUDA's 0x7FFF. */
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    uint32_t bits = canonical_bits(x);
    uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return {static_cast<uint16_t>(x != x ? 0x7FFFu : rounded >> 16)};
}

#endif
