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
        uint8_t bits = (uint8_t)values[k];
        to[k / AVX2_STEP * step_bytes + k % AVX2_STEP] = bits ^ 0x80u; /* w + 128 */
    }
}

enum kernels_status avx512_weight_packed_bytes(const struct weight_form *form, size_t *bytes,
                                               char *err, size_t err_bytes) {
    return avx2_weight_packed_bytes_by(form, avx512_weight_values_bytes, bytes, err, err_bytes);
}

enum kernels_status avx512_weight_pack(const struct weight_form *form,
                                       const struct weight_source *source, void *packed, char *err,
                                       size_t err_bytes) {
    return avx2_weight_pack_by(form, source, avx512_weight_values_bytes, avx512_pack_output, packed,
                               err, err_bytes);
}
