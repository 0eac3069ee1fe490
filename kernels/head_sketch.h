/* A head sketch's rows: what ops.h's head_sketch holds, computed on the host before it is packed.
 *
 * Pure; any thread. Refuses to know files and devices. */
#ifndef SOLFLEET_KERNELS_HEAD_SKETCH_H
#define SOLFLEET_KERNELS_HEAD_SKETCH_H

#include <stdint.h>

/* Copies a row w of a head, f32 [K], as the back end multiplies with it (that is, after rounding to
 * the head's own type), to INT8.
 *   out  q, scale  i8 [K], w ~ q * scale by canonical.h's quantiser
 *   out  norm      at least |w|
 *   out  error     at least |w - q * scale| */
void head_sketch_row(const float *w, uint32_t k, int8_t *q, float *scale, float *norm,
                     float *error);

#endif
