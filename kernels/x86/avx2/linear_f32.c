/* Rows of floats times a 16- or 32-bit weight: an FMA chain an output. An FMA takes about four
 * cycles and two start in one, so at least eight chains run side by side: few rows take several
 * panels of outputs at a time. */
#include <immintrin.h>

#include "kernels/reference/weight.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/linear_f32_tiles.h"

/* ---------------------------------------------------------------- kernels */

#define LINEAR_F32_PANELS 4u /* of a tile; six rows of a panel are 12 chains of 8 outputs */
#define LINEAR_F32_VECTORS (2u * LINEAR_F32_PANELS) /* of 8 outputs */

/* Eight weights of a step as f32: weights `index` to `index` + 7 of the panels. */
static inline __m256 linear_f32_weights(const void *values, size_t index, const bool half) {
    if (half) {
        const uint16_t *at = (const uint16_t *)values + index;
        return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)at));
    }
    return _mm256_load_ps((const float *)values + index);
}

static void linear_f32_store(const struct linear_f32_job *job, uint32_t n, uint32_t t, __m256 y) {
    const struct linear_f32_args *args = job->args;
    uint32_t n_count = args->weight->form.n;
    size_t at = (size_t)t * n_count + n;
    if (job->bias != NULL) {
        y = _mm256_add_ps(y, _mm256_load_ps(job->bias + n));
    }
    if (n + 8u <= n_count) {
        if (args->residual != NULL) {
            y = _mm256_add_ps(_mm256_loadu_ps(args->residual + at), y);
        }
        _mm256_storeu_ps(args->y + at, y);
        return;
    }
    float all[8];
    _mm256_storeu_ps(all, y);
    for (uint32_t l = 0; n + l < n_count; l++) {
        args->y[at + l] = args->residual != NULL ? args->residual[at + l] + all[l] : all[l];
    }
}

/* The outputs that exist of a block. Not inlined: nothing of it may cost the chains a register. */
static __attribute__((noinline)) void
linear_f32_store_block(const struct linear_f32_job *job, uint32_t panel, uint32_t t,
                       uint32_t panels, uint32_t rows,
                       __m256 out[LINEAR_F32_ROWS][LINEAR_F32_VECTORS]) {
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t v = 0; v < 2u * panels; v++) {
            uint32_t n = panel * REFERENCE_PANEL + v * 8u;
            if (n < job->args->weight->form.n) {
                linear_f32_store(job, n, t + r, out[r][v]);
            }
        }
    }
}

/* One step of k: `index` is of its first weight, x of its first row's input. What is held besides
 * the sums is two vectors of weights and one input where there is one panel, else one and
 * `rows`. */
static inline __attribute__((always_inline)) void
linear_f32_step(const void *values, size_t index, uint32_t k_count, const float *x,
                const uint32_t panels, const uint32_t rows, const bool half,
                __m256 acc[][LINEAR_F32_VECTORS]) {
    if (panels == 1) {
        __m256 low = linear_f32_weights(values, index, half);
        __m256 high = linear_f32_weights(values, index + 8u, half);
#pragma GCC unroll 6
        for (uint32_t r = 0; r < rows; r++) {
            __m256 input = _mm256_set1_ps(x[(size_t)r * k_count]);
            acc[r][0] = _mm256_fmadd_ps(input, low, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(input, high, acc[r][1]);
        }
        return;
    }
#pragma GCC unroll 8
    for (uint32_t v = 0; v < 2u * panels; v++) {
        size_t at = index + (size_t)(v / 2u) * k_count * REFERENCE_PANEL + v % 2u * 8u;
        __m256 w = linear_f32_weights(values, at, half);
#pragma GCC unroll 6
        for (uint32_t r = 0; r < rows; r++) {
            __m256 input = _mm256_set1_ps(x[(size_t)r * k_count]);
            acc[r][v] = _mm256_fmadd_ps(input, w, acc[r][v]);
        }
    }
}

/* Chains of rows t .. t + rows - 1 over panels `panel` .. panel + panels - 1; panels, rows and half
 * are constants where this is inlined, so that acc stands in registers until it is copied out. */
static inline __attribute__((always_inline)) void
linear_f32_chains(const struct linear_f32_args *args, uint32_t panel, uint32_t t,
                  const uint32_t panels, const uint32_t rows, const bool half,
                  __m256 out[LINEAR_F32_ROWS][LINEAR_F32_VECTORS]) {
    uint32_t k_count = args->weight->form.k;
    const float *x = args->x + (size_t)t * k_count;
    size_t first = reference_panel_index(panel * REFERENCE_PANEL, 0, k_count);
    __m256 acc[LINEAR_F32_ROWS][LINEAR_F32_VECTORS];
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < 2u * panels; v++) {
            acc[r][v] = _mm256_setzero_ps();
        }
    }
    for (uint32_t k = 0; k < k_count; k++) {
        linear_f32_step(args->weight->packed, first + (size_t)k * REFERENCE_PANEL, k_count, x + k,
                        panels, rows, half, acc);
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < 2u * panels; v++) {
            out[r][v] = acc[r][v];
        }
    }
}

static inline __attribute__((always_inline)) void
linear_f32_block(const struct linear_f32_job *job, uint32_t panel, uint32_t t,
                 const uint32_t panels, const uint32_t rows, const bool half) {
    __m256 out[LINEAR_F32_ROWS][LINEAR_F32_VECTORS];
    linear_f32_chains(job->args, panel, t, panels, rows, half, out);
    linear_f32_store_block(job, panel, t, panels, rows, out);
}

/* The same over panels begin .. end - 1 for any number of rows up to LINEAR_F32_ROWS. */
static inline __attribute__((always_inline)) void
linear_f32_panels(const struct linear_f32_job *job, uint32_t begin, uint32_t end, uint32_t t,
                  uint32_t rows, const bool half) {
    uint32_t p = begin;
    for (; rows == 1 && p + 4 <= end; p += 4) {
        linear_f32_block(job, p, t, 4, 1, half);
    }
    for (; rows <= 3 && p + 2 <= end; p += 2) {
        switch (rows) {
        case 1: linear_f32_block(job, p, t, 2, 1, half); break;
        case 2: linear_f32_block(job, p, t, 2, 2, half); break;
        default: linear_f32_block(job, p, t, 2, 3, half); break;
        }
    }
    for (; p < end; p++) {
        switch (rows) {
        case 1: linear_f32_block(job, p, t, 1, 1, half); break;
        case 2: linear_f32_block(job, p, t, 1, 2, half); break;
        case 3: linear_f32_block(job, p, t, 1, 3, half); break;
        case 4: linear_f32_block(job, p, t, 1, 4, half); break;
        case 5: linear_f32_block(job, p, t, 1, 5, half); break;
        default: linear_f32_block(job, p, t, 1, 6, half); break;
        }
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

enum kernels_status avx2_linear_f32(struct device *device, const struct linear_f32_args *args) {
    static const struct linear_f32_kernels kernels = {
        .f16 = linear_f32_panels_f16,
        .f32 = linear_f32_panels_f32,
        .panels = LINEAR_F32_PANELS,
        .row_cost = 2u,
    };
    return avx2_linear_f32_by(device, args, &kernels);
}
