/* What the shortcut (shortcut.h) knows of a row's logits without computing them: the INT8 roundings
 * of the row, the interval that holds each logit, and a value that the first ones reach.
 *
 * Pure; any thread. Private to kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_BOUNDS_H
#define SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_BOUNDS_H

#include "kernels/ops.h"

#define AVX2_SHORTCUT_STRETCH 64u /* logits of which the largest lower end is kept */

/* The bound's two factors, rounded up: what it takes of |w| and of |w - c|. */
struct avx2_shortcut_bound {
    float by_norm, by_error;
};

static inline uint32_t avx2_shortcut_stretches(uint32_t vocabulary) {
    return (vocabulary - 1) / AVX2_SHORTCUT_STRETCH + 1;
}

/* Rounds x, f32 [D] and finite, twice.
 *   out  first, second, scale   i8 [D], i8 [D], f32 [2]: x ~ first * scale[0] + second * scale[1]
 *   rest                        f32 [D], scratch */
struct avx2_shortcut_bound avx2_shortcut_round(const float *x, uint32_t dim, float *rest,
                                               int8_t *first, int8_t *second, float scale[2]);

/* Turns the two products of a row, low and high [V], into the ends of the intervals that hold its
 * logits. False where a logit might not be finite. */
bool avx2_shortcut_ends(const struct head_sketch *sketch, const struct avx2_shortcut_bound *bound,
                        uint32_t vocabulary, float *low, float *high);

/* A value that the `first` largest logits reach: the largest lower ends of stretches are so many
 * different logits' lower ends, and the `first`-th of them is not above the `first`-th largest
 * logit. 1 <= first <= stretches; most: f32 [stretches], scratch. */
float avx2_shortcut_least(const float *low, uint32_t vocabulary, uint32_t first, float *most);

#endif
