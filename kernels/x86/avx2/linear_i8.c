/* The INT8 product with its epilogue in registers: up to three rows at a time. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/int8.h"

/* ---------------------------------------------------------------- kernels */

struct linear_i8_job {
    const struct linear_i8_args *args;
    struct reference_weight_view view;
};

/* Eight outputs of a row: sums to floats, as canonical_dequantize. */
static __m256 linear_i8_dequantize(const struct linear_i8_job *job, __m256i sum, uint32_t n,
                                   float row_scale) {
    __m256 value = _mm256_cvtepi32_ps(sum);
    __m256 scale = _mm256_mul_ps(_mm256_set1_ps(row_scale), _mm256_load_ps(job->view.scale + n));
    return job->view.bias != NULL
               ? _mm256_fmadd_ps(value, scale, _mm256_load_ps(job->view.bias + n))
               : _mm256_mul_ps(value, scale);
}

/* The outputs of panel `panel` that exist, of row t. */
static void linear_i8_store(const struct linear_i8_job *job, uint32_t panel, uint32_t t,
                            const __m256i sum[2]) {
    const struct linear_i8_args *args = job->args;
    uint32_t n = panel * REFERENCE_PANEL, n_count = args->weight->form.n;
    size_t at = (size_t)t * n_count + n;
    __m256 y[2] = {linear_i8_dequantize(job, sum[0], n, args->x.scale[t]),
                   linear_i8_dequantize(job, sum[1], n + 8u, args->x.scale[t])};
    if (n_count - n >= REFERENCE_PANEL) {
        for (uint32_t i = 0; i < 2; i++) {
            y[i] = args->residual != NULL
                       ? _mm256_add_ps(_mm256_loadu_ps(args->residual + at + 8u * i), y[i])
                       : y[i];
            _mm256_storeu_ps(args->y + at + 8u * i, y[i]);
        }
        return;
    }
    float all[REFERENCE_PANEL];
    memcpy(all, y, sizeof all);
    for (uint32_t l = 0; l < n_count - n; l++) {
        args->y[at + l] = args->residual != NULL ? args->residual[at + l] + all[l] : all[l];
    }
}

static inline __attribute__((always_inline)) void
linear_i8_rows(const struct linear_i8_job *job, uint32_t panel, uint32_t t, const uint32_t rows) {
    const struct linear_i8_args *args = job->args;
    uint32_t k = args->weight->form.k;
    const int8_t *values = (const int8_t *)job->view.values + panel * avx2_panel_bytes(k);
    __m256i sum[AVX2_I8_ROWS][2];
    avx2_i8_panel(values, k, args->x.q + (size_t)t * k, rows, sum);
    for (uint32_t r = 0; r < rows; r++) {
        linear_i8_store(job, panel, t + r, sum[r]);
    }
}

/* ---------------------------------------------------------------- launchers */

/* Rows in nearly equal blocks, so that none is left with one. */
static void linear_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct linear_i8_job *job = context;
    uint32_t rows = job->args->rows, blocks = (rows - 1) / AVX2_I8_ROWS + 1;
    for (uint32_t panel = begin; panel < end; panel++) {
        uint32_t t = 0;
        for (uint32_t b = 0; b < blocks; b++) {
            uint32_t count = rows / blocks + (b < rows % blocks);
            switch (count) {
            case 1: linear_i8_rows(job, panel, t, 1); break;
            case 2: linear_i8_rows(job, panel, t, 2); break;
            default: linear_i8_rows(job, panel, t, AVX2_I8_ROWS); break;
            }
            t += count;
        }
    }
}

enum kernels_status avx2_linear_i8(struct device *device, const struct linear_i8_args *args) {
    if (!check_linear_i8(args)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    if (!avx2_takes(form)) {
        return reference_linear_i8(device, args);
    }
    struct linear_i8_job job = {
        args, reference_weight_view_of(args->weight, avx2_weight_values_bytes(form))};
    pool_run_ranges(cpu_device_pool(device), linear_i8_range, &job, reference_panels(form->n),
                    (uint64_t)args->rows * form->k / 4);
    return KERNELS_OK;
}
