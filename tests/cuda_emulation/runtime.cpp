/* The rest of the runtime: the device, memory, copies and launches. */
#include <cstdlib>
#include <memory>

#include "tests/cuda_emulation/internal.h"

#define VERSION 13000
#define THREADS_MAX 1024u
#define GRID_Y_MAX 65535u

static size_t runtime_total_bytes = EMULATION_MEMORY_BYTES;

void emulation_set_memory(size_t total_bytes) {
    runtime_total_bytes = total_bytes;
}

static size_t free_bytes_now() {
    size_t used = emulation_device_bytes();
    return used < runtime_total_bytes ? runtime_total_bytes - used : 0;
}

cudaError_t cudaGetDeviceCount(int *count) {
    EMULATION_ENTER();
    if (count == nullptr) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *count = 1;
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
    EMULATION_ENTER();
    return emulation_leave(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    EMULATION_ENTER();
    if (properties == nullptr || device != 0) {
        return emulation_leave(properties == nullptr ? cudaErrorInvalidValue
                                                     : cudaErrorInvalidDevice);
    }
    *properties = {"emulation",
                   runtime_total_bytes,
                   EMULATION_SHARED_MAX,
                   warpSize,
                   static_cast<int>(THREADS_MAX),
                   4,
                   8,
                   0};
    return emulation_leave(cudaSuccess);
}

static cudaError_t give_version(int *version) {
    if (version == nullptr) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *version = VERSION;
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version) {
    EMULATION_ENTER();
    return give_version(version);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    EMULATION_ENTER();
    return give_version(version);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    EMULATION_ENTER();
    if (free_bytes == nullptr || total_bytes == nullptr) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    *free_bytes = free_bytes_now();
    *total_bytes = runtime_total_bytes;
    return emulation_leave(cudaSuccess);
}

/* ---------------------------------------------------------------- memory */

static cudaError_t allocate(emulation_kind kind, void **memory, size_t bytes) {
    if (memory == nullptr) {
        return cudaErrorInvalidValue;
    }
    if (emulation_is_capturing()) {
        return emulation_spoil_capture();
    }
    *memory = nullptr;
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (kind == EMULATION_DEVICE && bytes > free_bytes_now()) {
        return cudaErrorMemoryAllocation;
    }
    *memory = emulation_allocate(kind, kind == EMULATION_DEVICE ? "device" : "pinned", bytes);
    emulation_count(1);
    return cudaSuccess;
}

/* Waits for everything, as CUDA does. */
static cudaError_t release(emulation_kind kind, void *memory) {
    if (emulation_is_capturing()) {
        return emulation_spoil_capture();
    }
    emulation_drain(nullptr);
    if (memory == nullptr) {
        return cudaSuccess;
    }
    const emulation_allocation *one = emulation_at(memory);
    if (one == nullptr || one->kind != kind) {
        return cudaErrorInvalidValue;
    }
    emulation_release(memory);
    emulation_count(-1);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    EMULATION_ENTER();
    return emulation_leave(allocate(EMULATION_DEVICE, memory, bytes));
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    EMULATION_ENTER();
    return emulation_leave(allocate(EMULATION_PINNED, memory, bytes));
}

cudaError_t cudaFree(void *memory) {
    EMULATION_ENTER();
    return emulation_leave(release(EMULATION_DEVICE, memory));
}

cudaError_t cudaFreeHost(void *memory) {
    EMULATION_ENTER();
    return emulation_leave(release(EMULATION_PINNED, memory));
}

/* ---------------------------------------------------------------- copies */

/* A host range: within one pinned allocation, or touching none. */
static bool is_host_range(const void *host, size_t bytes) {
    return host != nullptr &&
           (emulation_find(host) == nullptr || emulation_holds(host, bytes, EMULATION_PINNED));
}

static bool is_device_range(const void *memory, size_t bytes) {
    return emulation_holds(memory, bytes, EMULATION_DEVICE);
}

static void copy_now(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDeviceToHost) {
        memcpy(to, from, bytes);
        return;
    }
    memmove(to, from, bytes);
    if (kind == cudaMemcpyHostToDevice) {
        emulation_mark_known(to, bytes);
    } else {
        emulation_copy_known(to, from, bytes);
    }
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    EMULATION_ENTER();
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (kind < cudaMemcpyHostToDevice || kind > cudaMemcpyDeviceToDevice) {
        return emulation_leave(cudaErrorInvalidMemcpyDirection);
    }
    if (bytes == 0) {
        return emulation_leave(cudaSuccess);
    }
    bool from_host = kind == cudaMemcpyHostToDevice;
    bool to_host = kind == cudaMemcpyDeviceToHost;
    if (!(from_host ? is_host_range(from, bytes) : is_device_range(from, bytes)) ||
        !(to_host ? is_host_range(to, bytes) : is_device_range(to, bytes))) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    const void *host = from_host ? from : to;
    bool is_pageable = (from_host || to_host) && emulation_find(host) == nullptr;
    if (is_pageable && emulation_is_capturing(stream)) {
        return emulation_leave(emulation_spoil_capture());
    }
    emulation_enqueue(stream, [=] { copy_now(to, from, bytes, kind); });
    emulation_note_bytes(bytes);
    if (is_pageable) { /* staged by the driver: done when the call returns */
        emulation_drain(stream);
    }
    return emulation_leave(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    EMULATION_ENTER();
    if (!emulation_is_stream(stream)) {
        return emulation_leave(cudaErrorInvalidResourceHandle);
    }
    if (bytes == 0) {
        return emulation_leave(cudaSuccess);
    }
    if (!is_device_range(to, bytes)) {
        return emulation_leave(cudaErrorInvalidValue);
    }
    emulation_enqueue(stream, [=] {
        memset(to, value, bytes);
        emulation_mark_known(to, bytes);
    });
    return emulation_leave(cudaSuccess);
}

/* ---------------------------------------------------------------- launches */

static bool is_shape(dim3 grid, dim3 block, size_t shared_bytes) {
    uint64_t threads = uint64_t{block.x} * block.y * block.z;
    return grid.x >= 1 && grid.x <= 0x7FFFFFFFu && grid.y >= 1 && grid.y <= GRID_Y_MAX &&
           grid.z == 1 && block.z == 1 && threads >= 1 && threads <= THREADS_MAX &&
           shared_bytes <= EMULATION_SHARED_MAX;
}

void *emulation_keep(size_t bytes) {
    return malloc(bytes);
}

void emulation_launch_call(const emulation_call &call, dim3 grid, dim3 block, size_t shared_bytes,
                           cudaStream_t stream) {
    std::shared_ptr<void> arguments(call.arguments, free);
    if (int error = emulation_enter("launch")) {
        emulation_leave(static_cast<cudaError_t>(error));
        return;
    }
    if (!is_shape(grid, block, shared_bytes)) {
        emulation_leave(cudaErrorInvalidConfiguration);
        return;
    }
    if (!emulation_is_stream(stream)) {
        emulation_leave(cudaErrorInvalidResourceHandle);
        return;
    }
    emulation_enqueue(stream, [=, kept = std::move(arguments)] {
        emulation_run_call(call, grid, block, shared_bytes);
    });
}
