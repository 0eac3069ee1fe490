#include "kernels/op_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/backend.h"

struct op_watch {
    struct device base; /* first: device.c sees only this */
    struct device *inner;
    struct kernel_ops ops;
    struct op_watcher watcher;
};

static struct op_watch *op_watch_of(struct device *device) {
    return (struct op_watch *)device;
}

static struct device *op_watch_inner(const struct device *device) {
    return ((const struct op_watch *)device)->inner;
}

static uint64_t op_watch_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---------------------------------------------------------------- ops */

/* Rows and weight of a call, by its arguments' type. */
#define WATCH_ROWS(args, rows_of, weight_of)                                  \
    static struct watched_op op_watch_call_##args(const struct args *a) {     \
        return (struct watched_op){.weight = (weight_of), .rows = (rows_of)}; \
    }
WATCH_ROWS(embed_args, a->rows, NULL)
WATCH_ROWS(norm_args, a->rows, NULL)
WATCH_ROWS(quantize_args, a->rows, NULL)
WATCH_ROWS(norm_quantize_args, a->norm.rows, NULL)
WATCH_ROWS(glu_args, a->rows, NULL)
WATCH_ROWS(glu_quantize_args, a->glu.rows, NULL)
WATCH_ROWS(activation_args, a->rows, NULL)
WATCH_ROWS(add_args, a->rows, NULL)
WATCH_ROWS(gemm_i8_args, a->rows, a->weight)
WATCH_ROWS(dequantize_args, a->rows, NULL)
WATCH_ROWS(linear_i8_args, a->rows, a->weight)
WATCH_ROWS(linear_f32_args, a->rows, a->weight)
WATCH_ROWS(head_norm_args, a->rows, NULL)
WATCH_ROWS(rope_kv_write_args, a->rows.rows, NULL)
WATCH_ROWS(attention_args, a->rows.rows, NULL)
WATCH_ROWS(head_logits_args, a->rows, a->weight)
WATCH_ROWS(sample_args, a->rows, NULL)
WATCH_ROWS(head_sample_args, a->rows, a->sketch != NULL ? &a->sketch->weight : a->weight)
#undef WATCH_ROWS

/* Waits for what was launched, so that it is done and its time is its own. */
static enum kernels_status op_watch_finish(struct op_watch *watch, enum kernels_status status) {
    char err[256];
    return status == KERNELS_OK ? device_sync(watch->inner, err, sizeof err) : status;
}

#define WATCH_OP(op_, args_)                                                                  \
    static enum kernels_status op_watch_##op_(struct device *device, const struct args_ *a) { \
        struct op_watch *watch = op_watch_of(device);                                         \
        struct watched_op seen = op_watch_call_##args_(a);                                    \
        uint64_t begin = op_watch_now_ns();                                                   \
        enum kernels_status status =                                                          \
            op_watch_finish(watch, watch->inner->ops->op_(watch->inner, a));                  \
        seen.op = KERNEL_OP_##op_;                                                            \
        seen.args = a;                                                                        \
        seen.ns = op_watch_now_ns() - begin;                                                  \
        return status == KERNELS_OK                                                           \
                   ? watch->watcher.see(watch->watcher.context, watch->inner, &seen)          \
                   : status;                                                                  \
    }
KERNEL_OPS(WATCH_OP)
#undef WATCH_OP

static size_t op_watch_workspace_bytes(const struct device *device, enum kernel_op op,
                                       const struct kernels_shape *shape) {
    return op_watch_inner(device)->ops->workspace_bytes(op_watch_inner(device), op, shape);
}

static enum kernels_status op_watch_weight_prepare(struct device *device, struct weight *weight,
                                                   const uint32_t *row_buckets,
                                                   uint32_t bucket_count, char *err,
                                                   size_t err_bytes) {
    struct device *inner = op_watch_inner(device);
    return inner->ops->weight_prepare(inner, weight, row_buckets, bucket_count, err, err_bytes);
}

static void op_watch_weight_release(struct device *device, struct weight *weight) {
    op_watch_inner(device)->ops->weight_release(op_watch_inner(device), weight);
}

static void op_watch_fill_table(struct op_watch *watch) {
    watch->ops = *watch->inner->ops; /* what needs no device stays as it is */
    watch->ops.workspace_bytes = op_watch_workspace_bytes;
    watch->ops.weight_prepare = op_watch_weight_prepare;
    watch->ops.weight_release = op_watch_weight_release;
#define WATCH_ENTRY(op, args) watch->ops.op = watch->ops.op != NULL ? op_watch_##op : NULL;
    KERNEL_OPS(WATCH_ENTRY)
#undef WATCH_ENTRY
}

/* ---------------------------------------------------------------- the device */

static void op_watch_close(struct device *device) {
    free(op_watch_of(device));
}

static void op_watch_describe(const struct device *device, struct device_info *info) {
    device_describe(op_watch_inner(device), info);
    info->has_graphs = false;
}

static void op_watch_enter_thread(struct device *device) {
    device_enter_thread(op_watch_inner(device));
}

static enum kernels_status op_watch_alloc(struct device *device, enum device_memory kind,
                                          size_t bytes, void **out) {
    return device_alloc(op_watch_inner(device), kind, bytes, out);
}

static void op_watch_free(struct device *device, enum device_memory kind, void *memory) {
    device_free(op_watch_inner(device), kind, memory);
}

static enum kernels_status op_watch_copy_in(struct device *device, enum device_stream stream,
                                            void *to, const void *host, size_t bytes) {
    return device_copy_in(op_watch_inner(device), stream, to, host, bytes);
}

static enum kernels_status op_watch_copy_out(struct device *device, enum device_stream stream,
                                             void *host, const void *from, size_t bytes) {
    return device_copy_out(op_watch_inner(device), stream, host, from, bytes);
}

static enum kernels_status op_watch_copy_within(struct device *device, enum device_stream stream,
                                                void *to, const void *from, size_t bytes) {
    return device_copy_within(op_watch_inner(device), stream, to, from, bytes);
}

static enum kernels_status op_watch_fill(struct device *device, enum device_stream stream, void *to,
                                         uint8_t value, size_t bytes) {
    return device_fill(op_watch_inner(device), stream, to, value, bytes);
}

static enum kernels_status op_watch_event_open(struct device *device, struct device_event **out) {
    return device_event_open(op_watch_inner(device), out);
}

static void op_watch_event_close(struct device *device, struct device_event *event) {
    device_event_close(op_watch_inner(device), event);
}

static enum kernels_status op_watch_event_record(struct device *device, struct device_event *event,
                                                 enum device_stream stream) {
    return device_event_record(op_watch_inner(device), event, stream);
}

static enum kernels_status op_watch_event_wait(struct device *device, struct device_event *event,
                                               enum device_stream stream) {
    return device_event_wait(op_watch_inner(device), event, stream);
}

static enum kernels_status op_watch_sync(struct device *device, char *err, size_t err_bytes) {
    return device_sync(op_watch_inner(device), err, err_bytes);
}

static enum kernels_status op_watch_sync_stream(struct device *device, enum device_stream stream,
                                                char *err, size_t err_bytes) {
    return device_sync_stream(op_watch_inner(device), stream, err, err_bytes);
}

static const struct backend op_watch_backend = {
    .close = op_watch_close,
    .describe = op_watch_describe,
    .enter_thread = op_watch_enter_thread,
    .alloc = op_watch_alloc,
    .free = op_watch_free,
    .copy_in = op_watch_copy_in,
    .copy_out = op_watch_copy_out,
    .copy_within = op_watch_copy_within,
    .fill = op_watch_fill,
    .event_open = op_watch_event_open,
    .event_close = op_watch_event_close,
    .event_record = op_watch_event_record,
    .event_wait = op_watch_event_wait,
    .sync = op_watch_sync,
    .sync_stream = op_watch_sync_stream,
};

enum kernels_status op_watch_open(struct device *inner, const struct op_watcher *watcher,
                                  struct device **out, char *err, size_t err_bytes) {
    *out = NULL;
    struct op_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        snprintf(err, err_bytes, "no memory to watch a device");
        return KERNELS_NO_MEMORY;
    }
    watch->inner = inner;
    watch->watcher = *watcher;
    op_watch_fill_table(watch);
    watch->base = (struct device){.backend = &op_watch_backend, .ops = &watch->ops};
    *out = &watch->base;
    return KERNELS_OK;
}

/* ---------------------------------------------------------------- names */

void op_watch_name(const struct watched_op *seen, char *name, size_t bytes) {
    static const char *const types[] = {
        [ELEMENT_F32] = "f32", [ELEMENT_F16] = "f16", [ELEMENT_I8] = "int8"};
    const struct weight *weight = seen->weight;
    if (weight == NULL) {
        snprintf(name, bytes, "%s", kernel_ops_name(seen->op));
    } else {
        snprintf(name, bytes, "%s %s [%u, %u]", kernel_ops_name(seen->op), types[weight->form.type],
                 weight->form.n, weight->form.k);
    }
}
