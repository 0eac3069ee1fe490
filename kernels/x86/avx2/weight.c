#include "kernels/x86/avx2/weight.h"

#include "kernels/x86/avx2/avx2.h"

enum kernels_status avx2_weight_packed_bytes_by(const struct weight_form *form,
                                                avx2_values_bytes_fn *values_bytes, size_t *bytes,
                                                char *err, size_t err_bytes) {
    if (!avx2_takes(form)) {
        return reference_weight_packed_bytes(form, bytes, err, err_bytes);
    }
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        *bytes = reference_weight_layout_of(form, values_bytes(form)).bytes;
    }
    return status;
}

enum kernels_status avx2_weight_pack_by(const struct weight_form *form,
                                        const struct weight_source *source,
                                        avx2_values_bytes_fn *values_bytes,
                                        avx2_pack_output_fn *pack_output, void *packed, char *err,
                                        size_t err_bytes) {
    if (!avx2_takes(form)) {
        return reference_weight_pack(form, source, packed, err, err_bytes);
    }
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        status = reference_weight_check_source(form, source, err, err_bytes);
    }
    if (status == KERNELS_OK) {
        size_t bytes = values_bytes(form);
        struct reference_weight_layout layout = reference_weight_layout_of(form, bytes);
        memset(packed, 0, bytes);
        for (uint32_t n = 0; n < form->n; n++) {
            pack_output(form, (const int8_t *)source->values + (size_t)n * form->k, n, packed);
        }
        reference_weight_pack_sections(form, source, &layout, packed);
    }
    return status;
}

/* The largest unsigned input for which no part of a sum over these weights leaves 16 bits. */
static uint32_t avx2_limit(const int32_t of_sign[2]) {
    int32_t most = of_sign[0] > of_sign[1] ? of_sign[0] : of_sign[1];
    return (uint32_t)(most > 0 ? INT16_MAX / most : INT16_MAX);
}

static void avx2_lower_group(uint8_t *limit, uint32_t to) {
    *limit = (uint8_t)(to < *limit ? to : *limit);
}

static void avx2_lower_step(uint8_t *step_limits, uint32_t group, uint32_t to) {
    if (to < avx2_step_limit(step_limits, group)) {
        uint32_t grains = (to - AVX2_STEP_LIMIT_LEAST) / AVX2_STEP_LIMIT_GRAIN, at = group % 2 * 4;
        uint8_t *both = &step_limits[group / 2];
        *both = (uint8_t)((*both & ~(AVX2_STEP_LIMIT_MOST << at)) | grains << at);
    }
}

/* Lowers a panel's limits to what the weights of one more output allow. A 16-bit lane sees two
 * neighbours of each step. */
static void avx2_lower_limits(const int8_t *values, uint32_t k_count, uint8_t *limits) {
    uint8_t *step_limits = limits + avx2_groups(k_count);
    for (uint32_t lane = 0; lane < AVX2_STEP; lane += 2) {
        int32_t group[2] = {0};
        for (uint32_t k = lane; k < k_count; k += AVX2_STEP) {
            int32_t step[2] = {0};
            for (uint32_t i = k; i < k + 2 && i < k_count; i++) {
                step[values[i] < 0] += values[i] < 0 ? -values[i] : values[i];
            }
            group[0] = (k % AVX2_GROUP < AVX2_STEP ? 0 : group[0]) + step[0];
            group[1] = (k % AVX2_GROUP < AVX2_STEP ? 0 : group[1]) + step[1];
            avx2_lower_group(&limits[k / AVX2_GROUP], avx2_limit(group));
            avx2_lower_step(step_limits, k / AVX2_GROUP, avx2_limit(step));
        }
    }
}

static void avx2_pack_output(const struct weight_form *form, const int8_t *values, uint32_t n,
                             uint8_t *packed) {
    uint8_t *panel = packed + (n / REFERENCE_PANEL) * avx2_panel_bytes(form->k);
    uint8_t *limits = panel + AVX2_PANEL_START_BYTES;
    uint8_t *to = panel + avx2_panel_weights(form->k) + (size_t)(n % REFERENCE_PANEL) * AVX2_STEP;
    int32_t start = 0; /* the sum of |w| over negative weights: see int8.h */
    for (uint32_t k = 0; k < form->k; k++) {
        to[(size_t)(k / AVX2_STEP) * REFERENCE_PANEL * AVX2_STEP + k % AVX2_STEP] =
            (uint8_t)values[k];
        start -= values[k] < 0 ? values[k] : 0;
    }
    memcpy(panel + (size_t)(n % REFERENCE_PANEL) * sizeof start, &start, sizeof start);
    if (n % REFERENCE_PANEL == 0) {
        memset(limits, UINT8_MAX, avx2_limits_bytes(form->k));
    }
    avx2_lower_limits(values, form->k, limits);
}

enum kernels_status avx2_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                             char *err, size_t err_bytes) {
    return avx2_weight_packed_bytes_by(form, avx2_weight_values_bytes, bytes, err, err_bytes);
}

enum kernels_status avx2_weight_pack(const struct weight_form *form,
                                     const struct weight_source *source, void *packed, char *err,
                                     size_t err_bytes) {
    return avx2_weight_pack_by(form, source, avx2_weight_values_bytes, avx2_pack_output, packed,
                               err, err_bytes);
}
