/* The layout of INT8 weights that the AVX2 kernels read. Private to kernels.
 *
 * Only the plain form: symmetric weights, one scale an output, symmetric activations per token
 * (which never reach -128, so that a weight of -128 is exact: see int8.h). Panels of 16 outputs,
 * one after the other, each of three parts that begin at a cache line:
 *   starts   i32 [16]                 what each output's sum starts from (int8.h)
 *   limits   u8 [G], u4 [G]          of unsigned inputs (int8_block.h), for each group of steps:
 *                                     with its steps added at 16 bits, and with each step alone;
 *                                     of the second what avx2_step_limit makes of it
 *   weights  i8 [G, 4, 16, 4]         G = ceil(K/16) groups of four steps; a step reads four inputs
 *                                     of 16 outputs as one cache line; zero past K
 * Other sections as in the reference; other forms in the reference's layout, for the reference's
 * kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_WEIGHT_H
#define SOLFLEET_KERNELS_X86_AVX2_WEIGHT_H

#include "kernels/reference/weight.h"

#define AVX2_STEP 4u /* inputs of a step */
#define AVX2_STEP_BYTES (AVX2_STEP * REFERENCE_PANEL)
#define AVX2_GROUP_STEPS 4u
#define AVX2_GROUP (AVX2_GROUP_STEPS * AVX2_STEP) /* inputs of a group */
#define AVX2_GROUP_BYTES (AVX2_GROUP_STEPS * AVX2_STEP_BYTES)
#define AVX2_PANEL_START_BYTES 64u

static inline bool avx2_takes(const struct weight_form *form) {
    return form->type == ELEMENT_I8 && form->activation == ACTIVATION_PER_TOKEN &&
           !form->weight_zero_point && !form->activation_zero_point && reference_groups(form) == 1;
}

static inline uint32_t avx2_steps(uint32_t k) {
    return k / AVX2_STEP + (k % AVX2_STEP != 0);
}

static inline uint32_t avx2_groups(uint32_t k) {
    return k / AVX2_GROUP + (k % AVX2_GROUP != 0);
}

static inline size_t avx2_limits_bytes(uint32_t k) {
    return (size_t)avx2_groups(k) + (avx2_groups(k) + 1u) / 2u;
}

/* Where the weights of a panel begin. */
static inline size_t avx2_panel_weights(uint32_t k) {
    return AVX2_PANEL_START_BYTES + ((avx2_limits_bytes(k) + 63u) & ~(size_t)63u);
}

/* A single step's limit, coarse: any step allows 127 (two weights are at most 256), and no input is
 * above 254. */
#define AVX2_STEP_LIMIT_LEAST 127u
#define AVX2_STEP_LIMIT_GRAIN 9u
#define AVX2_STEP_LIMIT_MOST 15u

static inline uint32_t avx2_step_limit(const uint8_t *step_limits, uint32_t group) {
    uint32_t two = step_limits[group / 2], grains = two >> group % 2 * 4 & AVX2_STEP_LIMIT_MOST;
    return AVX2_STEP_LIMIT_LEAST + AVX2_STEP_LIMIT_GRAIN * grains;
}

static inline size_t avx2_panel_bytes(uint32_t k) {
    return avx2_panel_weights(k) + (size_t)avx2_groups(k) * AVX2_GROUP_BYTES;
}

static inline size_t avx2_weight_values_bytes(const struct weight_form *form) {
    return reference_panels(form->n) * avx2_panel_bytes(form->k);
}

/* Puts the K values of output n where the tier reads them; the rest of `packed` is zero. */
typedef void avx2_pack_output_fn(const struct weight_form *form, const int8_t *values, uint32_t n,
                                 uint8_t *packed);

/* Bytes of a tier's values, of a form that it takes. */
typedef size_t avx2_values_bytes_fn(const struct weight_form *form);

/* weight_packed_bytes and weight_pack of ops.h for a tier of these forms. */
enum kernels_status avx2_weight_packed_bytes_by(const struct weight_form *form,
                                                avx2_values_bytes_fn *values_bytes, size_t *bytes,
                                                char *err, size_t err_bytes);
enum kernels_status avx2_weight_pack_by(const struct weight_form *form,
                                        const struct weight_source *source,
                                        avx2_values_bytes_fn *values_bytes,
                                        avx2_pack_output_fn *pack_output, void *packed, char *err,
                                        size_t err_bytes);

#endif
