/* A mask of the first lanes of 16. Private to kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX512_MASK_H
#define SOLFLEET_KERNELS_X86_AVX512_MASK_H

#include <immintrin.h>
#include <stdint.h>

/* The lanes below `count`, which may exceed 16. */
static inline __mmask16 avx512_first_lanes(uint32_t count) {
    uint32_t lanes = count < 16 ? (1u << count) - 1u : 0xFFFFu;
    return (__mmask16)lanes;
}

#endif
