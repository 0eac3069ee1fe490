#include "kernels/x86/avx2/shortcut_bounds.h"

#include "kernels/canonical.h"

#define SHORTCUT_LANES 16u
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

bool avx2_shortcut_ends(const struct head_sketch *sketch, const struct avx2_shortcut_bound *bound,
                        uint32_t vocabulary, float *low, float *high) {
    int32_t beyond = 0;
    for (uint32_t n = 0; n < vocabulary; n++) {
        float logit = low[n] + high[n];
        float off = sketch->norm[n] * bound->by_norm + sketch->error[n] * bound->by_error;
        off = off + 1e-30f; /* what underflow can take */
        low[n] = logit - off;
        high[n] = logit + off;
        beyond |= !(low[n] > -SHORTCUT_FINITE) | !(high[n] < SHORTCUT_FINITE);
    }
    return beyond == 0;
}

/* Largest of each stretch, in lanes that need not wait for each other. */
static void shortcut_stretch_most(const float *low, uint32_t vocabulary, float *most) {
    for (uint32_t begin = 0; begin < vocabulary; begin += AVX2_SHORTCUT_STRETCH) {
        uint32_t left = vocabulary - begin,
                 width = left < AVX2_SHORTCUT_STRETCH ? left : AVX2_SHORTCUT_STRETCH;
        const float *from = low + begin;
        float lane[SHORTCUT_LANES];
        for (uint32_t l = 0; l < SHORTCUT_LANES; l++) {
            lane[l] = from[l < width ? l : 0];
        }
        uint32_t whole = width - width % SHORTCUT_LANES;
        for (uint32_t n = 0; n < whole; n += SHORTCUT_LANES) {
            for (uint32_t l = 0; l < SHORTCUT_LANES; l++) {
                lane[l] = from[n + l] > lane[l] ? from[n + l] : lane[l];
            }
        }
        for (uint32_t n = whole; n < width; n++) {
            lane[0] = from[n] > lane[0] ? from[n] : lane[0];
        }
        for (uint32_t l = 1; l < SHORTCUT_LANES; l++) {
            lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
        }
        most[begin / AVX2_SHORTCUT_STRETCH] = lane[0];
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

float avx2_shortcut_least(const float *low, uint32_t vocabulary, uint32_t first, float *most) {
    shortcut_stretch_most(low, vocabulary, most);
    return shortcut_kth(most, avx2_shortcut_stretches(vocabulary), first);
}
