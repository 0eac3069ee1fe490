/* The inner product of a tile of outputs by rows, for words of four INT8 values and for floats.
 *
 * A block of 256 threads computes 64 outputs by 16 * R rows: 16 threads by 4 outputs each, 16 by R
 * rows each. Both operands stand in shared memory step by step, so that a step is one vector of
 * outputs, one of rows and 4 * R multiply-adds, in ascending order. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_TILE_H
#define SOLFLEET_KERNELS_CUDA_TILE_H

#include <math.h>

#include "kernels/cuda/launch.h"
#include "kernels/view.h"

#define TILE_THREADS 256u
#define TILE_SIDE 16u /* threads across outputs, and across rows */
#define TILE_OUTPUTS_EACH 4u
#define TILE_OUTPUTS (TILE_SIDE * TILE_OUTPUTS_EACH)

/* `steps` rows of `width` words; the odd words keep threads of a warp off each other's banks. */
template <typename T, unsigned STEPS, unsigned WIDTH> struct alignas(16) tile_operand {
    T at[STEPS][WIDTH + 4u];
};

static __device__ __forceinline__ int tile_add(int x, int w, int sum) {
    return __dp4a(x, w, sum);
}
static __device__ __forceinline__ float tile_add(float x, float w, float sum) {
    return fmaf(x, w, sum);
}

static __device__ __forceinline__ void tile_vector(const int *from, int to[4]) {
    int4 v = *reinterpret_cast<const int4 *>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
static __device__ __forceinline__ void tile_vector(const float *from, float to[4]) {
    float4 v = *reinterpret_cast<const float4 *>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

/* Where the block's tile begins, and the thread's part within it. */
template <unsigned R> static __device__ __forceinline__ uint32_t tile_first_row() {
    return blockIdx.x * TILE_SIDE * R;
}
static __device__ __forceinline__ uint32_t tile_first_output() {
    return blockIdx.y * TILE_OUTPUTS;
}
static __device__ __forceinline__ uint32_t tile_output() {
    return threadIdx.x % TILE_SIDE * TILE_OUTPUTS_EACH;
}
template <unsigned R> static __device__ __forceinline__ uint32_t tile_row() {
    return threadIdx.x / TILE_SIDE * R;
}

template <unsigned R, typename T>
static __device__ __forceinline__ void tile_step(const T *w_step, const T *x_step,
                                                 T sum[R][TILE_OUTPUTS_EACH]) {
    T w[TILE_OUTPUTS_EACH], x[4];
    tile_vector(w_step + tile_output(), w);
    if (R == 4u) {
        tile_vector(x_step + tile_row<R>(), x);
    } else {
        for (unsigned r = 0; r < R; r++) {
            x[r] = x_step[tile_row<R>() + r];
        }
    }
    for (unsigned r = 0; r < R; r++) {
        for (unsigned o = 0; o < TILE_OUTPUTS_EACH; o++) {
            sum[r][o] = tile_add(x[r], w[o], sum[r][o]);
        }
    }
}

/* The first `steps` steps of the operands; all of them, mostly. */
template <unsigned R, typename T, unsigned STEPS>
static __device__ __forceinline__ void tile_multiply(const tile_operand<T, STEPS, TILE_OUTPUTS> &w,
                                                     const tile_operand<T, STEPS, TILE_SIDE * R> &x,
                                                     uint32_t steps, T sum[R][TILE_OUTPUTS_EACH]) {
    if (steps == STEPS) {
        for (unsigned step = 0; step < STEPS; step++) {
            tile_step<R>(w.at[step], x.at[step], sum);
        }
        return;
    }
    for (uint32_t step = 0; step < steps; step++) {
        tile_step<R>(w.at[step], x.at[step], sum);
    }
}

/* Calls visit(t, n, r, o) for the thread's sums [r][o] that are of a row and an output. */
template <unsigned R, typename Visit>
static __device__ __forceinline__ void tile_each(uint32_t rows, uint32_t outputs, Visit visit) {
    for (unsigned r = 0; r < R; r++) {
        for (unsigned o = 0; o < TILE_OUTPUTS_EACH; o++) {
            uint32_t t = tile_first_row<R>() + tile_row<R>() + r;
            uint32_t n = tile_first_output() + tile_output() + o;
            if (t < rows && n < outputs) {
                visit(t, n, r, o);
            }
        }
    }
}

/* Tiles of rows in the first dimension, so that blocks that run together share weights. */
static inline dim3 tile_grid(uint32_t rows, uint32_t rows_each, uint32_t n) {
    return dim3((rows - 1u) / (TILE_SIDE * rows_each) + 1u, (n - 1u) / TILE_OUTPUTS + 1u);
}

/* Rows of a thread that waste least: tiles of 16, 32 or 64 rows. */
static inline uint32_t tile_rows_each(uint32_t rows) {
    return rows <= TILE_SIDE ? 1u : rows <= 2u * TILE_SIDE ? 2u : 4u;
}

#endif
