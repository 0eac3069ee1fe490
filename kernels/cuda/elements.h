/* How element-wise ops share out their elements: a block of 256 threads takes 1024 neighbours, a
 * thread four of them 256 apart, so that loads of a warp are contiguous and several are under way.
 * Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_ELEMENTS_H
#define SOLFLEET_KERNELS_CUDA_ELEMENTS_H

#include "kernels/cuda/launch.h"
#include "kernels/cuda/row.h"

#define ELEMENTS_A_THREAD 4u
#define ELEMENTS_A_BLOCK (ELEMENTS_A_THREAD * ROW_THREADS)

/* Calls each(i) for the thread's part of 0 .. count - 1, of which `block` takes a stretch. */
template <typename Each> ROW_FN void each_element(uint32_t block, size_t count, Each each) {
    size_t first = static_cast<size_t>(block) * ELEMENTS_A_BLOCK + threadIdx.x;
    CUDA_UNROLL
    for (uint32_t k = 0; k < ELEMENTS_A_THREAD; k++) {
        size_t i = first + k * ROW_THREADS;
        if (i < count) {
            each(i);
        }
    }
}

/* Blocks for so many elements; more than a grid has fail the launch. */
static inline uint32_t element_blocks(uint64_t count) {
    return static_cast<uint32_t>((count + ELEMENTS_A_BLOCK - 1u) / ELEMENTS_A_BLOCK);
}

#endif
