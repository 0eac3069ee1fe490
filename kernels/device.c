/* Chooses a back end by the device's spec and forwards to it. */
#include "kernels/device.h"

#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu_device.h"
#include "kernels/cuda_backend.h"

#define DEVICE_INDEX_DIGITS 4u

/* "cuda:N" */
static bool device_parse_cuda(const char *spec, uint32_t *index) {
    if (strncmp(spec, "cuda:", 5) != 0) {
        return false;
    }
    const char *digits = spec + 5;
    size_t count = strspn(digits, "0123456789");
    *index = 0;
    for (size_t i = 0; i < count && i < DEVICE_INDEX_DIGITS; i++) {
        *index = *index * 10 + (uint32_t)(digits[i] - '0');
    }
    return count >= 1 && count <= DEVICE_INDEX_DIGITS && digits[count] == '\0';
}

/* A card that is there and cannot be used is no reason to compute on the CPU unasked. */
static enum kernels_status device_open_auto(const struct device_options *options,
                                            struct device **out, char *err, size_t err_bytes) {
    enum kernels_status status = cuda_backend_open(0, options, out, err, err_bytes);
    return status == KERNELS_NO_DEVICE ? cpu_device_open(options, out, err, err_bytes) : status;
}

enum kernels_status device_open(const struct device_options *options, struct device **out,
                                char *err, size_t err_bytes) {
    *out = NULL;
    const char *spec = options->spec != NULL && options->spec[0] != '\0' ? options->spec : "auto";
    uint32_t index;
    if (strcmp(spec, "auto") == 0) {
        return device_open_auto(options, out, err, err_bytes);
    }
    if (strcmp(spec, "cpu") == 0) {
        return cpu_device_open(options, out, err, err_bytes);
    }
    if (device_parse_cuda(spec, &index)) {
        return cuda_backend_open(index, options, out, err, err_bytes);
    }
    snprintf(err, err_bytes, "device '%.64s' is unknown: use cpu, cuda:N or auto", spec);
    return KERNELS_NO_DEVICE;
}

void device_close(struct device *device) {
    if (device != NULL) {
        device->backend->close(device);
    }
}

const struct kernel_ops *device_ops(const struct device *device) {
    return device->ops;
}

void device_describe(const struct device *device, struct device_info *info) {
    device->backend->describe(device, info);
}

void device_enter_thread(struct device *device) {
    device->backend->enter_thread(device);
}

enum kernels_status device_alloc(struct device *device, enum device_memory kind, size_t bytes,
                                 void **out) {
    *out = NULL;
    return bytes > 0 ? device->backend->alloc(device, kind, bytes, out) : KERNELS_INVALID;
}

void device_free(struct device *device, enum device_memory kind, void *memory) {
    if (memory != NULL) {
        device->backend->free(device, kind, memory);
    }
}

enum kernels_status device_copy_in(struct device *device, enum device_stream stream, void *to,
                                   const void *host, size_t bytes) {
    return device->backend->copy_in(device, stream, to, host, bytes);
}

enum kernels_status device_copy_out(struct device *device, enum device_stream stream, void *host,
                                    const void *from, size_t bytes) {
    return device->backend->copy_out(device, stream, host, from, bytes);
}

enum kernels_status device_copy_within(struct device *device, enum device_stream stream, void *to,
                                       const void *from, size_t bytes) {
    return device->backend->copy_within(device, stream, to, from, bytes);
}

enum kernels_status device_fill(struct device *device, enum device_stream stream, void *to,
                                uint8_t value, size_t bytes) {
    return device->backend->fill(device, stream, to, value, bytes);
}

enum kernels_status device_event_open(struct device *device, struct device_event **out) {
    *out = NULL;
    return device->backend->event_open(device, out);
}

void device_event_close(struct device *device, struct device_event *event) {
    if (event != NULL) {
        device->backend->event_close(device, event);
    }
}

enum kernels_status device_event_record(struct device *device, struct device_event *event,
                                        enum device_stream stream) {
    return device->backend->event_record(device, event, stream);
}

enum kernels_status device_event_wait(struct device *device, struct device_event *event,
                                      enum device_stream stream) {
    return device->backend->event_wait(device, event, stream);
}

enum kernels_status device_sync(struct device *device, char *err, size_t err_bytes) {
    return device->backend->sync(device, err, err_bytes);
}

enum kernels_status device_sync_stream(struct device *device, enum device_stream stream, char *err,
                                       size_t err_bytes) {
    return device->backend->sync_stream(device, stream, err, err_bytes);
}

enum kernels_status device_graph_begin(struct device *device) {
    return device->backend->graph_begin != NULL ? device->backend->graph_begin(device)
                                                : KERNELS_UNSUPPORTED;
}

enum kernels_status device_graph_end(struct device *device, struct device_graph **out) {
    *out = NULL;
    return device->backend->graph_end != NULL ? device->backend->graph_end(device, out)
                                              : KERNELS_UNSUPPORTED;
}

enum kernels_status device_graph_launch(struct device *device, struct device_graph *graph) {
    return device->backend->graph_launch != NULL ? device->backend->graph_launch(device, graph)
                                                 : KERNELS_UNSUPPORTED;
}

void device_graph_close(struct device *device, struct device_graph *graph) {
    if (graph != NULL) {
        device->backend->graph_close(device, graph);
    }
}
