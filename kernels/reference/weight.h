/* The layout of packed weights of the CPU tiers. Private to kernels.
 *
 * One block of memory, sections aligned to 64 bytes, in this order; a section that the form does
 * not need is empty.
 *   values       F16, F32: panels of 16 outputs, [ceil(N/16), K, 16]: a step of k reads the weights
 *                of 16 outputs side by side. INT8: as in the source, [N, K] (x86: avx2/weight.h).
 *   scale        f32 [N16, Q]    N16 = N rounded up to 16; what is past N is zero
 *   zero_point   i32 [N16, Q]
 *   row_sum      i32 [N16, Q]    sum of the weights of a group, for activation zero points
 *   bias         f32 [N16] */
#ifndef SOLFLEET_KERNELS_REFERENCE_WEIGHT_H
#define SOLFLEET_KERNELS_REFERENCE_WEIGHT_H

#include "kernels/canonical.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REFERENCE_PANEL 16u

static inline uint32_t reference_panels(uint32_t n) {
    return n / REFERENCE_PANEL + (n % REFERENCE_PANEL != 0);
}

static inline uint32_t reference_groups(const struct weight_form *form) {
    uint32_t size = form->group_size;
    return size == 0 ? 1u : form->k / size + (form->k % size != 0);
}

/* Where sections begin, in bytes. */
struct reference_weight_layout {
    size_t scale, zero_point, row_sum, bias, bytes;
};

/* For values of `values_bytes`. */
struct reference_weight_layout reference_weight_layout_of(const struct weight_form *form,
                                                          size_t values_bytes);
/* KERNELS_UNSUPPORTED with the reason: what no CPU tier takes. */
enum kernels_status reference_weight_check_form(const struct weight_form *form, char *err,
                                                size_t err_bytes) KERNELS_CHECK_RESULT;
/* KERNELS_INVALID with the reason: arrays that the form needs are there, scales are finite. */
enum kernels_status reference_weight_check_source(const struct weight_form *form,
                                                  const struct weight_source *source, char *err,
                                                  size_t err_bytes) KERNELS_CHECK_RESULT;
/* Fills all sections but values. */
void reference_weight_pack_sections(const struct weight_form *form,
                                    const struct weight_source *source,
                                    const struct reference_weight_layout *layout, void *packed);

/* The sections of a packed weight; NULL where the form has none. */
struct reference_weight_view {
    const void *values;
    const float *scale;
    const int32_t *zero_point;
    const int32_t *row_sum;
    const float *bias;
    uint32_t groups;
};

struct reference_weight_view reference_weight_view_of(const struct weight *weight,
                                                      size_t values_bytes);
/* Of the reference tier's own layout. */
size_t reference_weight_values_bytes(const struct weight_form *form);

/* Weight (n, k) of F16 or F32 panels. */
static inline size_t reference_panel_index(uint32_t n, uint32_t k, uint32_t k_count) {
    return ((size_t)(n / REFERENCE_PANEL) * k_count + k) * REFERENCE_PANEL + n % REFERENCE_PANEL;
}

/* The 16 weights of a step of k: element `index` onwards of the panels, as f32. */
static inline void reference_panel_step(const void *values, enum element_type type, size_t index,
                                        float w[REFERENCE_PANEL]) {
    if (type == ELEMENT_F32) {
        memcpy(w, (const float *)values + index, REFERENCE_PANEL * sizeof *w);
        return;
    }
    const uint16_t *half = (const uint16_t *)values + index;
    for (uint32_t l = 0; l < REFERENCE_PANEL; l++) {
        w[l] = canonical_f16_to_f32(half[l]);
    }
}

#ifdef __cplusplus
}
#endif

#endif
