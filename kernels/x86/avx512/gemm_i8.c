/* The INT8 matrix product on panels, and its epilogue by itself. */
#include "kernels/x86/avx2/gemm_i8.h"
#include "kernels/x86/avx2/dequantize.h"
#include "kernels/x86/avx512/avx512.h"
#include "kernels/x86/avx512/int8.h"
#include "kernels/x86/avx512/mask.h"

/* ---------------------------------------------------------------- launchers */

static void gemm_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct gemm_i8_args *args = context;
    const struct weight_form *form = &args->weight->form;
    const uint8_t *values = args->weight->packed;
    for (uint32_t t = 0; t < args->rows; t++) {
        const int8_t *q = args->x.q + (size_t)t * form->k;
        const int32_t start = avx512_i8_start(q, form->k);
        int32_t *out = args->sum + (size_t)t * form->n;
        for (uint32_t panel = begin; panel < end; panel++) {
            __m512i sum[1][AVX512_I8_PANELS];
            uint32_t tile = panel / AVX512_I8_PANELS;
            size_t step_bytes = avx512_tile_panels(form->n, tile) * AVX512_PANEL_STEP_BYTES;
            size_t at = avx512_tile_offset(form->k, tile) +
                        (size_t)(panel % AVX512_I8_PANELS) * AVX512_PANEL_STEP_BYTES;
            const struct avx512_i8_ahead none = {(const char *)q, 0, 0};
            avx512_i8_tile(values + at, step_bytes, form->k, q, &start, none, 1, 1, sum);
            _mm512_mask_storeu_epi32(out + panel * REFERENCE_PANEL,
                                     avx512_first_lanes(form->n - panel * REFERENCE_PANEL),
                                     sum[0][0]);
        }
    }
}

enum kernels_status avx512_gemm_i8(struct device *device, const struct gemm_i8_args *args) {
    return avx2_gemm_i8_by(device, args, gemm_i8_range);
}

enum kernels_status avx512_dequantize(struct device *device, const struct dequantize_args *args) {
    return avx2_dequantize_by(device, args, avx512_weight_values_bytes);
}
