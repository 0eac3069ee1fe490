/* A table of kernel speeds on this machine: GEMM in TOP/s and GB/s of weights, the other ops in us.
 *
 *     bench_kernels [TIER [THREADS]]
 *
 * Shapes are those of SmolLM2-135M. Each line is the best of several runs: other load only slows.
 * With one thread its own processor time is counted, so that other load hardly shows. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/cpu_rig.h"
#include "tests/bench/values.h"

struct bench {
    struct cpu_rig rig;
    clockid_t clock;
};

static void *memory(const struct bench *bench, size_t bytes) {
    return cpu_rig_memory(&bench->rig, bytes, 0);
}

static float *floats(struct bench *bench, size_t count) {
    float *x = memory(bench, count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)(i * 2654435761u % 1000u) * 0.002f - 1.0f;
    }
    return x;
}

typedef enum kernels_status run_fn(struct bench *bench, const void *args);

/* Best seconds of a call over at least 0.3 s and three calls. */
static double best_s(struct bench *bench, run_fn *run, const void *args) {
    double best = 1e9, end = cpu_rig_now_s(CLOCK_MONOTONIC) + 0.3;
    for (int i = 0; i < 3 || cpu_rig_now_s(CLOCK_MONOTONIC) < end; i++) {
        double begin = cpu_rig_now_s(bench->clock);
        cpu_rig_must(run(bench, args), "op");
        double took = cpu_rig_now_s(bench->clock) - begin;
        best = took < best ? took : best;
    }
    return best;
}

/* ---------------------------------------------------------------- linears */

static enum kernels_status run_linear_i8(struct bench *bench, const void *args) {
    return bench->rig.ops->linear_i8(bench->rig.device, args);
}

static enum kernels_status run_linear_f32(struct bench *bench, const void *args) {
    return bench->rig.ops->linear_f32(bench->rig.device, args);
}

static void linear(struct bench *bench, enum element_type type, uint32_t n, uint32_t k) {
    static const uint32_t rows[] = {1, 2, 4, 8, 32, 256};
    struct weight weight = cpu_rig_weight(&bench->rig, type, n, k);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t t = rows[i];
        if ((size_t)t * n > (size_t)32 * 49152) {
            continue;
        }
        float *x = floats(bench, (size_t)t * k), *y = floats(bench, (size_t)t * n);
        struct quantized q = {memory(bench, (size_t)t * k), floats(bench, t), NULL, NULL};
        values_rows(q.q, t, k);
        const struct kernels_shape shape = {.rows_max = t, .n_max = n, .k_max = k};
        size_t bytes =
            bench->rig.ops->workspace_bytes(bench->rig.device, KERNEL_OP_linear_i8, &shape);
        const struct linear_i8_args i8 = {
            .x = q,
            .weight = &weight,
            .y = y,
            .workspace = {bytes > 0 ? memory(bench, bytes) : NULL, bytes},
            .rows = t};
        const struct linear_f32_args f32 = {.x = x, .weight = &weight, .y = y, .rows = t};
        double s = type == ELEMENT_I8 ? best_s(bench, run_linear_i8, &i8)
                                      : best_s(bench, run_linear_f32, &f32);
        double weights = (double)n * k;
        printf("%-8s [%5u, %5u] x %3u rows  %9.1f us  %7.4f TOP/s  %6.1f GB/s\n",
               type == ELEMENT_I8    ? "int8"
               : type == ELEMENT_F16 ? "f16"
                                     : "f32",
               n, k, t, s * 1e6, 2e-12 * weights * t / s,
               1e-9 * weights * (double)element_bytes(type) / s);
        fflush(stdout);
        device_free(bench->rig.device, DEVICE_MEMORY, x);
        device_free(bench->rig.device, DEVICE_MEMORY, y);
        device_free(bench->rig.device, DEVICE_MEMORY, q.q);
        device_free(bench->rig.device, DEVICE_MEMORY, q.scale);
        device_free(bench->rig.device, DEVICE_MEMORY, i8.workspace.data);
    }
    device_free(bench->rig.device, DEVICE_MEMORY, weight.packed);
}

/* ---------------------------------------------------------------- the rest of a layer */

static void line(const char *name, uint32_t rows, double seconds) {
    printf("%-24s x %3u rows  %9.1f us\n", name, rows, seconds * 1e6);
    fflush(stdout);
}

static enum kernels_status run_norm(struct bench *bench, const void *args) {
    return bench->rig.ops->rms_norm_quantize(bench->rig.device, args);
}

static enum kernels_status run_glu(struct bench *bench, const void *args) {
    return bench->rig.ops->silu_mul_quantize(bench->rig.device, args);
}

static void row_ops(struct bench *bench, uint32_t rows) {
    float *x = floats(bench, (size_t)rows * 3072), *w = floats(bench, 1536);
    struct quantized q = {memory(bench, (size_t)rows * 1536), floats(bench, rows), NULL, NULL};
    uint8_t *bad = memory(bench, rows);
    const struct quantize_args quantize = {.out = q, .bad = bad};
    const struct norm_quantize_args norm = {
        {.x = x, .weight = w, .eps = 1e-5f, .rows = rows, .dim = 576}, quantize};
    const struct glu_quantize_args glu = {{.gate_up = x, .rows = rows, .dim = 1536}, quantize};
    line("rms_norm_quantize", rows, best_s(bench, run_norm, &norm));
    line("silu_mul_quantize", rows, best_s(bench, run_glu, &glu));
    device_free(bench->rig.device, DEVICE_MEMORY, x);
    device_free(bench->rig.device, DEVICE_MEMORY, w);
    device_free(bench->rig.device, DEVICE_MEMORY, q.q);
    device_free(bench->rig.device, DEVICE_MEMORY, q.scale);
    device_free(bench->rig.device, DEVICE_MEMORY, bad);
}

static enum kernels_status run_rope(struct bench *bench, const void *args) {
    return bench->rig.ops->rope_kv_write(bench->rig.device, args);
}

static enum kernels_status run_attention(struct bench *bench, const void *args) {
    return bench->rig.ops->attention(bench->rig.device, args);
}

/* `rows` decode rows of as many slots, or one prefill chunk, at the end of `context` tokens. */
static void attention(struct bench *bench, uint32_t rows, uint32_t context, bool prefill) {
    const struct kv_form form = {ELEMENT_F16, 3, 64};
    size_t page = bench->rig.ops->page_bytes(&form);
    uint32_t pages = (context + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS, slots = prefill ? 1 : rows;
    char *kv_memory = memory(bench, (size_t)slots * pages * page);
    float *qkv = floats(bench, (size_t)rows * 960), *out = floats(bench, (size_t)rows * 576);
    float *angles = floats(bench, (size_t)context * 32);
    int32_t *table = memory(bench, (size_t)slots * pages * 4), *ints = memory(bench, rows * 12 + 8);
    int32_t *position = ints, *slot = ints + rows, *segment = ints + 2 * rows;
    for (uint32_t i = 0; i < slots * pages; i++) {
        table[i] = (int32_t)i;
    }
    for (uint32_t t = 0; t < rows; t++) {
        position[t] = (int32_t)(prefill ? context - rows + t : context - 1);
        slot[t] = prefill ? 0 : (int32_t)t;
        segment[t + 1] = (int32_t)t + 1;
    }
    segment[1] = prefill ? (int32_t)rows : 1;
    const struct step_rows step = {position, slot, segment, rows, prefill ? 1 : rows};
    const struct kv_view kv = {form, kv_memory, page, table, pages};
    const struct rope_kv_write_args rope = {qkv, angles, angles, step, kv, 9, 64};
    const struct attention_args args = {.q = qkv,
                                        .q_stride = 960,
                                        .rows = step,
                                        .kv = kv,
                                        .out = out,
                                        .heads = 9,
                                        .context_max = context};
    char name[64];
    snprintf(name, sizeof name, "attention %s %u", prefill ? "prefill" : "decode", context);
    line(name, rows, best_s(bench, run_attention, &args));
    line("rope_kv_write", rows, best_s(bench, run_rope, &rope));
    device_free(bench->rig.device, DEVICE_MEMORY, kv_memory);
    device_free(bench->rig.device, DEVICE_MEMORY, qkv);
    device_free(bench->rig.device, DEVICE_MEMORY, out);
    device_free(bench->rig.device, DEVICE_MEMORY, angles);
    device_free(bench->rig.device, DEVICE_MEMORY, table);
    device_free(bench->rig.device, DEVICE_MEMORY, ints);
}

static enum kernels_status run_sample(struct bench *bench, const void *args) {
    return bench->rig.ops->sample(bench->rig.device, args);
}

static void sampling(struct bench *bench, uint32_t rows, uint32_t top_k) {
    const uint32_t v = 49152;
    const struct kernels_shape shape = {.sampled_max = rows, .vocabulary = v};
    size_t bytes = bench->rig.ops->workspace_bytes(bench->rig.device, KERNEL_OP_sample, &shape);
    float *logits = floats(bench, (size_t)rows * v), *f = floats(bench, rows);
    for (size_t i = 0; i < (size_t)rows * v; i++) {
        logits[i] = logits[i] * 6.0f + (i % 5003 == 7 ? 18.0f : 0.0f); /* a few stand out */
    }
    uint32_t *words = memory(bench, rows * 24 + 8);
    uint64_t *longs = memory(bench, rows * 8);
    float *ones = floats(bench, rows);
    int32_t *token = memory(bench, rows * 4);
    uint8_t *bad = memory(bench, rows);
    for (uint32_t s = 0; s < rows; s++) {
        f[s] = 0.7f, ones[s] = 1.0f, words[s] = top_k, words[rows + s] = 62259;
    }
    const struct sample_params params = {.temperature = f,
                                         .top_k = words,
                                         .top_p_q16 = words + rows,
                                         .min_p_q16 = words + 2 * rows,
                                         .repetition = ones,
                                         .presence = (float *)(void *)(words + 2 * rows),
                                         .frequency = (float *)(void *)(words + 2 * rows),
                                         .seed = longs,
                                         .position = longs,
                                         .seen_begin = (int32_t *)(void *)(words + 3 * rows)};
    const struct sample_args args = {.logits = logits,
                                     .vocabulary = v,
                                     .params = params,
                                     .token = token,
                                     .bad = bad,
                                     .workspace = {memory(bench, bytes), bytes},
                                     .rows = rows};
    char name[64];
    snprintf(name, sizeof name, "sample top_k %u", top_k);
    line(name, rows, best_s(bench, run_sample, &args));
    device_free(bench->rig.device, DEVICE_MEMORY, logits);
    device_free(bench->rig.device, DEVICE_MEMORY, f);
    device_free(bench->rig.device, DEVICE_MEMORY, ones);
    device_free(bench->rig.device, DEVICE_MEMORY, words);
    device_free(bench->rig.device, DEVICE_MEMORY, longs);
    device_free(bench->rig.device, DEVICE_MEMORY, token);
    device_free(bench->rig.device, DEVICE_MEMORY, bad);
    device_free(bench->rig.device, DEVICE_MEMORY, args.workspace.data);
}

int main(int argc, char **argv) {
    struct bench bench;
    cpu_rig_open(&bench.rig, argc, argv);
    bench.clock = bench.rig.info.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    linear(&bench, ELEMENT_I8, 960, 576);
    linear(&bench, ELEMENT_I8, 3072, 576);
    linear(&bench, ELEMENT_I8, 576, 1536);
    linear(&bench, ELEMENT_F16, 3072, 576);
    linear(&bench, ELEMENT_F16, 49152, 576);
    for (uint32_t rows = 1; rows <= 256; rows *= 16) {
        row_ops(&bench, rows);
    }
    attention(&bench, 1, 128, false);
    attention(&bench, 32, 256, false);
    attention(&bench, 256, 256, true);
    attention(&bench, 256, 1024, true);
    sampling(&bench, 1, 50);
    sampling(&bench, 32, 50);
    sampling(&bench, 32, 0);
    cpu_rig_close(&bench.rig);
    return 0;
}
