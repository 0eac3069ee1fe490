/* The few words of CUDA that are not plain C++: a launch and shared memory, as macros, so that the
 * same .cu file is compiled by nvcc and, for the tests, by g++ over an emulation whose
 * cuda_runtime.h defines what stands in the #else.
 *
 *   CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...)   errors: cudaGetLastError
 *   CUDA_SHARED(float, tile, [32][33]);          static; an empty third argument gives a scalar
 *   CUDA_SHARED_DYNAMIC(float, rows);            float *rows: the launch's shared_bytes
 *   CUDA_UNROLL                                  before a loop whose arrays must be registers
 *   CUDA_UNROLL_BY(4)                            before one whose loads should overlap
 *
 * Plain <<<>>> and __shared__ do not compile outside nvcc, on purpose. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_LAUNCH_H
#define SOLFLEET_KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#include "kernels/view.h"

#if defined(__CUDACC__)

#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define CUDA_SHARED(type, name, dimensions) __shared__ type name dimensions
#define CUDA_SHARED_DYNAMIC(type, name)                          \
    extern __shared__ __align__(16) unsigned char cuda_shared[]; \
    type *name = reinterpret_cast<type *>(cuda_shared)
#define CUDA_UNROLL _Pragma("unroll")
#define CUDA_PRAGMA(text) _Pragma(#text)
#define CUDA_UNROLL_BY(count) CUDA_PRAGMA(unroll count)

#else

#define CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    emulation_launch(#kernel, (grid), (block), (shared_bytes), (stream), kernel, __VA_ARGS__)
#define CUDA_SHARED(type, name, dimensions)        \
    static const char name##_site = 0;             \
    auto &name = *static_cast<type(*) dimensions>( \
        emulation_shared_static(&name##_site, #name, sizeof(type dimensions)))
#define CUDA_SHARED_DYNAMIC(type, name) type *name = static_cast<type *>(emulation_shared_dynamic())
#define CUDA_UNROLL
#define CUDA_UNROLL_BY(count)

#endif

/* What a launcher answers once it has launched. */
static inline enum kernels_status cuda_launch_status() {
    return cudaGetLastError() == cudaSuccess ? KERNELS_OK : KERNELS_FAILED;
}

#endif
