#include "kernels/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/backend.h"

struct profile {
    struct device base; /* first: device.c sees only this */
    struct device *inner;
    struct kernel_ops ops;
    struct profile_line lines[PROFILE_LINES_MAX];
    size_t line_count;
};

static struct profile *profile_of(struct device *device) {
    return (struct profile *)device;
}

static struct device *profile_inner(const struct device *device) {
    return ((const struct profile *)device)->inner;
}

static uint64_t profile_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---------------------------------------------------------------- lines */

/* What a line is found by and counts of a call. */
struct profile_call {
    const struct weight *weight; /* NULL = none */
    uint32_t rows;
};

static bool profile_is_of(const struct profile_line *line, enum kernel_op op,
                          const struct weight *weight) {
    return line->op == op && line->n == (weight != NULL ? weight->form.n : 0) &&
           line->k == (weight != NULL ? weight->form.k : 0) &&
           (weight == NULL || line->type == weight->form.type);
}

/* NULL when there is no room for another. */
static struct profile_line *profile_line_of(struct profile *profile, enum kernel_op op,
                                            const struct weight *weight) {
    for (size_t i = 0; i < profile->line_count; i++) {
        if (profile_is_of(&profile->lines[i], op, weight)) {
            return &profile->lines[i];
        }
    }
    if (profile->line_count == PROFILE_LINES_MAX) {
        return NULL;
    }
    struct profile_line *line = &profile->lines[profile->line_count++];
    *line = (struct profile_line){.op = op};
    if (weight != NULL) {
        line->type = weight->form.type;
        line->n = weight->form.n;
        line->k = weight->form.k;
    }
    return line;
}

static uint64_t profile_weight_bytes(const struct profile *profile, const struct weight *weight) {
    char err[64];
    size_t bytes = 0;
    enum kernels_status status =
        profile->ops.weight_packed_bytes(&weight->form, &bytes, err, sizeof err);
    return status == KERNELS_OK ? bytes : 0;
}

static void profile_note(struct profile *profile, enum kernel_op op, struct profile_call call,
                         uint64_t ns) {
    struct profile_line *line = profile_line_of(profile, op, call.weight);
    if (line == NULL) {
        return;
    }
    line->calls++;
    line->rows += call.rows;
    line->ns += ns;
    line->weight_bytes += call.weight != NULL ? profile_weight_bytes(profile, call.weight) : 0;
}

size_t profile_lines(const struct device *device, const struct profile_line **lines) {
    const struct profile *profile = (const struct profile *)device;
    *lines = profile->lines;
    return profile->line_count;
}

void profile_reset(struct device *device) {
    profile_of(device)->line_count = 0;
}

/* ---------------------------------------------------------------- ops */

/* Rows and weight of a call, by its arguments' type. */
#define PROFILE_ROWS(args, rows_of, weight_of)                                  \
    static struct profile_call profile_call_##args(const struct args *a) {      \
        return (struct profile_call){.weight = (weight_of), .rows = (rows_of)}; \
    }
PROFILE_ROWS(embed_args, a->rows, NULL)
PROFILE_ROWS(norm_args, a->rows, NULL)
PROFILE_ROWS(quantize_args, a->rows, NULL)
PROFILE_ROWS(norm_quantize_args, a->norm.rows, NULL)
PROFILE_ROWS(glu_args, a->rows, NULL)
PROFILE_ROWS(glu_quantize_args, a->glu.rows, NULL)
PROFILE_ROWS(activation_args, a->rows, NULL)
PROFILE_ROWS(add_args, a->rows, NULL)
PROFILE_ROWS(gemm_i8_args, a->rows, a->weight)
PROFILE_ROWS(dequantize_args, a->rows, NULL)
PROFILE_ROWS(linear_i8_args, a->rows, a->weight)
PROFILE_ROWS(linear_f32_args, a->rows, a->weight)
PROFILE_ROWS(head_norm_args, a->rows, NULL)
PROFILE_ROWS(rope_kv_write_args, a->rows.rows, NULL)
PROFILE_ROWS(attention_args, a->rows.rows, NULL)
PROFILE_ROWS(head_logits_args, a->rows, a->weight)
PROFILE_ROWS(sample_args, a->rows, NULL)
PROFILE_ROWS(head_sample_args, a->rows, a->sketch != NULL ? &a->sketch->weight : a->weight)
#undef PROFILE_ROWS

static enum kernels_status profile_finish(struct profile *profile, enum kernels_status status) {
    char err[256];
    return status == KERNELS_OK ? device_sync(profile->inner, err, sizeof err) : status;
}

#define PROFILE_OP(op, args)                                                                     \
    static enum kernels_status profile_##op(struct device *device, const struct args *a) {       \
        struct profile *profile = profile_of(device);                                            \
        uint64_t begin = profile_now_ns();                                                       \
        enum kernels_status status =                                                             \
            profile_finish(profile, profile->inner->ops->op(profile->inner, a));                 \
        profile_note(profile, KERNEL_OP_##op, profile_call_##args(a), profile_now_ns() - begin); \
        return status;                                                                           \
    }
KERNEL_OPS(PROFILE_OP)
#undef PROFILE_OP

static size_t profile_workspace_bytes(const struct device *device, enum kernel_op op,
                                      const struct kernels_shape *shape) {
    return profile_inner(device)->ops->workspace_bytes(profile_inner(device), op, shape);
}

static enum kernels_status profile_weight_prepare(struct device *device, struct weight *weight,
                                                  const uint32_t *row_buckets,
                                                  uint32_t bucket_count, char *err,
                                                  size_t err_bytes) {
    struct device *inner = profile_inner(device);
    return inner->ops->weight_prepare(inner, weight, row_buckets, bucket_count, err, err_bytes);
}

static void profile_weight_release(struct device *device, struct weight *weight) {
    profile_inner(device)->ops->weight_release(profile_inner(device), weight);
}

static void profile_fill_table(struct profile *profile) {
    profile->ops = *profile->inner->ops; /* what needs no device stays as it is */
    profile->ops.workspace_bytes = profile_workspace_bytes;
    profile->ops.weight_prepare = profile_weight_prepare;
    profile->ops.weight_release = profile_weight_release;
#define PROFILE_ENTRY(op, args) profile->ops.op = profile->ops.op != NULL ? profile_##op : NULL;
    KERNEL_OPS(PROFILE_ENTRY)
#undef PROFILE_ENTRY
}

/* ---------------------------------------------------------------- the device */

static void profile_close(struct device *device) {
    device_close(profile_inner(device));
    free(profile_of(device));
}

static void profile_describe(const struct device *device, struct device_info *info) {
    device_describe(profile_inner(device), info);
    info->has_graphs = false;
}

static void profile_enter_thread(struct device *device) {
    device_enter_thread(profile_inner(device));
}

static enum kernels_status profile_alloc(struct device *device, enum device_memory kind,
                                         size_t bytes, void **out) {
    return device_alloc(profile_inner(device), kind, bytes, out);
}

static void profile_free(struct device *device, enum device_memory kind, void *memory) {
    device_free(profile_inner(device), kind, memory);
}

static enum kernels_status profile_copy_in(struct device *device, enum device_stream stream,
                                           void *to, const void *host, size_t bytes) {
    return device_copy_in(profile_inner(device), stream, to, host, bytes);
}

static enum kernels_status profile_copy_out(struct device *device, enum device_stream stream,
                                            void *host, const void *from, size_t bytes) {
    return device_copy_out(profile_inner(device), stream, host, from, bytes);
}

static enum kernels_status profile_copy_within(struct device *device, enum device_stream stream,
                                               void *to, const void *from, size_t bytes) {
    return device_copy_within(profile_inner(device), stream, to, from, bytes);
}

static enum kernels_status profile_fill(struct device *device, enum device_stream stream, void *to,
                                        uint8_t value, size_t bytes) {
    return device_fill(profile_inner(device), stream, to, value, bytes);
}

static enum kernels_status profile_event_open(struct device *device, struct device_event **out) {
    return device_event_open(profile_inner(device), out);
}

static void profile_event_close(struct device *device, struct device_event *event) {
    device_event_close(profile_inner(device), event);
}

static enum kernels_status profile_event_record(struct device *device, struct device_event *event,
                                                enum device_stream stream) {
    return device_event_record(profile_inner(device), event, stream);
}

static enum kernels_status profile_event_wait(struct device *device, struct device_event *event,
                                              enum device_stream stream) {
    return device_event_wait(profile_inner(device), event, stream);
}

static enum kernels_status profile_sync(struct device *device, char *err, size_t err_bytes) {
    return device_sync(profile_inner(device), err, err_bytes);
}

static enum kernels_status profile_sync_stream(struct device *device, enum device_stream stream,
                                               char *err, size_t err_bytes) {
    return device_sync_stream(profile_inner(device), stream, err, err_bytes);
}

static const struct backend profile_backend = {
    .close = profile_close,
    .describe = profile_describe,
    .enter_thread = profile_enter_thread,
    .alloc = profile_alloc,
    .free = profile_free,
    .copy_in = profile_copy_in,
    .copy_out = profile_copy_out,
    .copy_within = profile_copy_within,
    .fill = profile_fill,
    .event_open = profile_event_open,
    .event_close = profile_event_close,
    .event_record = profile_event_record,
    .event_wait = profile_event_wait,
    .sync = profile_sync,
    .sync_stream = profile_sync_stream,
};

enum kernels_status profile_open(struct device *inner, struct device **out, char *err,
                                 size_t err_bytes) {
    *out = NULL;
    struct profile *profile = calloc(1, sizeof *profile);
    if (profile == NULL) {
        snprintf(err, err_bytes, "no memory for a profile");
        return KERNELS_NO_MEMORY;
    }
    profile->inner = inner;
    profile_fill_table(profile);
    profile->base = (struct device){.backend = &profile_backend, .ops = &profile->ops};
    *out = &profile->base;
    return KERNELS_OK;
}
