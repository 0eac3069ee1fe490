/* What the ops of a back end do a second, by shape: one JSON document a line.
 *
 *     bench_ops DEVICE [--quick]        DEVICE as of --device: cpu, cuda:N
 *
 * Shapes are those of an 8 B Llama (hidden 4096, FFN 14336, 32 heads, 8 of keys), with --quick tiny
 * ones: does it run? A call is launched again and again until 50 ms are full, then waited for once;
 * the median of five such rounds. bytes: what an op must read and write, each array once, except
 * that int32_bytes, the sums between product and epilogue, go both ways; work: multiply-adds
 * twice. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/device.h"
#include "kernels/ops.h"

#define ROUNDS 5
#define ROUND_S 0.05
#define BLOCKS_MAX 16

struct bench {
    struct device *device;
    const struct kernel_ops *ops;
    void *blocks[BLOCKS_MAX]; /* device memory of the measurement under way */
    uint32_t block_count;
    double round_s;
    bool is_quick;
};

/* What is printed of a measurement. */
struct figures {
    const char *op;
    char shape[64];
    uint32_t rows;
    double work, bytes, int32_bytes;
};

static void must(enum kernels_status status, const char *what, const char *why) {
    if (status != KERNELS_OK) {
        fprintf(stderr, "%s: status %d %s\n", what, (int)status, why);
        exit(1);
    }
}

static void *checked(void *memory) {
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

static void wait_for(struct bench *bench) {
    char err[256] = "";
    must(device_sync(bench->device, err, sizeof err), "device", err);
}

/* ---------------------------------------------------------------- memory */

/* Copied from `from`, or filled with zero bytes; freed by drop_all. */
static void *place(struct bench *bench, const void *from, size_t bytes) {
    void *block = NULL;
    if (bench->block_count == BLOCKS_MAX) {
        fprintf(stderr, "too many blocks\n");
        exit(1);
    }
    must(device_alloc(bench->device, DEVICE_MEMORY, bytes, &block), "device_alloc", "");
    bench->blocks[bench->block_count++] = block;
    must(from != NULL ? device_copy_in(bench->device, DEVICE_STREAM_COMPUTE, block, from, bytes)
                      : device_fill(bench->device, DEVICE_STREAM_COMPUTE, block, 0, bytes),
         "copy in", "");
    wait_for(bench);
    return block;
}

static void drop_all(struct bench *bench) {
    while (bench->block_count > 0) {
        device_free(bench->device, DEVICE_MEMORY, bench->blocks[--bench->block_count]);
    }
}

static float *place_floats(struct bench *bench, size_t count) {
    float *x = checked(malloc(count * sizeof *x));
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)(i * 2654435761u % 1000u) * 0.002f - 1.0f;
    }
    float *placed = place(bench, x, count * sizeof *x);
    free(x);
    return placed;
}

static int32_t *place_ints(struct bench *bench, const int32_t *values, size_t count) {
    return place(bench, values, count * sizeof *values);
}

static struct kernels_workspace place_workspace(struct bench *bench, enum kernel_op op,
                                                const struct kernels_shape *shape) {
    size_t bytes = bench->ops->workspace_bytes(bench->device, op, shape);
    return (struct kernels_workspace){bytes > 0 ? place(bench, NULL, bytes) : NULL, bytes};
}

static struct weight_form form_of(enum element_type type, uint32_t n, uint32_t k) {
    struct weight_form form = {.type = type, .n = n, .k = k};
    form.activation = type == ELEMENT_I8 ? ACTIVATION_PER_TOKEN : ACTIVATION_F32;
    return form;
}

/* Random enough, with plans for `rows`; released by the caller. */
static struct weight place_weight(struct bench *bench, struct weight_form form, uint32_t rows) {
    struct weight weight = {.form = form};
    uint32_t n = form.n;
    size_t count = (size_t)n * form.k * element_bytes(form.type), bytes = 0;
    uint8_t *values = checked(malloc(count));
    float *scale = checked(calloc(n, sizeof *scale));
    for (size_t i = 0; i < count; i++) {
        values[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3Fu); /* also finite as f16 and f32 */
    }
    const struct weight_source source = {.values = values, .scale = scale};
    char err[256] = "";
    must(bench->ops->weight_packed_bytes(&weight.form, &bytes, err, sizeof err), "weight", err);
    void *packed = checked(aligned_alloc(KERNELS_ALIGNMENT_BYTES, kernels_aligned(bytes)));
    must(bench->ops->weight_pack(&weight.form, &source, packed, err, sizeof err), "pack", err);
    weight.packed = place(bench, packed, bytes);
    must(bench->ops->weight_prepare(bench->device, &weight, &rows, 1, err, sizeof err), "prepare",
         err);
    free(packed);
    free(scale);
    free(values);
    return weight;
}

/* ---------------------------------------------------------------- time */

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef enum kernels_status run_fn(const struct bench *bench, const void *args);

/* Seconds of `times` calls with the wait at their end. */
static double seconds_of(struct bench *bench, run_fn *run, const void *args, uint32_t times) {
    double begin = now_s();
    for (uint32_t i = 0; i < times; i++) {
        must(run(bench, args), "op", "");
    }
    wait_for(bench);
    return now_s() - begin;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median seconds of a call. */
static double seconds_of_call(struct bench *bench, run_fn *run, const void *args) {
    uint32_t times = 1;
    while (seconds_of(bench, run, args, times) < bench->round_s && times < 1u << 20) {
        times *= 2;
    }
    double rounds[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rounds[i] = seconds_of(bench, run, args, times) / times;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], ascending);
    return rounds[ROUNDS / 2];
}

static void report(struct bench *bench, const struct figures *of, run_fn *run, const void *args) {
    double seconds = seconds_of_call(bench, run, args);
    printf("{\"op\":\"%s\",\"shape\":\"%s\",\"rows\":%u,\"us\":%.3f,\"tops\":%.4f,\"gb_s\":%.2f,"
           "\"int32_share\":%.4f}\n",
           of->op, of->shape, of->rows, seconds * 1e6, 1e-12 * of->work / seconds,
           1e-9 * (of->bytes + of->int32_bytes) / seconds,
           of->int32_bytes / (of->bytes + of->int32_bytes));
    fflush(stdout);
}

#define RUN(op)                                                                        \
    static enum kernels_status run_##op(const struct bench *bench, const void *args) { \
        return bench->ops->op(bench->device, args);                                    \
    }
RUN(gemm_i8)
RUN(linear_i8)
RUN(linear_f32)
RUN(rms_norm_quantize)
RUN(silu_mul_quantize)
RUN(add)
RUN(attention)
#undef RUN

/* ---------------------------------------------------------------- measurements */

static void measure_linear_i8(struct bench *bench, uint32_t n, uint32_t k, uint32_t rows) {
    struct weight weight = place_weight(bench, form_of(ELEMENT_I8, n, k), rows);
    const struct kernels_shape shape = {.rows_max = rows, .n_max = n, .k_max = k};
    struct quantized x = {place(bench, NULL, (size_t)rows * k), place_floats(bench, rows), NULL,
                          NULL};
    float *y = place_floats(bench, (size_t)rows * n);
    const struct gemm_i8_args product = {.x = x,
                                         .weight = &weight,
                                         .sum = place(bench, NULL, (size_t)rows * n * 4),
                                         .workspace =
                                             place_workspace(bench, KERNEL_OP_gemm_i8, &shape),
                                         .rows = rows};
    const struct linear_i8_args linear = {.x = x,
                                          .weight = &weight,
                                          .y = y,
                                          .workspace =
                                              place_workspace(bench, KERNEL_OP_linear_i8, &shape),
                                          .rows = rows};
    double inputs = (double)rows * k + (double)n * k, outputs = (double)rows * n * 4;
    struct figures figures = {.op = "gemm_i8",
                              .rows = rows,
                              .work = 2.0 * rows * n * k,
                              .bytes = inputs,
                              .int32_bytes = outputs};
    snprintf(figures.shape, sizeof figures.shape, "%u x %u", n, k);
    report(bench, &figures, run_gemm_i8, &product);
    figures.op = "linear_i8";
    figures.bytes = inputs + outputs;
    figures.int32_bytes = 2 * outputs;
    report(bench, &figures, run_linear_i8, &linear);
    bench->ops->weight_release(bench->device, &weight);
    drop_all(bench);
}

/* By the canonical chain, or by the library. Nothing where the device has no fast form. */
static void measure_linear_f16(struct bench *bench, uint32_t n, uint32_t k, uint32_t rows,
                               bool fast) {
    struct weight_form form = form_of(ELEMENT_F16, n, k);
    size_t bytes = 0;
    char err[256] = "";
    form.fast = fast;
    if (fast && bench->ops->weight_packed_bytes(&form, &bytes, err, sizeof err) != KERNELS_OK) {
        return;
    }
    struct weight weight = place_weight(bench, form, rows);
    const struct kernels_shape shape = {.rows_max = rows, .n_max = n, .k_max = k, .fast = fast};
    const struct linear_f32_args args = {.x = place_floats(bench, (size_t)rows * k),
                                         .weight = &weight,
                                         .y = place_floats(bench, (size_t)rows * n),
                                         .workspace =
                                             place_workspace(bench, KERNEL_OP_linear_f32, &shape),
                                         .rows = rows};
    struct figures figures = {.op = fast ? "linear_f32, fast" : "linear_f32 of f16",
                              .rows = rows,
                              .work = 2.0 * rows * n * k,
                              .bytes = 2.0 * n * k + 4.0 * rows * (n + k)};
    snprintf(figures.shape, sizeof figures.shape, "%u x %u", n, k);
    report(bench, &figures, run_linear_f32, &args);
    bench->ops->weight_release(bench->device, &weight);
    drop_all(bench);
}

static void measure_rows(struct bench *bench, uint32_t dim, uint32_t rows) {
    float *x = place_floats(bench, (size_t)rows * dim * 2), *w = place_floats(bench, dim);
    const struct quantize_args quantize = {
        .out = {place(bench, NULL, (size_t)rows * dim), place_floats(bench, rows), NULL, NULL},
        .bad = place(bench, NULL, rows)};
    const struct norm_quantize_args norm = {
        {.x = x, .weight = w, .eps = 1e-5f, .rows = rows, .dim = dim}, quantize};
    const struct glu_quantize_args glu = {{.gate_up = x, .rows = rows, .dim = dim}, quantize};
    const struct add_args add = {place_floats(bench, (size_t)rows * dim), x, rows, dim};
    double values = (double)rows * dim;
    struct figures figures = {.op = "rms_norm_quantize", .rows = rows, .bytes = values * 5};
    snprintf(figures.shape, sizeof figures.shape, "%u", dim);
    report(bench, &figures, run_rms_norm_quantize, &norm);
    figures.op = "silu_mul_quantize", figures.bytes = values * 9;
    report(bench, &figures, run_silu_mul_quantize, &glu);
    figures.op = "add", figures.bytes = values * 12;
    report(bench, &figures, run_add, &add);
    drop_all(bench);
}

/* A row a slot, each at the end of `context` tokens. */
static void measure_decode(struct bench *bench, struct kv_form form, uint32_t heads, uint32_t rows,
                           uint32_t context) {
    uint32_t pages = (context + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS, d = form.head_dim;
    size_t page = bench->ops->page_bytes(&form);
    int32_t *table = checked(malloc((size_t)rows * pages * sizeof *table));
    int32_t *step = checked(malloc(((size_t)rows + 1) * sizeof *step));
    for (uint32_t i = 0; i < rows * pages; i++) {
        table[i] = (int32_t)i;
    }
    for (uint32_t t = 0; t <= rows; t++) {
        step[t] = (int32_t)t;
    }
    int32_t *position = checked(malloc((size_t)rows * sizeof *position));
    for (uint32_t t = 0; t < rows; t++) {
        position[t] = (int32_t)context - 1;
    }
    const struct kernels_shape shape = {
        .rows_max = rows, .segments_max = rows, .context_max = context, .heads = heads, .kv = form};
    int32_t *slots = place_ints(bench, step, rows + 1);
    const struct attention_args args = {
        .q = place_floats(bench, (size_t)rows * heads * d),
        .q_stride = heads * d,
        .rows = {place_ints(bench, position, rows), slots, slots, rows, rows},
        .kv = {form, place(bench, NULL, (size_t)rows * pages * page), page,
               place_ints(bench, table, (size_t)rows * pages), pages},
        .out = place_floats(bench, (size_t)rows * heads * d),
        .workspace = place_workspace(bench, KERNEL_OP_attention, &shape),
        .heads = heads,
        .context_max = context};
    double keys = (double)rows * context * form.kv_heads * d;
    struct figures figures = {.op = "attention, decode",
                              .rows = rows,
                              .work = 4.0 * rows * context * heads * d,
                              .bytes = 2 * keys * (double)element_bytes(form.type)};
    snprintf(figures.shape, sizeof figures.shape, "%u tokens", context);
    report(bench, &figures, run_attention, &args);
    free(table);
    free(step);
    free(position);
    drop_all(bench);
}

/* ---------------------------------------------------------------- all of them */

static void measure_quick(struct bench *bench) {
    measure_linear_i8(bench, 48, 32, 2);
    measure_linear_i8(bench, 48, 32, 17);
    measure_linear_f16(bench, 40, 24, 3, false);
    measure_linear_f16(bench, 40, 24, 3, true);
    measure_rows(bench, 40, 3);
    measure_decode(bench, (struct kv_form){ELEMENT_F16, 2, 16}, 4, 3, 33);
}

static void measure_all(struct bench *bench) {
    static const uint32_t linears[][2] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
    static const uint32_t rows[] = {1, 8, 32, 128, 256, 512, 2048, 4096};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++) {
            measure_linear_i8(bench, linears[i][0], linears[i][1], rows[j]);
        }
    }
    for (size_t j = 0; j < 4; j++) {
        measure_linear_f16(bench, 128256, 4096, rows[j], false);
        measure_linear_f16(bench, 128256, 4096, rows[j], true);
    }
    for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j += 2) {
        measure_rows(bench, 4096, rows[j]);
        measure_rows(bench, 14336, rows[j]);
    }
    for (uint32_t context = 512; context <= 8192; context *= 4) {
        for (size_t j = 0; j < 4; j++) {
            measure_decode(bench, (struct kv_form){ELEMENT_F16, 8, 128}, 32, rows[j], context);
        }
    }
}

int main(int argc, char **argv) {
    const struct device_options options = {.spec = argc > 1 ? argv[1] : "auto"};
    struct bench bench = {.is_quick = argc > 2 && strcmp(argv[2], "--quick") == 0};
    char err[256] = "";
    if (argc > 3 || (argc > 2 && !bench.is_quick)) {
        fprintf(stderr, "usage: bench_ops [DEVICE [--quick]]\n");
        return 2;
    }
    if (device_open(&options, &bench.device, err, sizeof err) != KERNELS_OK) {
        fprintf(stderr, "%s\n", err);
        return 6;
    }
    bench.ops = device_ops(bench.device);
    bench.round_s = bench.is_quick ? 0.0005 : ROUND_S;
    device_enter_thread(bench.device);
    struct device_info info;
    device_describe(bench.device, &info);
    printf("{\"device\":\"%s\",\"tier\":\"%s\"}\n", info.name, info.tier);
    if (bench.is_quick) {
        measure_quick(&bench);
    } else {
        measure_all(&bench);
    }
    device_close(bench.device);
    return 0;
}
