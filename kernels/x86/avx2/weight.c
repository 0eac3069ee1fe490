#include "kernels/x86/avx2/weight.h"

#include "kernels/x86/avx2/avx2.h"

enum kernels_status avx2_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                             char *err, size_t err_bytes) {
    if (!avx2_takes(form)) {
        return reference_weight_packed_bytes(form, bytes, err, err_bytes);
    }
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        *bytes = reference_weight_layout(form, avx2_weight_values_bytes(form)).bytes;
    }
    return status;
}

static void avx2_pack_panels(const struct weight_form *form, const int8_t *values, int8_t *packed) {
    memset(packed, 0, avx2_weight_values_bytes(form));
    for (uint32_t n = 0; n < form->n; n++) {
        int8_t *to = packed + (n / REFERENCE_PANEL) * avx2_panel_bytes(form->k) +
                     (size_t)(n % REFERENCE_PANEL) * AVX2_STEP;
        for (uint32_t k = 0; k < form->k; k++) {
            to[(size_t)(k / AVX2_STEP) * REFERENCE_PANEL * AVX2_STEP + k % AVX2_STEP] =
                values[(size_t)n * form->k + k];
        }
    }
}

enum kernels_status avx2_weight_pack(const struct weight_form *form,
                                     const struct weight_source *source, void *packed, char *err,
                                     size_t err_bytes) {
    if (!avx2_takes(form)) {
        return reference_weight_pack(form, source, packed, err, err_bytes);
    }
    enum kernels_status status = reference_weight_check_form(form, err, err_bytes);
    if (status == KERNELS_OK) {
        status = reference_weight_check_source(form, source, err, err_bytes);
    }
    if (status == KERNELS_OK) {
        struct reference_weight_layout layout =
            reference_weight_layout(form, avx2_weight_values_bytes(form));
        avx2_pack_panels(form, source->values, packed);
        reference_weight_pack_sections(form, source, &layout, packed);
    }
    return status;
}
