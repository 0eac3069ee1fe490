#include "kernels/x86/avx512/weight.h"

#include "kernels/x86/avx512/avx512.h"

/* Values of output n, 128 added: where the tile has four inputs of it side by side. */
static void avx512_pack_output(const struct weight_form *form, const int8_t *values, uint32_t n,
                               uint8_t *packed) {
    uint32_t panel = n / REFERENCE_PANEL, tile = panel / AVX512_I8_PANELS;
    size_t step_bytes = avx512_tile_panels(form->n, tile) * AVX512_PANEL_STEP_BYTES;
    uint8_t *to = packed + avx512_tile_offset(form->k, tile) +
                  (size_t)(panel % AVX512_I8_PANELS) * AVX512_PANEL_STEP_BYTES +
                  (size_t)(n % REFERENCE_PANEL) * AVX2_STEP;
    for (uint32_t k = 0; k < form->k; k++) {
        uint8_t bits = (uint8_t)values[(size_t)n * form->k + k];
        to[k / AVX2_STEP * step_bytes + k % AVX2_STEP] = bits ^ 0x80u; /* w + 128 */
    }
}

enum kernels_status avx512_weight_pack(const struct weight_form *form,
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
        size_t values_bytes = avx2_weight_values_bytes(form);
        struct reference_weight_layout layout = reference_weight_layout(form, values_bytes);
        memset(packed, 0, values_bytes);
        for (uint32_t n = 0; n < form->n; n++) {
            avx512_pack_output(form, source->values, n, packed);
        }
        reference_weight_pack_sections(form, source, &layout, packed);
    }
    return status;
}
