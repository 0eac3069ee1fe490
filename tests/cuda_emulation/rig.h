/* What tests of the emulation share: a fresh device for each seed, memory filled from the host, and
 * results read back. Shuffled orders: `rig_each_seed` runs a body twice, or SOLFLEET_CUDA_SHUFFLES
 * times. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_RIG_H
#define SOLFLEET_TESTS_CUDA_EMULATION_RIG_H

#include <cuda_runtime.h>

#include <vector>

extern "C" {
#include "tests/support/test.h"
}
#include "tests/cuda_emulation/emulation.h"

struct rig {
    cudaStream_t stream, other;
};

/* Each run gets a device of its own, which the body must leave with nothing live but the streams,
 * unless it ended in a fault. */
void rig_each_seed(void (*body)(rig &));

#define assert_cuda(call) assert_int_equal(call, cudaSuccess)

template <typename T> T *rig_memory(size_t count) {
    void *memory = nullptr;
    assert_cuda(cudaMalloc(&memory, count * sizeof(T)));
    return static_cast<T *>(memory);
}

template <typename T> T *rig_memory_of(const rig &rig, const std::vector<T> &values) {
    T *memory = rig_memory<T>(values.size());
    assert_cuda(cudaMemcpyAsync(memory, values.data(), values.size() * sizeof(T),
                                cudaMemcpyHostToDevice, rig.stream));
    return memory;
}

/* Waits, reads back and frees. */
template <typename T> std::vector<T> rig_take(const rig &rig, T *memory, size_t count) {
    std::vector<T> values(count);
    assert_cuda(cudaGetLastError());
    assert_cuda(cudaMemcpyAsync(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost,
                                rig.stream));
    assert_cuda(cudaFree(memory));
    return values;
}

/* The work on the stream ends in this fault, which the device keeps. */
void rig_expect(const rig &rig, emulation_fault fault, cudaError_t error);

#endif
