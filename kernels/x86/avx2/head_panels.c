#include "kernels/x86/avx2/head_panels.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/reference/weight.h"

static inline __m256 head_panels_weights(const void *values, size_t index, const bool half) {
    if (half) {
        const uint16_t *at = (const uint16_t *)values + index;
        return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)at));
    }
    return _mm256_load_ps((const float *)values + index);
}

/* The canonical chains of four panels. */
static inline __attribute__((always_inline)) void
head_panels_chains(const struct weight *weight, const uint32_t panel[AVX2_HEAD_PANELS],
                   const float *x, const bool half, __m256 sum[AVX2_HEAD_PANELS][2]) {
    uint32_t dim = weight->form.k;
    size_t first[AVX2_HEAD_PANELS];
    for (uint32_t p = 0; p < AVX2_HEAD_PANELS; p++) {
        first[p] = reference_panel_index(panel[p] * REFERENCE_PANEL, 0, dim);
        sum[p][0] = sum[p][1] = _mm256_setzero_ps();
    }
    for (uint32_t k = 0; k < dim; k++) {
        __m256 input = _mm256_set1_ps(x[k]);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < AVX2_HEAD_PANELS; p++) {
            size_t at = first[p] + (size_t)k * REFERENCE_PANEL;
            sum[p][0] =
                _mm256_fmadd_ps(input, head_panels_weights(weight->packed, at, half), sum[p][0]);
            sum[p][1] = _mm256_fmadd_ps(input, head_panels_weights(weight->packed, at + 8u, half),
                                        sum[p][1]);
        }
    }
}

/* Fewer than four: the last is computed again in the place of those that are not there. */
void avx2_head_panels(const struct weight *weight, const float *x, const uint32_t *panels,
                      uint32_t count, float *logits) {
    uint32_t panel[AVX2_HEAD_PANELS];
    for (uint32_t p = 0; p < AVX2_HEAD_PANELS; p++) {
        panel[p] = panels[p < count ? p : count - 1];
    }
    __m256 sum[AVX2_HEAD_PANELS][2];
    if (weight->form.type == ELEMENT_F16) {
        head_panels_chains(weight, panel, x, true, sum);
    } else {
        head_panels_chains(weight, panel, x, false, sum);
    }
    for (uint32_t p = 0; p < count; p++) {
        uint32_t n = panel[p] * REFERENCE_PANEL, rest = weight->form.n - n;
        memcpy(logits + n, sum[p],
               (rest < REFERENCE_PANEL ? rest : REFERENCE_PANEL) * sizeof *logits);
    }
}
