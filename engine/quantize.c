#include "engine/quantize.h"

#include <assert.h>
#include <string.h>

#include "kernels/canonical.h"

/* The first element whose sign-cleared pattern is at least `limit_bits`. */
static uint32_t quantize_find_at_least(const float *row, uint32_t count, uint32_t limit_bits) {
    uint32_t i = 0;
    while (i < count && canonical_amax_bits(row + i, 1) < limit_bits) {
        i++;
    }
    return i;
}

static enum quantize_status quantize_row_f16(const float *row, uint32_t count, uint16_t *out,
                                             uint32_t *bad_at) {
    const uint16_t infinity = 0x7C00u;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = canonical_f32_to_f16(row[i]);
        if ((out[i] & 0x7FFFu) == infinity) {
            *bad_at = i;
            return QUANTIZE_OVERFLOW;
        }
    }
    return QUANTIZE_OK;
}

enum quantize_status quantize_row(enum element_type type, const float *row, uint32_t count,
                                  void *out, float *scale, uint32_t *bad_at) {
    uint32_t amax_bits = canonical_amax_bits(row, count);
    if (amax_bits >= CANONICAL_INF_BITS) {
        *bad_at = quantize_find_at_least(row, count, CANONICAL_INF_BITS);
        return QUANTIZE_NOT_FINITE;
    }
    switch (type) {
    case ELEMENT_F32: memcpy(out, row, count * sizeof *row); return QUANTIZE_OK;
    case ELEMENT_F16: return quantize_row_f16(row, count, out, bad_at);
    case ELEMENT_I8: break;
    }
    struct canonical_quantizer quantizer = canonical_quantize_symmetric(amax_bits);
    int8_t *q = out;
    for (uint32_t i = 0; i < count; i++) {
        q[i] = canonical_q_symmetric(row[i], quantizer.factor);
    }
    *scale = quantizer.scale;
    return QUANTIZE_OK;
}
