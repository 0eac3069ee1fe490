#include "kernels/cuda/cuda_device.h"

#include <new>

#include <stdio.h>

#include "kernels/cuda/cuda_table.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda_backend.h"
extern "C" {
#include "kernels/pool.h"
}

#define CUDA_DEVICE_SM_MIN 80 /* INT8 tensor cores as cuBLASLt wants them, dp4a, 16-bit storage */

/* ---------------------------------------------------------------- errors */

/* Forgets what the call left behind: an error of one call is not the next launch's. An error that
 * stays on the device comes again by itself. */
static enum kernels_status status_of(cudaError_t error) {
    if (error == cudaSuccess) {
        return KERNELS_OK;
    }
    (void)cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? KERNELS_NO_MEMORY : KERNELS_FAILED;
}

/* The status of a call, and the device's own words. */
static enum kernels_status explained(const char *call, cudaError_t error, char *err,
                                     size_t err_bytes) {
    if (error != cudaSuccess) {
        snprintf(err, err_bytes, "%s: %s (%s)", call, cudaGetErrorString(error),
                 cudaGetErrorName(error));
    }
    return status_of(error);
}

static bool is_stream(enum device_stream stream) {
    return static_cast<unsigned>(stream) < DEVICE_STREAM_COUNT;
}

static cudaStream_t stream_of(struct device *device, enum device_stream stream) {
    return cuda_device_of(device)->streams[stream];
}

/* ---------------------------------------------------------------- description */

/* FNV-1a of what the card calls itself, its slice included: what the library chooses for a card
 * depends on its model. */
static unsigned model_digits(const char *name) {
    unsigned hash = 2166136261u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
    }
    return hash;
}

static void describe(const struct device *device, struct device_info *info) {
    const auto *cuda = reinterpret_cast<const struct cuda_device *>(device);
    size_t total_bytes = 0;
    *info = {};
    snprintf(info->name, sizeof info->name, "%s", cuda->name);
    snprintf(info->tier, sizeof info->tier, "%s", device->ops->tier);
    snprintf(info->numerics, sizeof info->numerics, "cuda-sm%d-1", cuda->sm);
    snprintf(info->numerics_fast, sizeof info->numerics_fast, "%.15s-fast-cublaslt%zu-%08x",
             info->numerics, cuda_blas_version(cuda->blas), model_digits(cuda->name));
    info->memory_bytes = cuda->memory_bytes;
    if (status_of(cudaMemGetInfo(&info->memory_free_bytes, &total_bytes)) != KERNELS_OK) {
        info->memory_free_bytes = 0; /* the next call that can fail says why */
    }
    info->few_rows = 8;
    info->fixed_row_shapes = true;
    info->has_graphs = true;
}

/* Packing of weights is the host's arithmetic: it needs the same mode as the CPU's kernels. */
static void enter_thread(struct device *device) {
    (void)status_of(cudaSetDevice(cuda_device_of(device)->index));
    pool_enter_thread();
}

/* ---------------------------------------------------------------- memory and copies */

static enum kernels_status alloc(struct device *device, enum device_memory kind, size_t bytes,
                                 void **out) {
    (void)device;
    cudaError_t error = kind == DEVICE_MEMORY ? cudaMalloc(out, bytes) : cudaMallocHost(out, bytes);
    if (error != cudaSuccess) {
        *out = nullptr;
    }
    return status_of(error);
}

/* A failure here is one of the device's, which its next synchronisation tells. */
static void release(struct device *device, enum device_memory kind, void *memory) {
    (void)device;
    (void)status_of(kind == DEVICE_MEMORY ? cudaFree(memory) : cudaFreeHost(memory));
}

static enum kernels_status copy(struct device *device, enum device_stream stream, void *to,
                                const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) {
        return KERNELS_OK;
    }
    if (to == nullptr || from == nullptr || !is_stream(stream)) {
        return KERNELS_INVALID;
    }
    return status_of(cudaMemcpyAsync(to, from, bytes, kind, stream_of(device, stream)));
}

static enum kernels_status copy_in(struct device *device, enum device_stream stream, void *to,
                                   const void *host, size_t bytes) {
    return copy(device, stream, to, host, bytes, cudaMemcpyHostToDevice);
}

static enum kernels_status copy_out(struct device *device, enum device_stream stream, void *host,
                                    const void *from, size_t bytes) {
    return copy(device, stream, host, from, bytes, cudaMemcpyDeviceToHost);
}

static enum kernels_status copy_within(struct device *device, enum device_stream stream, void *to,
                                       const void *from, size_t bytes) {
    return copy(device, stream, to, from, bytes, cudaMemcpyDeviceToDevice);
}

static enum kernels_status fill(struct device *device, enum device_stream stream, void *to,
                                uint8_t value, size_t bytes) {
    if (bytes == 0) {
        return KERNELS_OK;
    }
    if (to == nullptr || !is_stream(stream)) {
        return KERNELS_INVALID;
    }
    return status_of(cudaMemsetAsync(to, value, bytes, stream_of(device, stream)));
}

/* ---------------------------------------------------------------- order and waiting */

static cudaEvent_t cuda_event(struct device_event *event) {
    return reinterpret_cast<cudaEvent_t>(event);
}

static enum kernels_status event_open(struct device *device, struct device_event **out) {
    (void)device;
    cudaEvent_t event = nullptr;
    enum kernels_status status =
        status_of(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    *out = reinterpret_cast<struct device_event *>(event);
    return status;
}

static void event_close(struct device *device, struct device_event *event) {
    (void)device;
    (void)status_of(cudaEventDestroy(cuda_event(event)));
}

static enum kernels_status event_record(struct device *device, struct device_event *event,
                                        enum device_stream stream) {
    if (event == nullptr || !is_stream(stream)) {
        return KERNELS_INVALID;
    }
    return status_of(cudaEventRecord(cuda_event(event), stream_of(device, stream)));
}

static enum kernels_status event_wait(struct device *device, struct device_event *event,
                                      enum device_stream stream) {
    if (event == nullptr || !is_stream(stream)) {
        return KERNELS_INVALID;
    }
    return status_of(cudaStreamWaitEvent(stream_of(device, stream), cuda_event(event), 0));
}

static enum kernels_status sync_device(struct device *device, char *err, size_t err_bytes) {
    (void)device;
    return explained("the device", cudaDeviceSynchronize(), err, err_bytes) == KERNELS_OK
               ? KERNELS_OK
               : KERNELS_FAILED;
}

static enum kernels_status sync_stream(struct device *device, enum device_stream stream, char *err,
                                       size_t err_bytes) {
    if (!is_stream(stream)) {
        return KERNELS_INVALID;
    }
    return explained("the device", cudaStreamSynchronize(stream_of(device, stream)), err,
                     err_bytes) == KERNELS_OK
               ? KERNELS_OK
               : KERNELS_FAILED;
}

/* ---------------------------------------------------------------- graphs */

static enum kernels_status graph_begin(struct device *device) {
    return status_of(
        cudaStreamBeginCapture(cuda_device_stream(device), cudaStreamCaptureModeThreadLocal));
}

static enum kernels_status graph_end(struct device *device, struct device_graph **out) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    enum kernels_status status =
        status_of(cudaStreamEndCapture(cuda_device_stream(device), &graph));
    if (status != KERNELS_OK) {
        return status;
    }
    status = status_of(cudaGraphInstantiate(&exec, graph, 0));
    (void)status_of(cudaGraphDestroy(graph));
    *out = status == KERNELS_OK ? reinterpret_cast<struct device_graph *>(exec) : nullptr;
    return status;
}

static enum kernels_status graph_launch(struct device *device, struct device_graph *graph) {
    return status_of(
        cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), cuda_device_stream(device)));
}

static void graph_close(struct device *device, struct device_graph *graph) {
    (void)device;
    (void)status_of(cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph)));
}

/* ---------------------------------------------------------------- life */

static void close_device(struct device *device) {
    struct cuda_device *cuda = cuda_device_of(device);
    for (cudaStream_t stream : cuda->streams) {
        if (stream != nullptr) {
            (void)status_of(cudaStreamDestroy(stream));
        }
    }
    cuda_blas_close(cuda->blas);
    cublaslt_api_close(&cuda->cublaslt);
    delete cuda;
}

static constexpr struct backend make_backend() {
    struct backend table = {};
    table.close = close_device;
    table.describe = describe;
    table.enter_thread = enter_thread;
    table.alloc = alloc;
    table.free = release;
    table.copy_in = copy_in;
    table.copy_out = copy_out;
    table.copy_within = copy_within;
    table.fill = fill;
    table.event_open = event_open;
    table.event_close = event_close;
    table.event_record = event_record;
    table.event_wait = event_wait;
    table.sync = sync_device;
    table.sync_stream = sync_stream;
    table.graph_begin = graph_begin;
    table.graph_end = graph_end;
    table.graph_launch = graph_launch;
    table.graph_close = graph_close;
    return table;
}

static constexpr struct backend cuda_device_backend = make_backend();

/* Whether this program holds code for the card. */
static __global__ void probe(int) {
}

/* "…: the driver is CUDA 12.4's, 13.0 is needed" */
static void explain_no_card(cudaError_t error, char *err, size_t err_bytes) {
    int driver = 0, needed = 0;
    if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
        cudaRuntimeGetVersion(&needed) == cudaSuccess && driver > 0) {
        snprintf(err, err_bytes, "no CUDA device: the driver is CUDA %d.%d's, %d.%d is needed",
                 driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10);
    } else if (error == cudaErrorInsufficientDriver) {
        snprintf(err, err_bytes, "no CUDA device: no driver is installed");
    } else {
        snprintf(err, err_bytes, "no CUDA device: %s",
                 error != cudaSuccess ? cudaGetErrorString(error) : "there is none");
    }
}

static enum kernels_status find_card(uint32_t index, char *err, size_t err_bytes) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        (void)status_of(error);
        explain_no_card(error, err, err_bytes);
        return KERNELS_NO_DEVICE;
    }
    if (index >= static_cast<uint32_t>(count)) {
        snprintf(err, err_bytes, "no CUDA device: cuda:%u of %d", index, count);
        return KERNELS_NO_DEVICE;
    }
    return KERNELS_OK;
}

static enum kernels_status read_properties(struct cuda_device *cuda, char *err, size_t err_bytes) {
    cudaDeviceProp properties;
    enum kernels_status status =
        explained("cudaSetDevice", cudaSetDevice(cuda->index), err, err_bytes);
    if (status == KERNELS_OK) {
        status = explained("cudaGetDeviceProperties",
                           cudaGetDeviceProperties(&properties, cuda->index), err, err_bytes);
    }
    if (status != KERNELS_OK) {
        return status;
    }
    snprintf(cuda->name, sizeof cuda->name, "%.*s", DEVICE_NAME_BYTES_MAX - 1, properties.name);
    cuda->sm = properties.major * 10 + properties.minor;
    cuda->memory_bytes = properties.totalGlobalMem;
    if (cuda->sm < CUDA_DEVICE_SM_MIN) {
        snprintf(err, err_bytes, "cuda:%d is a %s (sm_%d): sm_%d or later is needed", cuda->index,
                 cuda->name, cuda->sm, CUDA_DEVICE_SM_MIN);
        return KERNELS_UNSUPPORTED;
    }
    return KERNELS_OK;
}

static enum kernels_status open_streams(struct cuda_device *cuda, char *err, size_t err_bytes) {
    for (cudaStream_t &stream : cuda->streams) {
        enum kernels_status status =
            explained("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                      err, err_bytes);
        if (status != KERNELS_OK) {
            stream = nullptr;
            return status;
        }
    }
    CUDA_LAUNCH(probe, 1, 1, 0, cuda->streams[DEVICE_STREAM_COMPUTE], 0);
    cudaError_t error = cudaGetLastError();
    return explained("a first kernel", error != cudaSuccess ? error : cudaDeviceSynchronize(), err,
                     err_bytes);
}

static enum kernels_status open_parts(struct cuda_device *cuda,
                                      const struct device_options *options, char *err,
                                      size_t err_bytes) {
    enum kernels_status status = read_properties(cuda, err, err_bytes);
    if (status == KERNELS_OK &&
        !cublaslt_api_open(&cuda->cublaslt, options->cublaslt, err, err_bytes)) {
        status = KERNELS_UNSUPPORTED;
    }
    if (status == KERNELS_OK) {
        status = open_streams(cuda, err, err_bytes);
    }
    return status == KERNELS_OK ? cuda_blas_open(&cuda->cublaslt, &cuda->blas, err, err_bytes)
                                : status;
}

enum kernels_status cuda_backend_open(uint32_t index, const struct device_options *options,
                                      struct device **out, char *err, size_t err_bytes) {
    *out = nullptr;
    enum kernels_status status = find_card(index, err, err_bytes);
    if (status != KERNELS_OK) {
        return status;
    }
    auto *cuda = new (std::nothrow) cuda_device();
    if (cuda == nullptr) {
        snprintf(err, err_bytes, "no memory for a CUDA device");
        return KERNELS_NO_MEMORY;
    }
    cuda->base.backend = &cuda_device_backend;
    cuda->base.ops = cuda_table();
    cuda->index = static_cast<int>(index);
    status = open_parts(cuda, options, err, err_bytes);
    if (status != KERNELS_OK) {
        close_device(&cuda->base);
        return status;
    }
    *out = &cuda->base;
    return KERNELS_OK;
}
