/* A back end: what device.c dispatches to, one table per kind of device.
 *
 * Private to kernels. A back end embeds `struct device` as the first member of its own struct, so
 * that the public functions find its table and its kernels. The functions follow the contracts of
 * kernels/device.h; graph functions are NULL where device_info.has_graphs is false. */
#ifndef SOLFLEET_KERNELS_BACKEND_H
#define SOLFLEET_KERNELS_BACKEND_H

#include "kernels/device.h"

struct backend {
    void (*close)(struct device *device);
    void (*describe)(const struct device *device, struct device_info *info);
    void (*enter_thread)(struct device *device);
    enum kernels_status (*alloc)(struct device *device, enum device_memory kind, size_t bytes,
                                 void **out);
    void (*free)(struct device *device, enum device_memory kind, void *memory);
    enum kernels_status (*copy_in)(struct device *device, enum device_stream stream, void *to,
                                   const void *host, size_t bytes);
    enum kernels_status (*copy_out)(struct device *device, enum device_stream stream, void *host,
                                    const void *from, size_t bytes);
    enum kernels_status (*copy_within)(struct device *device, enum device_stream stream, void *to,
                                       const void *from, size_t bytes);
    enum kernels_status (*fill)(struct device *device, enum device_stream stream, void *to,
                                uint8_t value, size_t bytes);
    enum kernels_status (*event_open)(struct device *device, struct device_event **out);
    void (*event_close)(struct device *device, struct device_event *event);
    enum kernels_status (*event_record)(struct device *device, struct device_event *event,
                                        enum device_stream stream);
    enum kernels_status (*event_wait)(struct device *device, struct device_event *event,
                                      enum device_stream stream);
    enum kernels_status (*sync)(struct device *device, char *err, size_t err_bytes);
    enum kernels_status (*sync_stream)(struct device *device, enum device_stream stream, char *err,
                                       size_t err_bytes);
    enum kernels_status (*graph_begin)(struct device *device);
    enum kernels_status (*graph_end)(struct device *device, struct device_graph **out);
    enum kernels_status (*graph_launch)(struct device *device, struct device_graph *graph);
    void (*graph_close)(struct device *device, struct device_graph *graph);
};

struct device {
    const struct backend *backend;
    const struct kernel_ops *ops;
};

#endif
