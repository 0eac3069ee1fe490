/* Halves as storage, with conversions and no arithmetic: shadows the toolkit's header. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_FP16_H
#define SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_FP16_H

#include "kernels/canonical.h"

struct alignas(2) __half {
    uint16_t bits;
};

inline float __half2float(__half half) {
    return canonical_f16_to_f32(half.bits);
}
inline __half __float2half_rn(float x) {
    return {canonical_f32_to_f16(x)};
}
inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}
inline unsigned short __half_as_ushort(__half half) {
    return half.bits;
}

#endif
