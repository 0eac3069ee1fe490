/* The part of CUDA that kernels/cuda may use, for g++: shadows the toolkit's header of this name.
 *
 * What is not declared here does not compile: that is how the subset is kept. The numbers of enums
 * are the toolkit's. tests/cuda_emulation/README.md says what is checked, and what cannot be. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H
#define SOLFLEET_TESTS_CUDA_EMULATION_INCLUDE_CUDA_RUNTIME_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulation/include/vector_types.h"

/* ---------------------------------------------------------------- runtime */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorMisalignedAddress = 716,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureIsolation = 905
};

enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int warpSize, maxThreadsPerBlock, multiProcessorCount, major, minor;
};

typedef struct emulation_stream *cudaStream_t;
typedef struct emulation_event *cudaEvent_t;
typedef struct emulation_graph *cudaGraph_t;
typedef struct emulation_graph_exec *cudaGraphExec_t;

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* ---------------------------------------------------------------- kernels */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};
struct uint3 {
    unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

void emulation_syncthreads(int line);
void emulation_syncwarp(int line);
unsigned emulation_ballot(int line, unsigned mask, bool predicate);
/* The value of lane `lane ^ distance`, or of `lane + distance` (one's own past the warp). */
uint64_t emulation_shuffle(int line, unsigned mask, uint64_t value, unsigned distance, bool is_xor);

template <typename T>
T emulation_shuffle_of(int line, unsigned mask, T value, unsigned distance, bool is_xor) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles words of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulation_shuffle(line, mask, bits, distance, is_xor);
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define __syncthreads() emulation_syncthreads(__LINE__)
#define __syncwarp() emulation_syncwarp(__LINE__)
#define __ballot_sync(mask, predicate) emulation_ballot(__LINE__, mask, (predicate) != 0)
#define __shfl_xor_sync(mask, value, distance) \
    emulation_shuffle_of(__LINE__, mask, value, static_cast<unsigned>(distance), true)
#define __shfl_down_sync(mask, value, distance) \
    emulation_shuffle_of(__LINE__, mask, value, static_cast<unsigned>(distance), false)

int atomicAdd(int *address, int value);
unsigned atomicAdd(unsigned *address, unsigned value);
unsigned long long atomicAdd(unsigned long long *address, unsigned long long value);
int atomicMax(int *address, int value);
unsigned atomicMax(unsigned *address, unsigned value);
int atomicMin(int *address, int value);
unsigned atomicMin(unsigned *address, unsigned value);
unsigned atomicOr(unsigned *address, unsigned value);
unsigned atomicCAS(unsigned *address, unsigned compare, unsigned value);

inline int __dp4a(int a, int b, int c) {
    unsigned sum = static_cast<unsigned>(c);
    for (int i = 0; i < 32; i += 8) {
        int product = static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
        sum += static_cast<unsigned>(product);
    }
    return static_cast<int>(sum);
}

/* ---------------------------------------------------------------- launches */

/* A kernel with its arguments, copied when it was launched or captured. */
struct emulation_call {
    const char *name;
    void (*run)(const void *arguments); /* what one thread does */
    void *arguments;                    /* of emulation_keep; whoever is given the call frees */
    size_t argument_bytes;
};

void emulation_launch_call(const emulation_call &call, dim3 grid, dim3 block, size_t shared_bytes,
                           cudaStream_t stream);
void *emulation_keep(size_t bytes);
void *emulation_shared_static(const void *site, const char *name, size_t bytes);
void *emulation_shared_dynamic();

template <typename... Parameters, typename... Arguments>
void emulation_launch(const char *name, dim3 grid, dim3 block, size_t shared_bytes,
                      cudaStream_t stream, void (*kernel)(Parameters...), Arguments &&...given) {
    struct closure {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    static_assert((std::is_trivially_destructible<Parameters>::value && ...),
                  "arguments of kernels are plain values");
    auto *kept = new (emulation_keep(sizeof(closure)))
        closure{kernel, std::tuple<Parameters...>(std::forward<Arguments>(given)...)};
    auto run = [](const void *arguments) {
        const closure *self = static_cast<const closure *>(arguments);
        std::apply(self->kernel, self->arguments);
    };
    emulation_launch_call({name, run, kept, sizeof(closure)}, grid, block, shared_bytes, stream);
}

#endif
