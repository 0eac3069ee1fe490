/* A device: the memory, copies, streams and kernel table of one accelerator (the CPU is one).
 *
 * Threads: one thread at a time uses a device; it must call device_enter_thread first (floating
 * point mode: round to nearest even, no flush to zero, MXCSR 0x1F80). Memory from device_alloc
 * belongs to the caller until device_free. Copies and kernels are ordered within a stream and
 * asynchronous to the host; only device_sync and device_sync_stream wait, and only they report
 * faults of work already launched. Refuses to know models, sequences and files. No log, no exit.
 * Compiles as C11 and C++17. */
#ifndef SOLFLEET_KERNELS_DEVICE_H
#define SOLFLEET_KERNELS_DEVICE_H

#include "kernels/view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device;
struct device_event;
struct device_graph;
struct kernel_ops;

struct device_options {
    const char *spec; /* "cpu", "cuda:N" or "auto" (CUDA device 0 if there is one, else the CPU) */
    const char *tier; /* CPU only: "reference", "avx2", "avx512"; NULL or "" = by cpuid */
    uint32_t threads; /* CPU only: 0 = every core the process may use */
    const char *cublaslt; /* CUDA only: path of libcublasLt; NULL or "" = the loader's search */
};

#define DEVICE_NAME_BYTES_MAX 128
#define DEVICE_NUMERICS_BYTES_MAX 64

struct device_info {
    char name[DEVICE_NAME_BYTES_MAX];         /* of the processor or card */
    char tier[16];                            /* "reference", "avx2", "avx512", "cuda" */
    char numerics[DEVICE_NUMERICS_BYTES_MAX]; /* "cpu-1": equal ids give equal bits */
    /* The same with weights of the fast form (kernels/ops.h), "" where there are none: names the
     * architecture, the library and its version, and the card's model by eight digits of a hash. */
    char numerics_fast[DEVICE_NUMERICS_BYTES_MAX];
    uint32_t threads;    /* 0 where meaningless */
    uint32_t few_rows;   /* a step of so many rows takes hardly longer than a step of one */
    size_t memory_bytes; /* total */
    size_t memory_free_bytes;
    bool memory_is_host; /* device pointers may be read by the host after device_sync */
    bool
        fixed_row_shapes; /* wants the row count of a step drawn from few buckets (plans, graphs) */
    bool has_graphs;
};

/* KERNELS_NO_DEVICE with the reason in err when the device, the tier or the instructions it needs
 * are absent (e.g. "no CUDA device: …", "tier avx512: this processor lacks avx512_vnni"). A CUDA
 * device that is there and cannot be used is an error of its own, for "auto", too. */
enum kernels_status device_open(const struct device_options *options, struct device **out,
                                char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
/* Accepts NULL. Everything allocated from it must have been freed. */
void device_close(struct device *device);

/* Borrowed until device_close. */
const struct kernel_ops *device_ops(const struct device *device);
void device_describe(const struct device *device, struct device_info *info);
void device_enter_thread(struct device *device);

enum device_memory {
    DEVICE_MEMORY,       /* where kernels read and write */
    DEVICE_MEMORY_PINNED /* host memory that copies may use asynchronously */
};

/* Aligned to KERNELS_ALIGNMENT_BYTES, contents undefined. bytes > 0. */
enum kernels_status device_alloc(struct device *device, enum device_memory kind, size_t bytes,
                                 void **out) KERNELS_CHECK_RESULT;
void device_free(struct device *device, enum device_memory kind, void *memory); /* accepts NULL */

enum device_stream { DEVICE_STREAM_COMPUTE, DEVICE_STREAM_COPY, DEVICE_STREAM_COUNT };

/* Host to device; `host` must stay unchanged until the stream has passed (event or sync). */
enum kernels_status device_copy_in(struct device *device, enum device_stream stream, void *to,
                                   const void *host, size_t bytes) KERNELS_CHECK_RESULT;
/* Device to host; `host` is readable after the stream has passed. */
enum kernels_status device_copy_out(struct device *device, enum device_stream stream, void *host,
                                    const void *from, size_t bytes) KERNELS_CHECK_RESULT;
/* Device to device; the two ranges do not overlap. */
enum kernels_status device_copy_within(struct device *device, enum device_stream stream, void *to,
                                       const void *from, size_t bytes) KERNELS_CHECK_RESULT;
enum kernels_status device_fill(struct device *device, enum device_stream stream, void *to,
                                uint8_t value, size_t bytes) KERNELS_CHECK_RESULT;

enum kernels_status device_event_open(struct device *device,
                                      struct device_event **out) KERNELS_CHECK_RESULT;
void device_event_close(struct device *device, struct device_event *event); /* accepts NULL */
/* The event stands for all work put on `stream` so far. */
enum kernels_status device_event_record(struct device *device, struct device_event *event,
                                        enum device_stream stream) KERNELS_CHECK_RESULT;
/* Later work on `stream` starts after the event; does not block the host. */
enum kernels_status device_event_wait(struct device *device, struct device_event *event,
                                      enum device_stream stream) KERNELS_CHECK_RESULT;

/* Waits for every stream. KERNELS_FAILED with the device's own words in err after a fault. */
enum kernels_status device_sync(struct device *device, char *err,
                                size_t err_bytes) KERNELS_CHECK_RESULT;
/* Waits for one stream, and for what that one waits for; otherwise the same. */
enum kernels_status device_sync_stream(struct device *device, enum device_stream stream, char *err,
                                       size_t err_bytes) KERNELS_CHECK_RESULT;

/* Graphs: only where device_info.has_graphs (else KERNELS_UNSUPPORTED). Kernels launched on the
 * compute stream between begin and end are recorded, not run; arguments are copied at capture. */
enum kernels_status device_graph_begin(struct device *device) KERNELS_CHECK_RESULT;
enum kernels_status device_graph_end(struct device *device,
                                     struct device_graph **out) KERNELS_CHECK_RESULT;
enum kernels_status device_graph_launch(struct device *device,
                                        struct device_graph *graph) KERNELS_CHECK_RESULT;
void device_graph_close(struct device *device, struct device_graph *graph); /* accepts NULL */

#ifdef __cplusplus
}
#endif

#endif
