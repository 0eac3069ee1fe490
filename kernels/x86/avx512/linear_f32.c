/* Rows of floats times a 16- or 32-bit weight: an FMA chain an output, a panel of 16 in a register.
 * An FMA takes about four cycles and one or two start in one, so at least eight registers of chains
 * run side by side: fewer rows take more panels at a time. */
#include <immintrin.h>

#include "kernels/reference/weight.h"
#include "kernels/x86/avx2/linear_f32_tiles.h"
#include "kernels/x86/avx512/avx512.h"
#include "kernels/x86/avx512/mask.h"

/* ---------------------------------------------------------------- kernels */

#define LINEAR_F32_PANELS 4u       /* side by side: with six rows, 24 chains of 16 outputs */
#define LINEAR_F32_PANELS_ALONE 8u /* of a tile, and side by side for a row alone */

/* The 16 weights of a step, `index` onwards of the panels, as f32. */
static inline __m512 linear_f32_weights(const void *values, size_t index, const bool half) {
    if (half) {
        const uint16_t *at = (const uint16_t *)values + index;
        return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)at));
    }
    return _mm512_load_ps((const float *)values + index);
}

/* The outputs of panel `panel` that exist, of row t: bias, then residual, then memory. */
static inline void linear_f32_store(const struct linear_f32_job *job, uint32_t panel, uint32_t t,
                                    __m512 y) {
    const struct linear_f32_args *args = job->args;
    uint32_t n = panel * REFERENCE_PANEL, n_count = args->weight->form.n;
    size_t at = (size_t)t * n_count + n;
    __mmask16 exist = avx512_first_lanes(n_count - n);
    if (job->bias != NULL) {
        y = _mm512_add_ps(y, _mm512_load_ps(job->bias + n));
    }
    if (args->residual != NULL) {
        y = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, args->residual + at), y);
    }
    _mm512_mask_storeu_ps(args->y + at, exist, y);
}

/* Chains of rows t .. t + rows - 1 over panels `panel` .. panel + panels - 1; panels, rows and half
 * are constants where this is inlined, so that acc stands in registers. */
static inline __attribute__((always_inline)) void
linear_f32_tile(const struct linear_f32_job *job, uint32_t panel, uint32_t t, const uint32_t rows,
                const uint32_t panels, const bool half) {
    const struct weight *weight = job->args->weight;
    uint32_t k_count = weight->form.k;
    const float *x = job->args->x + (size_t)t * k_count;
    size_t first = reference_panel_index(panel * REFERENCE_PANEL, 0, k_count);
    size_t panel_elements = (size_t)k_count * REFERENCE_PANEL;
    __m512 acc[LINEAR_F32_ROWS][LINEAR_F32_PANELS];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            acc[r][p] = _mm512_setzero_ps();
        }
    }
    for (uint32_t k = 0; k < k_count; k++) {
        __m512 w[LINEAR_F32_PANELS];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            w[p] = linear_f32_weights(
                weight->packed, first + p * panel_elements + (size_t)k * REFERENCE_PANEL, half);
        }
#pragma GCC unroll 6
        for (uint32_t r = 0; r < rows; r++) {
            __m512 input = _mm512_set1_ps(x[(size_t)r * k_count + k]);
#pragma GCC unroll 4
            for (uint32_t p = 0; p < panels; p++) {
                acc[r][p] = _mm512_fmadd_ps(input, w[p], acc[r][p]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < panels; p++) {
            linear_f32_store(job, panel + p, t + r, acc[r][p]);
        }
    }
}

/* Eight weights of a step, `index` onwards of the panels, as f32. */
static inline __m256 linear_f32_half_weights(const void *values, size_t index, const bool half) {
    if (half) {
        const uint16_t *at = (const uint16_t *)values + index;
        return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)at));
    }
    return _mm256_load_ps((const float *)values + index);
}

/* One or two rows over `panels` panels, each in two halves: a weight is used so few times that its
 * conversion decides, and halves are converted faster. 16 chains; rows and panels are constants. */
static inline __attribute__((always_inline)) void
linear_f32_few(const struct linear_f32_job *job, uint32_t panel, uint32_t t, const uint32_t rows,
               const uint32_t panels, const bool half) {
    const struct weight *weight = job->args->weight;
    uint32_t k_count = weight->form.k;
    const float *x = job->args->x + (size_t)t * k_count;
    size_t first = reference_panel_index(panel * REFERENCE_PANEL, 0, k_count);
    size_t panel_elements = (size_t)k_count * REFERENCE_PANEL;
    __m256 acc[2][2 * LINEAR_F32_PANELS_ALONE];
#pragma GCC unroll 2
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < 2 * panels; v++) {
            acc[r][v] = _mm256_setzero_ps();
        }
    }
    for (uint32_t k = 0; k < k_count; k++) {
#pragma GCC unroll 16
        for (uint32_t v = 0; v < 2 * panels; v++) {
            size_t at = first + v / 2u * panel_elements + (size_t)k * REFERENCE_PANEL + v % 2u * 8u;
            __m256 w = linear_f32_half_weights(weight->packed, at, half);
#pragma GCC unroll 2
            for (uint32_t r = 0; r < rows; r++) {
                acc[r][v] = _mm256_fmadd_ps(_mm256_set1_ps(x[r * k_count + k]), w, acc[r][v]);
            }
        }
    }
#pragma GCC unroll 2
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t p = 0; p < panels; p++) {
            __m512 low = _mm512_castps256_ps512(acc[r][2 * p]);
            linear_f32_store(job, panel + p, t + r, _mm512_insertf32x8(low, acc[r][2 * p + 1], 1));
        }
    }
}

/* Instances by the number of rows. */
static inline __attribute__((always_inline)) void
linear_f32_rows(const struct linear_f32_job *job, uint32_t panel, uint32_t t, uint32_t rows,
                const uint32_t panels, const bool half) {
    switch (rows) {
    case 1: linear_f32_tile(job, panel, t, 1, panels, half); break;
    case 2: linear_f32_few(job, panel, t, 2, panels, half); break;
    case 3: linear_f32_tile(job, panel, t, 3, panels, half); break;
    case 4: linear_f32_tile(job, panel, t, 4, panels, half); break;
    case 5: linear_f32_tile(job, panel, t, 5, panels, half); break;
    default: linear_f32_tile(job, panel, t, LINEAR_F32_ROWS, panels, half); break;
    }
}

/* Panels begin .. end - 1 of up to LINEAR_F32_ROWS rows. */
static inline __attribute__((always_inline)) void
linear_f32_panels(const struct linear_f32_job *job, uint32_t begin, uint32_t end, uint32_t t,
                  uint32_t rows, const bool half) {
    uint32_t p = begin;
    for (; rows == 1 && p + LINEAR_F32_PANELS_ALONE <= end; p += LINEAR_F32_PANELS_ALONE) {
        linear_f32_few(job, p, t, 1, LINEAR_F32_PANELS_ALONE, half);
    }
    for (; p + LINEAR_F32_PANELS <= end; p += LINEAR_F32_PANELS) {
        linear_f32_rows(job, p, t, rows, LINEAR_F32_PANELS, half);
    }
    for (; p < end; p++) {
        linear_f32_rows(job, p, t, rows, 1, half);
    }
}

static void linear_f32_panels_f16(const struct linear_f32_job *job, uint32_t begin, uint32_t end,
                                  uint32_t t, uint32_t rows) {
    linear_f32_panels(job, begin, end, t, rows, true);
}

static void linear_f32_panels_f32(const struct linear_f32_job *job, uint32_t begin, uint32_t end,
                                  uint32_t t, uint32_t rows) {
    linear_f32_panels(job, begin, end, t, rows, false);
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status avx512_linear_f32(struct device *device, const struct linear_f32_args *args) {
    static const struct linear_f32_kernels kernels = {
        .f16 = linear_f32_panels_f16,
        .f32 = linear_f32_panels_f32,
        .panels = LINEAR_F32_PANELS_ALONE,
        .row_cost = 3u,
    };
    return avx2_linear_f32_by(device, args, &kernels);
}
