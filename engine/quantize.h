/* Quantising weights: finite f32 rows to what a back end's packer takes (f32, f16, or INT8 with a
 * scale per output channel), by the arithmetic of kernels/canonical.h.
 *
 * Pure functions over the caller's memory; any thread. Refuses to know files, names and
 * policies. */
#ifndef SOLFLEET_ENGINE_QUANTIZE_H
#define SOLFLEET_ENGINE_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/view.h"

enum quantize_status {
    QUANTIZE_OK = 0,
    QUANTIZE_NOT_FINITE, /* an element is NaN or infinite */
    QUANTIZE_OVERFLOW    /* a finite element is too large for f16 */
};

/* Writes one output channel of `count` inputs as `type` to out. *scale is written for INT8 only
 * (then x ~ q * scale; symmetric, amax / 127). On an error *bad_at is the first element at
 * fault. */
enum quantize_status quantize_row(enum element_type type, const float *row, uint32_t count,
                                  void *out, float *scale, uint32_t *bad_at)
    __attribute__((warn_unused_result));

#endif
