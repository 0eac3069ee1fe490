/* The INT8 product with its epilogue in registers: few rows from where they are, more of them laid
 * out in blocks first. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/int8.h"
#include "kernels/x86/avx2/int8_block.h"

/* ---------------------------------------------------------------- kernels */

struct linear_i8_job {
    const struct linear_i8_args *args;
    struct reference_weight_view view;
    struct device *device;
    struct avx2_inputs inputs; /* of more than a few rows */
};

/* Eight outputs of a row: sums to floats, as canonical_dequantize. */
static inline __m256 linear_i8_dequantize(const struct linear_i8_job *job, __m256i sum, uint32_t n,
                                          float row_scale) {
    __m256 value = _mm256_cvtepi32_ps(sum);
    __m256 scale = _mm256_mul_ps(_mm256_set1_ps(row_scale), _mm256_load_ps(job->view.scale + n));
    return job->view.bias != NULL
               ? _mm256_fmadd_ps(value, scale, _mm256_load_ps(job->view.bias + n))
               : _mm256_mul_ps(value, scale);
}

/* The outputs that exist of a panel that is not full. */
static __attribute__((noinline)) void linear_i8_store_part(const struct linear_i8_args *args,
                                                           size_t at, uint32_t count, __m256 left,
                                                           __m256 right) {
    float all[REFERENCE_PANEL];
    _mm256_storeu_ps(all, left);
    _mm256_storeu_ps(all + 8, right);
    for (uint32_t l = 0; l < count; l++) {
        args->y[at + l] = args->residual != NULL ? args->residual[at + l] + all[l] : all[l];
    }
}

/* The outputs of panel `panel` of rows t .. t + rows - 1. */
static inline __attribute__((always_inline)) void linear_i8_store(const struct linear_i8_job *job,
                                                                  uint32_t panel, uint32_t t,
                                                                  const uint32_t rows,
                                                                  __m256i sum[][2]) {
    const struct linear_i8_args *args = job->args;
    uint32_t n = panel * REFERENCE_PANEL, n_count = args->weight->form.n;
#pragma GCC unroll 3
    for (uint32_t r = 0; r < rows; r++) {
        size_t at = (size_t)(t + r) * n_count + n;
        float scale = args->x.scale[t + r];
        __m256 left = linear_i8_dequantize(job, sum[r][0], n, scale);
        __m256 right = linear_i8_dequantize(job, sum[r][1], n + 8u, scale);
        if (n_count - n < REFERENCE_PANEL) {
            linear_i8_store_part(args, at, n_count - n, left, right);
            continue;
        }
        if (args->residual != NULL) {
            left = _mm256_add_ps(_mm256_loadu_ps(args->residual + at), left);
            right = _mm256_add_ps(_mm256_loadu_ps(args->residual + at + 8), right);
        }
        _mm256_storeu_ps(args->y + at, left);
        _mm256_storeu_ps(args->y + at + 8, right);
    }
}

static const int8_t *linear_i8_panel(const struct linear_i8_job *job, uint32_t panel) {
    return (const int8_t *)job->view.values + panel * avx2_panel_bytes(job->args->weight->form.k);
}

/* All rows, which are few: `rows` of them. */
static inline __attribute__((always_inline)) void
linear_i8_few(const struct linear_i8_job *job, uint32_t panel, const uint32_t rows) {
    __m256i sum[AVX2_I8_ROWS][2];
    avx2_i8_panel(linear_i8_panel(job, panel), job->args->weight->form.k, job->args->x.q, rows,
                  sum);
    linear_i8_store(job, panel, 0, rows, sum);
}

static inline __attribute__((always_inline)) void
linear_i8_block(const struct linear_i8_job *job, uint32_t panel, const int16_t *group_sums,
                uint32_t block, uint32_t first, const uint32_t rows) {
    __m256i sum[AVX2_BLOCK_ROWS][2];
    avx2_block_panel(linear_i8_panel(job, panel), group_sums, &job->inputs, block, first, rows,
                     sum);
    linear_i8_store(job, panel, first, rows, sum);
}

/* Fetches part `part` of `parts` of a panel: a panel is read from memory while the one before it is
 * computed with. Into the second cache: two panels of a long K do not fit the first one. */
static void linear_i8_fetch(const int8_t *panel, size_t bytes, uint32_t part, uint32_t parts) {
    size_t lines = bytes / 64u, end = lines * (part + 1) / parts;
    for (size_t i = lines * part / parts; i < end; i++) {
        _mm_prefetch((const char *)panel + i * 64u, _MM_HINT_T1);
    }
}

static void linear_i8_blocks(const struct linear_i8_job *job, uint32_t panel, bool fetch_next,
                             int16_t *group_sums) {
    uint32_t rows = job->args->rows, blocks = avx2_blocks(rows), first = 0;
    size_t next_bytes = fetch_next ? avx2_panel_bytes(job->args->weight->form.k) : 0;
    avx2_group_sums(linear_i8_panel(job, panel), job->args->weight->form.k, group_sums);
    for (uint32_t b = 0; b < blocks; b++) {
        uint32_t next = avx2_block_first(rows, b + 1);
        linear_i8_fetch(linear_i8_panel(job, panel + 1), next_bytes, b, blocks);
        if (next - first == AVX2_BLOCK_ROWS) {
            linear_i8_block(job, panel, group_sums, b, first, AVX2_BLOCK_ROWS);
        } else {
            linear_i8_block(job, panel, group_sums, b, first, AVX2_BLOCK_ROWS - 1);
        }
        first = next;
    }
}

/* ---------------------------------------------------------------- launchers */

static void linear_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct linear_i8_job *job = context;
    int16_t *group_sums = (int16_t *)(void *)cpu_device_row(job->device, worker);
    for (uint32_t panel = begin; panel < end; panel++) {
        switch (job->args->rows) {
        case 1: linear_i8_few(job, panel, 1); break;
        case 2: linear_i8_few(job, panel, 2); break;
        case 3: linear_i8_few(job, panel, 3); break;
        default: linear_i8_blocks(job, panel, panel + 1 < end, group_sums); break;
        }
    }
}

static void linear_i8_fill(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct linear_i8_job *job = context;
    avx2_inputs_fill(&job->inputs, job->args->x.q, begin, end);
}

size_t avx2_linear_i8_workspace_bytes(uint32_t rows, uint32_t k) {
    return rows > AVX2_I8_ROWS ? avx2_inputs_bytes(rows, k) : 0;
}

enum kernels_status avx2_linear_i8(struct device *device, const struct linear_i8_args *args) {
    if (!check_linear_i8(args)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    if (!avx2_takes(form)) {
        return reference_linear_i8(device, args);
    }
    if (!check_workspace(&args->workspace, avx2_linear_i8_workspace_bytes(args->rows, form->k))) {
        return KERNELS_INVALID;
    }
    struct linear_i8_job job = {
        .args = args,
        .view = reference_weight_view_of(args->weight, avx2_weight_values_bytes(form)),
        .device = device};
    struct pool *pool = cpu_device_pool(device);
    if (args->rows > AVX2_I8_ROWS) {
        job.inputs = avx2_inputs_place(args->workspace.data, args->rows, form->k);
        pool_run_ranges(pool, linear_i8_fill, &job, avx2_blocks(args->rows), form->k / 4);
    }
    pool_run_ranges(pool, linear_i8_range, &job, reference_panels(form->n),
                    (uint64_t)args->rows * form->k / 6);
    return KERNELS_OK;
}
