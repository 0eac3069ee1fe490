/* Kernels with one mistake each, which the emulation must find. */
#include "kernels/cuda/launch.h"
#include "tests/cuda_emulation/sample_kernels.h"

#define FULL_MASK 0xFFFFFFFFu

/* ---------------------------------------------------------------- kernels */

static __global__ void no_barrier(const float *x, float *y, int count) {
    CUDA_SHARED_DYNAMIC(float, row);
    int i = static_cast<int>(threadIdx.x);
    row[i] = x[i];
    y[i] = row[count - 1 - i];
}

/* A shuffle brings lanes together, and yet orders no memory. */
static __global__ void no_warp_barrier(const int *x, int *y) {
    CUDA_SHARED(int, row, [32]);
    row[threadIdx.x] = x[threadIdx.x];
    int own = __shfl_xor_sync(FULL_MASK, x[threadIdx.x], 1);
    y[threadIdx.x] = row[31 - threadIdx.x] + own;
}

static __global__ void blocks_collide(int *x) {
    if (threadIdx.x == 0) {
        x[0] = static_cast<int>(blockIdx.x);
    }
}

static __global__ void plain_beside_atomic(int *x) {
    if (threadIdx.x == 0) {
        x[0] = 7;
    } else {
        atomicAdd(x, 1);
    }
}

static __global__ void read_past(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}

static __global__ void write_before(float *y) {
    y[static_cast<int>(threadIdx.x) - 1] = 1.0f;
}

static __global__ void shared_past(float *y) {
    CUDA_SHARED(float, first, [32]);
    CUDA_SHARED(float, second, [32]);
    float *shifted = first; /* UBSan knows the array's bounds, and would be first */
    shifted[threadIdx.x + 1] = 1.0f;
    second[threadIdx.x] = 2.0f;
    __syncthreads();
    y[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
}

static __global__ void uninitialised_shared(float *y) {
    CUDA_SHARED(float, row, [64]);
    row[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = row[threadIdx.x * 2];
}

static __global__ void branch_barrier(int *y) {
    if (threadIdx.x < 16) {
        __syncthreads();
    }
    y[threadIdx.x] = __shfl_xor_sync(FULL_MASK, 1, 1);
}

static __global__ void early_return(int *y) {
    if (threadIdx.x == 5) {
        return;
    }
    __syncthreads();
    y[threadIdx.x] = 1;
}

static __global__ void two_barriers(int *y) {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    y[threadIdx.x] = 1;
}

static __global__ void partial_mask(int *y) {
    y[threadIdx.x] = __shfl_xor_sync(0xFFFFu, 1, 1);
}

static __global__ void misaligned4(const float *x, float *y) {
    float4 v = *reinterpret_cast<const float4 *>(x + 1);
    y[0] = v.x;
}

static __global__ void misaligned2(const int *x, int *y) {
    *reinterpret_cast<int2 *>(y + 1) = make_int2(x[0], x[1]);
}

static __global__ void too_much_shared(float *y) {
    CUDA_SHARED(float, first, [8192]);
    CUDA_SHARED(float, second, [8192]);
    first[threadIdx.x] = second[threadIdx.x] = 1.0f;
    y[threadIdx.x] = first[threadIdx.x];
}

/* ---------------------------------------------------------------- launchers */

void broken_no_barrier(const float *x, float *y, int count, cudaStream_t stream) {
    CUDA_LAUNCH(no_barrier, 1, static_cast<unsigned>(count),
                sizeof(float) * static_cast<size_t>(count), stream, x, y, count);
}

void broken_no_warp_barrier(const int *x, int *y, cudaStream_t stream) {
    CUDA_LAUNCH(no_warp_barrier, 1, 32, 0, stream, x, y);
}

void broken_blocks_collide(int *x, cudaStream_t stream) {
    CUDA_LAUNCH(blocks_collide, 2, 32, 0, stream, x);
}

void broken_plain_beside_atomic(int *x, cudaStream_t stream) {
    CUDA_LAUNCH(plain_beside_atomic, 1, 32, 0, stream, x);
}

void broken_read_past(const float *x, float *y, int count, cudaStream_t stream) {
    CUDA_LAUNCH(read_past, 1, static_cast<unsigned>(count), 0, stream, x, y);
}

void broken_write_before(float *y, cudaStream_t stream) {
    CUDA_LAUNCH(write_before, 1, 32, 0, stream, y);
}

void broken_shared_past(float *y, cudaStream_t stream) {
    CUDA_LAUNCH(shared_past, 1, 32, 0, stream, y);
}

void broken_uninitialised_shared(float *y, cudaStream_t stream) {
    CUDA_LAUNCH(uninitialised_shared, 1, 32, 0, stream, y);
}

void broken_branch_barrier(int *y, cudaStream_t stream) {
    CUDA_LAUNCH(branch_barrier, 1, 32, 0, stream, y);
}

void broken_early_return(int *y, cudaStream_t stream) {
    CUDA_LAUNCH(early_return, 1, 32, 0, stream, y);
}

void broken_two_barriers(int *y, cudaStream_t stream) {
    CUDA_LAUNCH(two_barriers, 1, 32, 0, stream, y);
}

void broken_partial_mask(int *y, cudaStream_t stream) {
    CUDA_LAUNCH(partial_mask, 1, 32, 0, stream, y);
}

void broken_misaligned4(const float *x, float *y, cudaStream_t stream) {
    CUDA_LAUNCH(misaligned4, 1, 1, 0, stream, x, y);
}

void broken_misaligned2(const int *x, int *y, cudaStream_t stream) {
    CUDA_LAUNCH(misaligned2, 1, 1, 0, stream, x, y);
}

void broken_too_much_shared(float *y, cudaStream_t stream) {
    CUDA_LAUNCH(too_much_shared, 1, 32, 0, stream, y);
}

float broken_host_reads(const float *x) {
    return x[0];
}
