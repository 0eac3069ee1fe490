/* The short way to a draw: INT8 logits of the whole vocabulary tell which few of them can matter,
 * and only those are computed as the head computes them. Private to kernels.
 *
 * Exact by a bound, not by luck. A final row x is rounded twice to INT8, x ~ x1 + x2; a head row w
 * has an INT8 copy c. Then, with u = 2^-24 and K inputs, the canonical FMA chain of x and w differs
 * from the float a = (x1 + x2).c computed here by at most
 *
 *   |w| (|x - x1 - x2| + K u / (1 - K u) |x| + g) + |w - c| (|x1 + x2| + g),
 *   g = 16 u (|x1| + |x2|):
 *
 * Cauchy's inequality for what rounding x and w took away, the standard bound of a recursive sum of
 * K terms (Higham 2002, 3.1) for the chain, and g for the few roundings of a and of the bound
 * itself. Penalties never fall with a logit, so they may be applied to both ends of an interval.
 * Whatever has its upper end below the lower ends of k others is not among the first k. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_H
#define SOLFLEET_KERNELS_X86_AVX2_SHORTCUT_H

#include "kernels/reference/head_sample.h"

struct avx2_shortcut_tier {
    enum kernels_status (*linear_i8)(struct device *device, const struct linear_i8_args *args);
    size_t (*linear_i8_bytes)(uint32_t rows, uint32_t k); /* its workspace; NULL: none */
    reference_head_logits_fn *head_logits;
    uint32_t rows_max; /* with more sampled rows the whole head is the shorter way */
};

/* Workspace bytes of head_sample within a shape. */
size_t avx2_shortcut_bytes(const struct avx2_shortcut_tier *tier, uint32_t threads,
                           const struct kernels_shape *shape);

/* head_sample by the shortcut, for the rows that it can take: greedy ones and those with a top_k of
 * at most 256. */
enum kernels_status avx2_shortcut_sample(struct device *device, const struct head_sample_args *args,
                                         const struct avx2_shortcut_tier *tier);

#endif
