/* Kernels without a mistake, for the tests of the emulation itself. */
#include "kernels/cuda/launch.h"
#include "tests/cuda_emulation/sample_kernels.h"

#define FULL_MASK 0xFFFFFFFFu
#define SUM_THREADS 64
#define TILE 16

/* ---------------------------------------------------------------- kernels */

static __global__ void block_sum(const int *x, int *sum, int count) {
    CUDA_SHARED(int, part, [SUM_THREADS]);
    int t = static_cast<int>(threadIdx.x);
    int i = static_cast<int>(blockIdx.x) * SUM_THREADS + t;
    part[t] = i < count ? x[i] : 0;
    __syncthreads();
    for (int half = SUM_THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            part[t] += part[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        sum[blockIdx.x] = part[0];
    }
}

static __global__ void transpose(const float *x, float *y, int rows, int columns) {
    CUDA_SHARED(float, tile, [TILE][TILE + 1]);
    int column = static_cast<int>(blockIdx.x * TILE + threadIdx.x);
    int row = static_cast<int>(blockIdx.y * TILE + threadIdx.y);
    if (row < rows && column < columns) {
        tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    }
    __syncthreads();
    row = static_cast<int>(blockIdx.y * TILE + threadIdx.x);
    column = static_cast<int>(blockIdx.x * TILE + threadIdx.y);
    if (row < rows && column < columns) {
        y[column * rows + row] = tile[threadIdx.x][threadIdx.y];
    }
}

static __global__ void warp_sum(const float *x, float *xor_sum, float *down_sum) {
    float by_xor = x[threadIdx.x], by_down = by_xor;
    for (int distance = 16; distance > 0; distance /= 2) {
        by_xor += __shfl_xor_sync(FULL_MASK, by_xor, distance);
        by_down += __shfl_down_sync(FULL_MASK, by_down, distance);
    }
    xor_sum[threadIdx.x] = by_xor;
    if (threadIdx.x == 0) {
        *down_sum = by_down;
    }
}

static __global__ void warp_exchange(const int *x, int *y) {
    CUDA_SHARED(int, row, [32]);
    row[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = row[31 - threadIdx.x];
}

static __global__ void ballot(const int *x, unsigned *votes) {
    unsigned all = __ballot_sync(FULL_MASK, x[threadIdx.x] > 0);
    if (threadIdx.x % 32 == 0) {
        votes[threadIdx.x / 32] = all;
    }
}

static __global__ void dot(const int4 *a, const int4 *b, int *out, int vectors) {
    int sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < vectors; i += 32) {
        int4 u = a[i], v = b[i];
        sum = __dp4a(u.x, v.x, sum);
        sum = __dp4a(u.y, v.y, sum);
        sum = __dp4a(u.z, v.z, sum);
        sum = __dp4a(u.w, v.w, sum);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    }
    if (threadIdx.x == 0) {
        *out = sum;
    }
}

static __global__ void histogram(const int *x, int *counts, int count) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        atomicAdd(&counts[x[i]], 1);
    }
}

static __global__ void reverse(const float *x, float *y, int count) {
    CUDA_SHARED_DYNAMIC(float, row);
    int i = static_cast<int>(threadIdx.x);
    row[i] = x[i];
    __syncthreads();
    y[i] = row[count - 1 - i];
}

static __global__ void halves(const float *x, __half *y, int count) {
    int i = static_cast<int>(threadIdx.x);
    if (i < count) {
        y[i] = __float2half_rn(x[i]);
    }
}

static __global__ void copy4(const float4 *x, float4 *y) {
    y[threadIdx.x] = x[threadIdx.x];
}

static __global__ void fill(int *x, int value, int count) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        x[i] = value;
    }
}

static __global__ void take_order(int *ticket, int *order) {
    order[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(ticket, 1);
}

static __global__ void nothing(int) {
}

/* ---------------------------------------------------------------- launchers */

static unsigned blocks_of(int count, int width) {
    return static_cast<unsigned>((count + width - 1) / width);
}

void right_block_sum(const int *x, int *sum, int count, cudaStream_t stream) {
    CUDA_LAUNCH(block_sum, blocks_of(count, SUM_THREADS), SUM_THREADS, 0, stream, x, sum, count);
}

void right_transpose(const float *x, float *y, int rows, int columns, cudaStream_t stream) {
    CUDA_LAUNCH(transpose, dim3(blocks_of(columns, TILE), blocks_of(rows, TILE)), dim3(TILE, TILE),
                0, stream, x, y, rows, columns);
}

void right_warp_sum(const float *x, float *xor_sum, float *down_sum, cudaStream_t stream) {
    CUDA_LAUNCH(warp_sum, 1, 32, 0, stream, x, xor_sum, down_sum);
}

void right_warp_exchange(const int *x, int *y, cudaStream_t stream) {
    CUDA_LAUNCH(warp_exchange, 1, 32, 0, stream, x, y);
}

void right_ballot(const int *x, unsigned *votes, cudaStream_t stream) {
    CUDA_LAUNCH(ballot, 1, 64, 0, stream, x, votes);
}

void right_dot(const int8_t *a, const int8_t *b, int *out, int bytes, cudaStream_t stream) {
    CUDA_LAUNCH(dot, 1, 32, 0, stream, reinterpret_cast<const int4 *>(a),
                reinterpret_cast<const int4 *>(b), out, bytes / 16);
}

void right_histogram(const int *x, int *counts, int count, cudaStream_t stream) {
    CUDA_LAUNCH(histogram, blocks_of(count, 32), 32, 0, stream, x, counts, count);
}

void right_reverse(const float *x, float *y, int count, cudaStream_t stream) {
    CUDA_LAUNCH(reverse, 1, static_cast<unsigned>(count),
                sizeof(float) * static_cast<size_t>(count), stream, x, y, count);
}

void right_halves(const float *x, __half *y, int count, cudaStream_t stream) {
    CUDA_LAUNCH(halves, 1, 64, 0, stream, x, y, count);
}

void right_copy4(const float *x, float *y, int count, cudaStream_t stream) {
    CUDA_LAUNCH(copy4, 1, static_cast<unsigned>(count / 4), 0, stream,
                reinterpret_cast<const float4 *>(x), reinterpret_cast<float4 *>(y));
}

void right_fill(int *x, int value, int count, cudaStream_t stream) {
    CUDA_LAUNCH(fill, blocks_of(count, 32), 32, 0, stream, x, value, count);
}

void right_order(int *ticket, int *order, cudaStream_t stream) {
    CUDA_LAUNCH(take_order, 4, 64, 0, stream, ticket, order);
}

void right_rejected(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
    CUDA_LAUNCH(nothing, grid, block, shared_bytes, stream, 0);
}
