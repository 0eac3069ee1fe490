/* Our kernels as shares of what this processor can do, all threads of the device through its pool.
 *
 *     bench_roofline [TIER [THREADS]]
 *
 * A table; then the same as lines "csv,machine,tier,threads,name,value,unit,share,of". Each figure
 * is the best of several runs: other load only slows. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu_device.h"
#include "tests/bench/cpu_rig.h"
#include "tests/bench/limits.h"
#include "tests/bench/values.h"

#define READ_BYTES ((size_t)256 << 20)
#define READ_TILE_BYTES ((size_t)1 << 20)
#define ROWS 512u
#define LAYERS 90u /* weights read one after the other: 159 MB in 8 bits, more than caches hold */

/* ---------------------------------------------------------------- figures */

static double show(const struct cpu_rig *rig, const char *name, double value, const char *unit,
                   double limit, const char *of) {
    const struct device_info *info = &rig->info;
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
static double rate(const struct cpu_rig *rig, const struct limit_job *job, uint32_t tiles,
                   double work) {
    double best = 1e9;
    struct limit_job copy = *job;
    for (int i = 0; i < 7; i++) {
        double begin = cpu_rig_now_s(CLOCK_MONOTONIC);
        pool_run(cpu_device_pool(rig->device), limit_tile, &copy, tiles);
        double took = cpu_rig_now_s(CLOCK_MONOTONIC) - begin;
        best = took < best ? took : best;
    }
    return work * tiles / best;
}

static double tera(const struct cpu_rig *rig, const char *name, double (*run)(void)) {
    const struct limit_job job = {run, NULL};
    double value = rate(rig, &job, rig->info.threads, run()) * 1e-12;
    return show(rig, name, value, "TOP/s", 0, "-");
}

static double read_rate(const struct cpu_rig *rig) {
    const struct limit_job job = {NULL, cpu_rig_memory(rig, READ_BYTES, 1)};
    double value = rate(rig, &job, READ_BYTES / READ_TILE_BYTES, READ_TILE_BYTES) * 1e-9;
    device_free(rig->device, DEVICE_MEMORY, (void *)job.memory);
    return show(rig, "memory read", value, "GB/s", 0, "-");
}

/* ---------------------------------------------------------------- linears */

/* Seconds of `rows` rows through `count` weights, one after the other. */
static double linear_s(const struct cpu_rig *rig, const struct weight *weights, uint32_t count,
                       uint32_t rows) {
    const struct weight_form *form = &weights[0].form;
    float *x = cpu_rig_memory(rig, (size_t)rows * form->k * sizeof *x, 0);
    float *y = cpu_rig_memory(rig, (size_t)rows * form->n * sizeof *y, 0);
    struct quantized q = {.q = cpu_rig_memory(rig, (size_t)rows * form->k, 0),
                          .scale = cpu_rig_memory(rig, rows * sizeof(float), 0)};
    const struct kernels_shape shape = {.rows_max = rows, .n_max = form->n, .k_max = form->k};
    size_t bytes = rig->ops->workspace_bytes(rig->device, KERNEL_OP_linear_i8, &shape);
    const struct kernels_workspace workspace = {bytes > 0 ? cpu_rig_memory(rig, bytes, 0) : NULL,
                                                bytes};
    values_rows(q.q, rows, form->k);
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        double begin = cpu_rig_now_s(CLOCK_MONOTONIC);
        for (uint32_t w = 0; w < count; w++) {
            const struct linear_i8_args i8 = {
                .x = q, .weight = &weights[w], .y = y, .workspace = workspace, .rows = rows};
            const struct linear_f32_args f32 = {
                .x = x, .weight = &weights[w], .y = y, .rows = rows};
            cpu_rig_must(form->type == ELEMENT_I8 ? rig->ops->linear_i8(rig->device, &i8)
                                                  : rig->ops->linear_f32(rig->device, &f32),
                         "linear");
        }
        double took = cpu_rig_now_s(CLOCK_MONOTONIC) - begin;
        best = took < best ? took : best;
    }
    void *const blocks[] = {x, y, q.q, q.scale, workspace.data};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        device_free(rig->device, DEVICE_MEMORY, blocks[i]);
    }
    return best;
}

static double many_rows(const struct cpu_rig *rig, enum element_type type, uint32_t n, uint32_t k) {
    struct weight weight = cpu_rig_weight(rig, type, n, k);
    double seconds = linear_s(rig, &weight, 1, ROWS);
    device_free(rig->device, DEVICE_MEMORY, weight.packed);
    return 2e-12 * ROWS * n * k / seconds;
}

/* One row through weights that no cache holds. */
static double one_row(const struct cpu_rig *rig, enum element_type type) {
    struct weight weights[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) {
        weights[i] = cpu_rig_weight(rig, type, 3072, 576);
    }
    char err[256];
    size_t bytes = 0;
    cpu_rig_must(rig->ops->weight_packed_bytes(&weights[0].form, &bytes, err, sizeof err), "bytes");
    double seconds = linear_s(rig, weights, LAYERS, 1);
    for (uint32_t i = 0; i < LAYERS; i++) {
        device_free(rig->device, DEVICE_MEMORY, weights[i].packed);
    }
    return 1e-9 * (double)bytes * LAYERS / seconds;
}

/* ---------------------------------------------------------------- the table */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void kernels(const struct cpu_rig *rig, double int8, double fma, double read) {
    double f32 = many_rows(rig, ELEMENT_F32, 3072, 576);
    double gemm = many_rows(rig, ELEMENT_I8, 3072, 576);
    show(rig, "INT8 linear [3072 576] x 512 rows", gemm, "TOP/s", int8, "best exact INT8");
    show(rig, "INT8 linear [576 1536] x 512 rows", many_rows(rig, ELEMENT_I8, 576, 1536), "TOP/s",
         int8, "best exact INT8");
    show(rig, "f32 linear [3072 576] x 512 rows", f32, "TOP/s", fma, "FMA");
    show(rig, "f16 linear [3072 576] x 512 rows", many_rows(rig, ELEMENT_F16, 3072, 576), "TOP/s",
         fma, "FMA");
    show(rig, "INT8 against f32 at 512 rows", gemm / f32, "x", 0, "-");
    show(rig, "INT8 linears x 1 row", one_row(rig, ELEMENT_I8), "GB/s", read, "memory read");
    show(rig, "f16 linears x 1 row", one_row(rig, ELEMENT_F16), "GB/s", read, "memory read");
}

int main(int argc, char **argv) {
    struct cpu_rig rig;
    cpu_rig_open(&rig, argc, argv);
    bool is_512 = strcmp(rig.info.tier, "avx512") == 0;
    double int8 = 0;
    if (is_512) {
        int8 = tera(&rig, "vpdpbusd", limits_int8_vnni);
    } else {
        int8 = tera(&rig, "vpsignb vpmaddubsw vpmaddwd vpaddd", limits_int8_sign);
        int8 = larger(int8, tera(&rig, "vpxor vpmaddubsw vpmaddwd vpaddd", limits_int8_xor));
        int8 = larger(int8, tera(&rig, "vpmaddwd vpaddd of 16 bits", limits_int8_wide));
        int8 = larger(int8,
                      tera(&rig, "vpmaddubsw vpaddw, vpmaddwd vpaddd of four", limits_int8_group));
    }
    double fma = tera(&rig, "FMA", is_512 ? limits_fma_512 : limits_fma_256);
    kernels(&rig, int8, fma, read_rate(&rig));
    cpu_rig_close(&rig);
    return 0;
}
