/* What went wrong on the device, which calls are to fail, and the error that stays. */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda_emulation/internal.h"

#define CUBLAS_LOST 13 /* CUBLAS_STATUS_EXECUTION_FAILED */

struct injected {
    std::string name; /* "" = any */
    unsigned left;
    int status;
};

static emulation_fault report_fault;
static std::string report_text;
static struct {
    const char *kernel;
    uint3 block, thread;
} report_place; /* of the thread that runs */
static std::vector<injected> report_injected;
static std::vector<emulation_noted> report_trace;
static struct {
    void (*hook)(void *context, const char *name);
    void *context;
} report_watch;
static bool report_is_lost;
static cudaError_t report_last_error;
static size_t report_live;

static const char *const FAULT_NAMES[] = {"no fault", "out of bounds",     "uninitialised read",
                                          "race",     "divergent barrier", "misaligned",
                                          "red zone", "host code",         "not in subset"};

void emulation_report_where(const char *kernel, uint3 block, uint3 thread) {
    report_place = {kernel, block, thread};
}

static std::string place_text() {
    char text[256];
    snprintf(text, sizeof text, "%s, block (%u, %u), thread (%u, %u): ", report_place.kernel,
             report_place.block.x, report_place.block.y, report_place.thread.x,
             report_place.thread.y);
    return text;
}

void emulation_report(emulation_fault fault, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (report_fault == EMULATION_NO_FAULT) {
        report_fault = fault;
        report_text = std::string(FAULT_NAMES[fault]) + ": " +
                      (emulation_current() != nullptr ? place_text() : "") + text;
        fprintf(stderr, "cuda emulation: %s\n", report_text.c_str());
    }
    if (emulation_current() != nullptr) {
        emulation_leave_kernel();
    }
}

bool emulation_is_there() {
    return true;
}

bool emulation_has_fault() {
    return report_fault != EMULATION_NO_FAULT;
}

emulation_fault emulation_last_fault() {
    return report_fault;
}

const char *emulation_last_report() {
    return report_text.c_str();
}

void emulation_count(int objects) {
    report_live += static_cast<size_t>(objects);
}

size_t emulation_live_objects() {
    return report_live;
}

void emulation_fail_call(const char *name, unsigned nth, int status) {
    report_injected.push_back({name != nullptr ? name : "", nth, status});
}

const emulation_noted *emulation_trace(size_t *count) {
    *count = report_trace.size();
    return report_trace.data();
}

void emulation_note_stream(int number) {
    report_trace.back().stream = number;
}

void emulation_note_bytes(size_t bytes) {
    report_trace.back().bytes = bytes;
}

unsigned emulation_shuffles(unsigned usual) {
    const char *wanted = getenv("SOLFLEET_CUDA_SHUFFLES");
    return wanted != nullptr ? static_cast<unsigned>(atoi(wanted)) : usual;
}

/* Only what CUDA itself would notice stays on the device: the rest is this emulation's opinion,
 * and is given as a launch failure so that no test passes over it. */
static cudaError_t error_of(emulation_fault fault) {
    switch (fault) {
    case EMULATION_NO_FAULT: return cudaSuccess;
    case EMULATION_OUT_OF_BOUNDS: return cudaErrorIllegalAddress;
    case EMULATION_MISALIGNED: return cudaErrorMisalignedAddress;
    default: return cudaErrorLaunchFailure;
    }
}

void emulation_watch_calls(void (*hook)(void *context, const char *name), void *context) {
    report_watch = {hook, context};
}

void emulation_lose_device() {
    report_is_lost = true;
}

int emulation_injected(const char *name) {
    report_trace.push_back({name, -1, 0});
    if (report_watch.hook != nullptr) {
        report_watch.hook(report_watch.context, name);
    }
    if (report_is_lost) {
        return strncmp(name, "cublas", 6) == 0 ? CUBLAS_LOST : cudaErrorLaunchFailure;
    }
    for (size_t i = 0; i < report_injected.size(); i++) {
        injected &one = report_injected[i];
        if ((one.name.empty() || one.name == name) && --one.left == 0) {
            int status = one.status;
            report_injected.erase(report_injected.begin() + static_cast<std::ptrdiff_t>(i));
            return status;
        }
    }
    return 0;
}

int emulation_enter(const char *name) {
    int injected = emulation_injected(name);
    return injected != 0 ? injected : error_of(report_fault);
}

cudaError_t emulation_leave(cudaError_t error) {
    if (error == cudaSuccess) {
        error = error_of(report_fault);
    }
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        report_last_error = error;
    }
    return error;
}

cudaError_t cudaPeekAtLastError() {
    return report_fault != EMULATION_NO_FAULT ? error_of(report_fault) : report_last_error;
}

cudaError_t cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    report_last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define NAME(error) \
    case error: return #error
        NAME(cudaSuccess);
        NAME(cudaErrorInvalidValue);
        NAME(cudaErrorMemoryAllocation);
        NAME(cudaErrorInvalidConfiguration);
        NAME(cudaErrorInvalidMemcpyDirection);
        NAME(cudaErrorInsufficientDriver);
        NAME(cudaErrorNoDevice);
        NAME(cudaErrorInvalidDevice);
        NAME(cudaErrorInvalidResourceHandle);
        NAME(cudaErrorNotReady);
        NAME(cudaErrorIllegalAddress);
        NAME(cudaErrorMisalignedAddress);
        NAME(cudaErrorLaunchFailure);
        NAME(cudaErrorStreamCaptureUnsupported);
        NAME(cudaErrorStreamCaptureInvalidated);
        NAME(cudaErrorStreamCaptureIsolation);
#undef NAME
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    return cudaGetErrorName(error);
}

void emulation_reset(uint64_t seed) {
    emulation_forget_streams();
    emulation_forget_cublas();
    emulation_forget_memory();
    emulation_set_memory(EMULATION_MEMORY_BYTES);
    emulation_seed(seed);
    report_fault = EMULATION_NO_FAULT;
    report_text.clear();
    report_injected.clear();
    report_trace.clear();
    report_is_lost = false;
    report_last_error = cudaSuccess;
    report_live = 0;
    fprintf(stderr, "cuda emulation: seed %llu\n", static_cast<unsigned long long>(seed));
}
