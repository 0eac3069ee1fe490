#include "kernels/x86/avx2/shortcut_bounds.h"

#include <immintrin.h>

#include "kernels/canonical.h"

/* Of the second rounding: what it leaves is small beside what the weights' rounding leaves, and
 * kernels are at their best with small inputs. */
#define SHORTCUT_SECOND_LEVELS 15.0f
#define SHORTCUT_FINITE 1e30f /* logits below are far from any overflow */

/* ---------------------------------------------------------------- rounding a row twice */

/* Squares of the norms that the bound needs; exact to double's precision, which 1e-6 below
 * covers. */
struct shortcut_norms {
    double x, first, second, both, rest;
};

/* Rounds to -levels .. levels, at most 127. */
static void shortcut_round(const float *x, uint32_t dim, float levels, int8_t *q, float *scale) {
    struct canonical_quantizer quantizer =
        canonical_quantize_symmetric(canonical_amax_bits(x, dim));
    float fewer = levels / 127.0f;
    for (uint32_t k = 0; k < dim; k++) {
        q[k] = canonical_q_symmetric(x[k], quantizer.factor * fewer);
    }
    *scale = quantizer.scale / fewer;
}

static void shortcut_measure(const float *x, const int8_t *first, const int8_t *second,
                             const float scale[2], uint32_t dim, struct shortcut_norms *norms) {
    *norms = (struct shortcut_norms){0};
    for (uint32_t k = 0; k < dim; k++) {
        double one = (double)first[k] * (double)scale[0];
        double two = (double)second[k] * (double)scale[1];
        double rest = (double)x[k] - one - two;
        norms->x += (double)x[k] * (double)x[k];
        norms->first += one * one;
        norms->second += two * two;
        norms->both += (one + two) * (one + two);
        norms->rest += rest * rest;
    }
}

static struct avx2_shortcut_bound shortcut_bound(const struct shortcut_norms *norms, uint32_t dim) {
    const double u = 0x1p-24, above = 1.0 + 1e-6;
    double chain = dim * u / (1.0 - dim * u);
    double g = 16.0 * u * (sqrt(norms->first) + sqrt(norms->second));
    return (struct avx2_shortcut_bound){
        .by_norm = (float)((sqrt(norms->rest) + chain * sqrt(norms->x) + g) * above) + 0x1p-126f,
        .by_error = (float)((sqrt(norms->both) + g) * above) + 0x1p-126f};
}

struct avx2_shortcut_bound avx2_shortcut_round(const float *x, uint32_t dim, float *rest,
                                               int8_t *first, int8_t *second, float scale[2]) {
    struct shortcut_norms norms;
    shortcut_round(x, dim, 127.0f, first, &scale[0]);
    for (uint32_t k = 0; k < dim; k++) {
        rest[k] = fmaf(-(float)first[k], scale[0], x[k]);
    }
    shortcut_round(rest, dim, SHORTCUT_SECOND_LEVELS, second, &scale[1]);
    shortcut_measure(x, first, second, scale, dim, &norms);
    return shortcut_bound(&norms, dim);
}

/* ---------------------------------------------------------------- which logits can matter */

/* Ends of logits n .. n + count - 1. */
static inline __attribute__((always_inline)) bool
shortcut_bound_stretch(const struct head_sketch *sketch, const struct avx2_shortcut_bound *bound,
                       uint32_t n, uint32_t count, float *low, float *high) {
    const float *norm = sketch->norm + n, *error = sketch->error + n;
    int32_t beyond = 0;
    for (uint32_t i = 0; i < count; i++) {
        float logit = low[i] + high[i];
        float off = norm[i] * bound->by_norm + error[i] * bound->by_error;
        off = off + 1e-30f; /* what underflow can take */
        low[i] = logit - off;
        high[i] = logit + off;
        beyond |= !(low[i] > -SHORTCUT_FINITE) | !(high[i] < SHORTCUT_FINITE);
    }
    return beyond == 0;
}

/* The largest of a whole stretch. */
static float shortcut_most_whole(const float *value) {
    __m256 most = _mm256_loadu_ps(value);
#pragma GCC unroll 7
    for (uint32_t i = 8; i < AVX2_SHORTCUT_STRETCH; i += 8) {
        most = _mm256_max_ps(most, _mm256_loadu_ps(value + i));
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static float shortcut_most(const float *value, uint32_t count) {
    if (count == AVX2_SHORTCUT_STRETCH) {
        return shortcut_most_whole(value);
    }
    float most = value[0];
    for (uint32_t i = 1; i < count; i++) {
        most = value[i] > most ? value[i] : most;
    }
    return most;
}

static uint32_t shortcut_width(uint32_t vocabulary, uint32_t stretch) {
    uint32_t left = vocabulary - stretch * AVX2_SHORTCUT_STRETCH;
    return left < AVX2_SHORTCUT_STRETCH ? left : AVX2_SHORTCUT_STRETCH;
}

static void shortcut_find_most(const struct avx2_shortcut_ends *ends, uint32_t stretch,
                               uint32_t count) {
    uint32_t n = stretch * AVX2_SHORTCUT_STRETCH;
    ends->most_low[stretch] = shortcut_most(ends->low + n, count);
    ends->most_high[stretch] = shortcut_most(ends->high + n, count);
}

bool avx2_shortcut_bound_logits(const struct head_sketch *sketch,
                                const struct avx2_shortcut_bound *bound, uint32_t vocabulary,
                                const struct avx2_shortcut_ends *ends) {
    bool finite = true;
    for (uint32_t s = 0; s < avx2_shortcut_stretches(vocabulary); s++) {
        uint32_t n = s * AVX2_SHORTCUT_STRETCH, count = shortcut_width(vocabulary, s);
        float *low = ends->low + n, *high = ends->high + n;
        finite &= count == AVX2_SHORTCUT_STRETCH
                      ? shortcut_bound_stretch(sketch, bound, n, AVX2_SHORTCUT_STRETCH, low, high)
                      : shortcut_bound_stretch(sketch, bound, n, count, low, high);
        shortcut_find_most(ends, s, count);
    }
    return finite;
}

void avx2_shortcut_find_most(uint32_t vocabulary, const struct avx2_shortcut_ends *ends) {
    for (uint32_t s = 0; s < avx2_shortcut_stretches(vocabulary); s++) {
        shortcut_find_most(ends, s, shortcut_width(vocabulary, s));
    }
}

/* The k-th largest of count >= k values, which are moved about (Hoare 1961). */
static float shortcut_kth(float *value, uint32_t count, uint32_t k) {
    uint32_t left = 0, right = count - 1, at = k - 1;
    while (left < right) {
        float pivot = value[left + (right - left) / 2];
        uint32_t i = left, j = right;
        for (;;) {
            for (; value[i] > pivot; i++) {
            }
            for (; value[j] < pivot; j--) {
            }
            if (i >= j) {
                break;
            }
            float moved = value[i];
            value[i++] = value[j];
            value[j--] = moved;
        }
        if (at <= j) {
            right = j;
        } else {
            left = j + 1;
        }
    }
    return value[at];
}

float avx2_shortcut_least(uint32_t vocabulary, uint32_t first,
                          const struct avx2_shortcut_ends *ends) {
    return shortcut_kth(ends->most_low, avx2_shortcut_stretches(vocabulary), first);
}
