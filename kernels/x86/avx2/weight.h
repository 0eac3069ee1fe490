/* The layout of INT8 weights that the AVX2 kernels read. Private to kernels.
 *
 * Only the plain form: symmetric weights, one scale an output, symmetric activations per token
 * (which never reach -128, so that a weight of -128 is exact: see linear_i8.c). Panels of 16
 * outputs, [ceil(N/16), ceil(K/4), 16, 4]: a step reads four inputs of 16 outputs as one cache
 * line. Other sections as in the reference; other forms in the reference's layout, for the
 * reference's kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_WEIGHT_H
#define SOLFLEET_KERNELS_X86_AVX2_WEIGHT_H

#include "kernels/reference/weight.h"

#define AVX2_STEP 4u /* inputs of a step */

static inline bool avx2_takes(const struct weight_form *form) {
    return form->type == ELEMENT_I8 && form->activation == ACTIVATION_PER_TOKEN &&
           !form->weight_zero_point && !form->activation_zero_point && reference_groups(form) == 1;
}

static inline uint32_t avx2_steps(uint32_t k) {
    return k / AVX2_STEP + (k % AVX2_STEP != 0);
}

static inline size_t avx2_panel_bytes(uint32_t k) {
    return (size_t)avx2_steps(k) * REFERENCE_PANEL * AVX2_STEP;
}

static inline size_t avx2_weight_values_bytes(const struct weight_form *form) {
    return reference_panels(form->n) * avx2_panel_bytes(form->k);
}

/* Puts the K values of output n where the tier reads them; the rest of `packed` is zero. */
typedef void avx2_pack_output_fn(const struct weight_form *form, const int8_t *values, uint32_t n,
                                 uint8_t *packed);

/* weight_pack of ops.h for a tier of these forms and this many bytes. */
enum kernels_status avx2_weight_pack_by(const struct weight_form *form,
                                        const struct weight_source *source,
                                        avx2_pack_output_fn *pack_output, void *packed, char *err,
                                        size_t err_bytes);

#endif
