/* The layout of INT8 weights that the AVX-512 kernels read. Private to kernels.
 *
 * The forms of the AVX2 tier (avx2/weight.h), and other sections as there. Tiles
 * of 64 outputs, [ceil(K/4), 64, 4], one after the other, the last with as many panels of 16 as are
 * left: a tile is read as one stream, which memory serves faster than four. Values are stored
 * plus 128, as unsigned bytes (int8.h). Other forms in the reference's layout. */
#ifndef SOLFLEET_KERNELS_X86_AVX512_WEIGHT_H
#define SOLFLEET_KERNELS_X86_AVX512_WEIGHT_H

#include "kernels/x86/avx2/weight.h"

#define AVX512_I8_PANELS 4u /* of a tile */
#define AVX512_PANEL_STEP_BYTES (REFERENCE_PANEL * AVX2_STEP)

static inline uint32_t avx512_tiles(uint32_t n) {
    return (reference_panels(n) - 1) / AVX512_I8_PANELS + 1;
}

/* Panels of tile `tile`. */
static inline uint32_t avx512_tile_panels(uint32_t n, uint32_t tile) {
    uint32_t left = reference_panels(n) - tile * AVX512_I8_PANELS;
    return left < AVX512_I8_PANELS ? left : AVX512_I8_PANELS;
}

static inline size_t avx512_panel_bytes(uint32_t k) {
    return (size_t)avx2_steps(k) * AVX512_PANEL_STEP_BYTES;
}

/* Where the values of a tile begin. */
static inline size_t avx512_tile_offset(uint32_t k, uint32_t tile) {
    return (size_t)tile * AVX512_I8_PANELS * avx512_panel_bytes(k);
}

static inline size_t avx512_weight_values_bytes(const struct weight_form *form) {
    return reference_panels(form->n) * avx512_panel_bytes(form->k);
}

#endif
