/* A CUDA device: what device.c dispatches to, and what the wrappers of ops need of it.
 *
 * Two streams that wait for nothing but their own work, cuBLASLt, and the card's properties. Every
 * call is made on the thread that entered last (device_enter_thread binds the card to it). A
 * failure of a call leaves no error behind for the launchers' cudaGetLastError. Private to
 * kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUDA_DEVICE_H
#define SOLFLEET_KERNELS_CUDA_CUDA_DEVICE_H

#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_blas.h"

struct cuda_device {
    struct device base; /* first: device.c sees only this */
    int index;
    cudaStream_t streams[DEVICE_STREAM_COUNT]; /* owned */
    struct cublaslt_api cublaslt;              /* open */
    struct cuda_blas *blas;                    /* owned */
    char name[DEVICE_NAME_BYTES_MAX];
    int sm; /* compute capability, 80 for 8.0 */
    size_t memory_bytes;
};

static inline struct cuda_device *cuda_device_of(struct device *device) {
    return reinterpret_cast<struct cuda_device *>(device);
}

/* Where kernels are launched. */
static inline cudaStream_t cuda_device_stream(struct device *device) {
    return cuda_device_of(device)->streams[DEVICE_STREAM_COMPUTE];
}

#endif
