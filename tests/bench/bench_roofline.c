/* Our kernels as shares of what this processor can do, all threads of the device through its pool.
 *
 *     bench_roofline [TIER [THREADS]]
 *
 * A table; then the same as lines "csv,machine,tier,threads,name,value,unit,share,of". Each figure
 * is the best of several runs: other load only slows. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu_device.h"
#include "kernels/ops.h"
#include "tests/bench/limits.h"
#include "tests/bench/values.h"

#define READ_BYTES ((size_t)256 << 20)
#define READ_TILE_BYTES ((size_t)1 << 20)
#define ROWS 512u
#define LAYERS 90u /* weights read one after the other: 159 MB in 8 bits, more than caches hold */

struct roofline {
    struct device *device;
    const struct kernel_ops *ops;
    struct device_info info;
};

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void must(enum kernels_status status, const char *what) {
    if (status != KERNELS_OK) {
        fprintf(stderr, "%s: status %d\n", what, (int)status);
        exit(1);
    }
}

static void *memory(const struct roofline *roofline, size_t bytes, int value) {
    void *block = NULL;
    must(device_alloc(roofline->device, DEVICE_MEMORY, bytes, &block), "device_alloc");
    memset(block, value, bytes);
    return block;
}

/* ---------------------------------------------------------------- figures */

static double show(const struct roofline *roofline, const char *name, double value,
                   const char *unit, double limit, const char *of) {
    const struct device_info *info = &roofline->info;
    double share = limit > 0 ? value / limit : 0;
    if (limit > 0) {
        printf("%-44s %8.4f %-6s %5.0f %% of %s\n", name, value, unit, share * 100, of);
    } else {
        printf("%-44s %8.4f %-6s\n", name, value, unit);
    }
    printf("csv,\"%s\",%s,%u,%s,%.5g,%s,%.3f,%s\n", info->name, info->tier, info->threads, name,
           value, unit, share, of);
    fflush(stdout);
    return value;
}

/* ---------------------------------------------------------------- limits */

struct limit_job {
    double (*run)(void);
    const char *memory; /* where run is NULL: read it */
};

static void limit_tile(void *context, uint32_t tile, uint32_t worker) {
    (void)worker;
    const struct limit_job *job = context;
    if (job->run != NULL) {
        (void)job->run();
    } else {
        (void)limits_read(job->memory + tile * READ_TILE_BYTES, READ_TILE_BYTES);
    }
}

/* Work a second of `tiles` tiles, `work` each. */
static double rate(const struct roofline *roofline, const struct limit_job *job, uint32_t tiles,
                   double work) {
    double best = 1e9;
    struct limit_job copy = *job;
    for (int i = 0; i < 7; i++) {
        double begin = now_s();
        pool_run(cpu_device_pool(roofline->device), limit_tile, &copy, tiles);
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    return work * tiles / best;
}

static double tera(const struct roofline *roofline, const char *name, double (*run)(void)) {
    const struct limit_job job = {run, NULL};
    double value = rate(roofline, &job, roofline->info.threads, run()) * 1e-12;
    return show(roofline, name, value, "TOP/s", 0, "-");
}

static double read_rate(const struct roofline *roofline) {
    const struct limit_job job = {NULL, memory(roofline, READ_BYTES, 1)};
    double value = rate(roofline, &job, READ_BYTES / READ_TILE_BYTES, READ_TILE_BYTES) * 1e-9;
    device_free(roofline->device, DEVICE_MEMORY, (void *)job.memory);
    return show(roofline, "memory read", value, "GB/s", 0, "-");
}

/* ---------------------------------------------------------------- linears */

static struct weight packed(const struct roofline *roofline, enum element_type type, uint32_t n,
                            uint32_t k, size_t *bytes) {
    struct weight weight = {.form = {.type = type, .n = n, .k = k}};
    weight.form.activation = type == ELEMENT_I8 ? ACTIVATION_PER_TOKEN : ACTIVATION_F32;
    uint8_t *values = calloc((size_t)n * k, element_bytes(type));
    float *scale = calloc(n, sizeof *scale);
    if (values == NULL || scale == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < (size_t)n * k * element_bytes(type); i++) {
        values[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3Fu); /* finite as f16 and f32 */
    }
    if (type == ELEMENT_I8) {
        values_weights((int8_t *)values, n, k);
    }
    const struct weight_source source = {.values = values, .scale = scale};
    char err[256];
    must(roofline->ops->weight_packed_bytes(&weight.form, bytes, err, sizeof err), "bytes");
    weight.packed = memory(roofline, *bytes, 0);
    must(roofline->ops->weight_pack(&weight.form, &source, weight.packed, err, sizeof err), "pack");
    free(values);
    free(scale);
    return weight;
}

/* Seconds of `rows` rows through `count` weights, one after the other. */
static double linear_s(const struct roofline *roofline, const struct weight *weights,
                       uint32_t count, uint32_t rows) {
    const struct weight_form *form = &weights[0].form;
    float *x = memory(roofline, (size_t)rows * form->k * sizeof *x, 0);
    float *y = memory(roofline, (size_t)rows * form->n * sizeof *y, 0);
    struct quantized q = {.q = memory(roofline, (size_t)rows * form->k, 0),
                          .scale = memory(roofline, rows * sizeof(float), 0)};
    const struct kernels_shape shape = {.rows_max = rows, .n_max = form->n, .k_max = form->k};
    size_t bytes = roofline->ops->workspace_bytes(roofline->device, KERNEL_OP_linear_i8, &shape);
    const struct kernels_workspace workspace = {bytes > 0 ? memory(roofline, bytes, 0) : NULL,
                                                bytes};
    values_rows(q.q, rows, form->k);
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        double begin = now_s();
        for (uint32_t w = 0; w < count; w++) {
            const struct linear_i8_args i8 = {
                .x = q, .weight = &weights[w], .y = y, .workspace = workspace, .rows = rows};
            const struct linear_f32_args f32 = {
                .x = x, .weight = &weights[w], .y = y, .rows = rows};
            must(form->type == ELEMENT_I8 ? roofline->ops->linear_i8(roofline->device, &i8)
                                          : roofline->ops->linear_f32(roofline->device, &f32),
                 "linear");
        }
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    void *const blocks[] = {x, y, q.q, q.scale, workspace.data};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        device_free(roofline->device, DEVICE_MEMORY, blocks[i]);
    }
    return best;
}

static double many_rows(const struct roofline *roofline, enum element_type type, uint32_t n,
                        uint32_t k) {
    size_t bytes;
    struct weight weight = packed(roofline, type, n, k, &bytes);
    double seconds = linear_s(roofline, &weight, 1, ROWS);
    device_free(roofline->device, DEVICE_MEMORY, weight.packed);
    return 2e-12 * ROWS * n * k / seconds;
}

/* One row through weights that no cache holds. */
static double one_row(const struct roofline *roofline, enum element_type type) {
    size_t bytes = 0;
    struct weight weights[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) {
        weights[i] = packed(roofline, type, 3072, 576, &bytes);
    }
    double seconds = linear_s(roofline, weights, LAYERS, 1);
    for (uint32_t i = 0; i < LAYERS; i++) {
        device_free(roofline->device, DEVICE_MEMORY, weights[i].packed);
    }
    return 1e-9 * (double)bytes * LAYERS / seconds;
}

/* ---------------------------------------------------------------- the table */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void kernels(const struct roofline *roofline, double int8, double fma, double read) {
    double f32 = many_rows(roofline, ELEMENT_F32, 3072, 576);
    double gemm = many_rows(roofline, ELEMENT_I8, 3072, 576);
    show(roofline, "INT8 linear [3072 576] x 512 rows", gemm, "TOP/s", int8, "best exact INT8");
    show(roofline, "INT8 linear [576 1536] x 512 rows", many_rows(roofline, ELEMENT_I8, 576, 1536),
         "TOP/s", int8, "best exact INT8");
    show(roofline, "f32 linear [3072 576] x 512 rows", f32, "TOP/s", fma, "FMA");
    show(roofline, "f16 linear [3072 576] x 512 rows", many_rows(roofline, ELEMENT_F16, 3072, 576),
         "TOP/s", fma, "FMA");
    show(roofline, "INT8 against f32 at 512 rows", gemm / f32, "x", 0, "-");
    show(roofline, "INT8 linears x 1 row", one_row(roofline, ELEMENT_I8), "GB/s", read,
         "memory read");
    show(roofline, "f16 linears x 1 row", one_row(roofline, ELEMENT_F16), "GB/s", read,
         "memory read");
}

int main(int argc, char **argv) {
    const struct device_options options = {.spec = "cpu",
                                           .tier = argc > 1 ? argv[1] : NULL,
                                           .threads =
                                               argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0};
    struct roofline roofline = {0};
    char err[256];
    if (device_open(&options, &roofline.device, err, sizeof err) != KERNELS_OK) {
        fprintf(stderr, "%s\n", err);
        return 6;
    }
    roofline.ops = device_ops(roofline.device);
    device_enter_thread(roofline.device);
    device_describe(roofline.device, &roofline.info);
    bool is_512 = strcmp(roofline.info.tier, "avx512") == 0;
    printf("%s, tier %s, %u threads\n", roofline.info.name, roofline.info.tier,
           roofline.info.threads);
    double int8 = 0;
    if (is_512) {
        int8 = tera(&roofline, "vpdpbusd", limits_int8_vnni);
    } else {
        int8 = tera(&roofline, "vpsignb vpmaddubsw vpmaddwd vpaddd", limits_int8_sign);
        int8 = larger(int8, tera(&roofline, "vpxor vpmaddubsw vpmaddwd vpaddd", limits_int8_xor));
        int8 = larger(int8, tera(&roofline, "vpmaddwd vpaddd of 16 bits", limits_int8_wide));
        int8 = larger(
            int8, tera(&roofline, "vpmaddubsw vpaddw, vpmaddwd vpaddd of four", limits_int8_group));
    }
    double fma = tera(&roofline, "FMA", is_512 ? limits_fma_512 : limits_fma_256);
    kernels(&roofline, int8, fma, read_rate(&roofline));
    device_close(roofline.device);
    return 0;
}
