/* Reading F16 and F32 weights out of their panels (weight.h): 16 bytes of one output at a time.
 *
 * panel_f16 and panel_f32 are the same words for both. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_PANEL_H
#define SOLFLEET_KERNELS_CUDA_PANEL_H

#include <cuda_fp16.h>

#include "kernels/cuda/weight.h"

static __device__ __forceinline__ float panel_half(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

static __device__ __forceinline__ void panel_halves(unsigned two, float *to) {
    to[0] = panel_half(two & 0xFFFFu);
    to[1] = panel_half(two >> 16);
}

struct panel_f16 {
    static const unsigned ELEMENTS = 8;

    static __device__ __forceinline__ void unpack(uint4 v, float w[ELEMENTS]) {
        panel_halves(v.x, w);
        panel_halves(v.y, w + 2);
        panel_halves(v.z, w + 4);
        panel_halves(v.w, w + 6);
    }
};

struct panel_f32 {
    static const unsigned ELEMENTS = 4;

    static __device__ __forceinline__ void unpack(uint4 v, float w[ELEMENTS]) {
        w[0] = canonical_float(v.x);
        w[1] = canonical_float(v.y);
        w[2] = canonical_float(v.z);
        w[3] = canonical_float(v.w);
    }
};

/* Inputs step * ELEMENTS onwards of output n. */
template <typename Panel>
static __device__ __forceinline__ void panel_read(const void *values, uint32_t n, uint32_t step,
                                                  uint32_t steps, float w[Panel::ELEMENTS]) {
    Panel::unpack(static_cast<const uint4 *>(values)[weight_panel_vector(n, step, steps)], w);
}

#endif
