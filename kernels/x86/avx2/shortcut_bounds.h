/* What the shortcut (shortcut.h) knows of a row's logits without computing them: the INT8 roundings
 * of the row, the interval that holds each logit, and a value that the first ones reach.
 *
 * Pure; any thread. Private to kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_BOUNDS_H
#define SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_BOUNDS_H

#include "kernels/ops.h"

#define AVX2_SHORTCUT_STRETCH 64u /* logits of which the largest ends are kept */

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

/* The ends of the intervals that hold a row's logits. */
struct avx2_shortcut_ends {
    float *low, *high;           /* [V] */
    float *most_low, *most_high; /* [stretches]: the largest of each stretch */
};

/* Turns the two products of a row, which stand in low and high, into ends. False where a logit
 * might not be finite. */
bool avx2_shortcut_bound_logits(const struct head_sketch *sketch,
                                const struct avx2_shortcut_bound *bound, uint32_t vocabulary,
                                const struct avx2_shortcut_ends *ends);

/* Finds the largest ends of stretches again, after low and high were changed. */
void avx2_shortcut_find_most(uint32_t vocabulary, const struct avx2_shortcut_ends *ends);

/* A value that the `first` largest logits reach: the largest lower ends of stretches are so many
 * different logits' lower ends, and the `first`-th of them is not above the `first`-th largest
 * logit. 1 <= first <= stretches. Moves most_low about. */
float avx2_shortcut_least(uint32_t vocabulary, uint32_t first,
                          const struct avx2_shortcut_ends *ends);

#endif
