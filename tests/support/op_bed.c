#include "tests/support/op_bed.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void op_bed_must(enum kernels_status status, const char *what) {
    if (status != KERNELS_OK) {
        fail_msg("%s: status %d", what, (int)status);
    }
}

static void op_bed_wait_for(struct op_bed *bed) {
    char err[256] = "";
    if (device_sync(bed->device, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
}

/* ---------------------------------------------------------------- arrays */

void *op_bed_room(struct op_bed *bed, size_t bytes) {
    void *memory = NULL;
    assert_true(bed->array_count < sizeof bed->arrays / sizeof bed->arrays[0]);
    op_bed_must(device_alloc(bed->device, DEVICE_MEMORY, bytes, &memory), "alloc");
    op_bed_must(device_fill(bed->device, DEVICE_STREAM_COMPUTE, memory, 0, bytes), "fill");
    bed->arrays[bed->array_count++] = memory;
    return memory;
}

void *op_bed_put(struct op_bed *bed, const void *host, size_t bytes) {
    void *memory = op_bed_room(bed, bytes);
    op_bed_must(device_copy_in(bed->device, DEVICE_STREAM_COMPUTE, memory, host, bytes), "copy in");
    op_bed_wait_for(bed);
    return memory;
}

static float op_bed_next_float(struct op_bed *bed) {
    return (float)(int64_t)(test_random(&bed->random) % 2001) / 500.0f - 2.0f;
}

float *op_bed_floats(struct op_bed *bed, size_t count) {
    float host[OP_BED_ROWS * 2 * OP_BED_VOCABULARY];
    assert_true(count <= sizeof host / sizeof host[0]);
    for (size_t i = 0; i < count; i++) {
        host[i] = op_bed_next_float(bed);
    }
    return op_bed_put(bed, host, count * sizeof *host);
}

/* first, first + step … */
void *op_bed_words(struct op_bed *bed, size_t count, int32_t first, int32_t step) {
    int32_t host[2 * OP_BED_VOCABULARY];
    assert_true(count <= sizeof host / sizeof host[0]);
    for (size_t i = 0; i < count; i++) {
        host[i] = first + (int32_t)i * step;
    }
    return op_bed_put(bed, host, count * sizeof *host);
}

void op_bed_take(struct op_bed *bed, const void *from, size_t bytes) {
    assert_true(bed->out_bytes + bytes <= sizeof bed->out);
    op_bed_must(
        device_copy_out(bed->device, DEVICE_STREAM_COMPUTE, bed->out + bed->out_bytes, from, bytes),
        "copy out");
    op_bed_wait_for(bed);
    bed->out_bytes += bytes;
}

struct kernels_workspace op_bed_workspace(struct op_bed *bed, enum kernel_op op) {
    const struct kernels_shape shape = {.rows_max = OP_BED_ROWS,
                                        .segments_max = 2,
                                        .sampled_max = OP_BED_ROWS,
                                        .context_max = OP_BED_PAGES * KV_PAGE_TOKENS,
                                        .n_max = OP_BED_VOCABULARY,
                                        .k_max = OP_BED_DIM,
                                        .dim = OP_BED_DIM,
                                        .vocabulary = OP_BED_VOCABULARY,
                                        .heads = OP_BED_HEADS,
                                        .kv = {ELEMENT_F16, OP_BED_KV_HEADS, OP_BED_HEAD_DIM}};
    size_t bytes = bed->ops->workspace_bytes(bed->device, op, &shape);
    return (struct kernels_workspace){.data = bytes > 0 ? op_bed_room(bed, bytes) : NULL,
                                      .bytes = bytes};
}

/* ---------------------------------------------------------------- weights and rows */

static const struct weight *op_bed_pack(struct op_bed *bed, const struct weight_form *form,
                                        const struct weight_source *source) {
    static const uint32_t rows = OP_BED_ROWS;
    struct weight *weight = &bed->weights[bed->weight_count++];
    char err[256] = "";
    size_t bytes = 0;
    op_bed_must(bed->ops->weight_packed_bytes(form, &bytes, err, sizeof err), err);
    void *packed = aligned_alloc(KERNELS_ALIGNMENT_BYTES, kernels_aligned(bytes));
    op_bed_must(bed->ops->weight_pack(form, source, packed, err, sizeof err), err);
    *weight = (struct weight){.form = *form, .packed = op_bed_put(bed, packed, bytes)};
    free(packed);
    op_bed_must(bed->ops->weight_prepare(bed->device, weight, &rows, 1, err, sizeof err), err);
    return weight;
}

const struct weight *op_bed_weight_f32(struct op_bed *bed, uint32_t n) {
    static float values[OP_BED_VOCABULARY * OP_BED_DIM];
    const struct weight_form form = {.type = ELEMENT_F32, .n = n, .k = OP_BED_DIM};
    for (size_t i = 0; i < (size_t)n * OP_BED_DIM; i++) {
        values[i] = op_bed_next_float(bed);
    }
    return op_bed_pack(bed, &form, &(struct weight_source){.values = values});
}

const struct weight *op_bed_weight_i8(struct op_bed *bed) {
    static int8_t values[OP_BED_OUTPUTS * OP_BED_DIM];
    float scale[OP_BED_OUTPUTS], bias[OP_BED_OUTPUTS];
    const struct weight_form form = {.type = ELEMENT_I8,
                                     .n = OP_BED_OUTPUTS,
                                     .k = OP_BED_DIM,
                                     .activation = ACTIVATION_PER_TOKEN,
                                     .bias = true};
    for (size_t i = 0; i < sizeof values; i++) {
        values[i] = (int8_t)test_random(&bed->random);
    }
    for (size_t n = 0; n < OP_BED_OUTPUTS; n++) {
        scale[n] = 0.01f + (float)n / 1000.0f;
        bias[n] = op_bed_next_float(bed);
    }
    return op_bed_pack(bed, &form,
                       &(struct weight_source){.values = values, .scale = scale, .bias = bias});
}

/* ---------------------------------------------------------------- life */

void op_bed_open(struct op_bed *bed, const char *spec) {
    const struct device_options options = {.spec = spec, .tier = "reference", .threads = 1};
    char err[256] = "";
    if (device_open(&options, &bed->device, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    device_enter_thread(bed->device);
    bed->ops = device_ops(bed->device);
}

void op_bed_clear(struct op_bed *bed) {
    while (bed->weight_count > 0) {
        bed->ops->weight_release(bed->device, &bed->weights[--bed->weight_count]);
    }
    while (bed->array_count > 0) {
        device_free(bed->device, DEVICE_MEMORY, bed->arrays[--bed->array_count]);
    }
}

void op_bed_close(struct op_bed *bed) {
    op_bed_clear(bed);
    device_close(bed->device);
}
