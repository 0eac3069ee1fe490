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

static void avx2_pack_output(const struct weight_form *form, const int8_t *values, uint32_t n,
                             uint8_t *packed) {
    uint8_t *panel = packed + (n / REFERENCE_PANEL) * avx2_panel_bytes(form->k);
    uint8_t *to = panel + AVX2_PANEL_START_BYTES + (size_t)(n % REFERENCE_PANEL) * AVX2_STEP;
    int32_t start = 0; /* the sum of |w| over negative weights: see int8.h */
    for (uint32_t k = 0; k < form->k; k++) {
        to[(size_t)(k / AVX2_STEP) * REFERENCE_PANEL * AVX2_STEP + k % AVX2_STEP] =
            (uint8_t)values[k];
        start -= values[k] < 0 ? values[k] : 0;
    }
    memcpy(panel + (size_t)(n % REFERENCE_PANEL) * sizeof start, &start, sizeof start);
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
