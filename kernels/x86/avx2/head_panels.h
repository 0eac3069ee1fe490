/* A few panels of a row's logits, as the whole head computes them. Private to kernels. */
#ifndef SOLFLEET_KERNELS_X86_AVX2_HEAD_PANELS_H
#define SOLFLEET_KERNELS_X86_AVX2_HEAD_PANELS_H

#include "kernels/ops.h"

#define AVX2_HEAD_PANELS 4u /* side by side: eight FMA chains of eight outputs */

/* logits[n] for the 16 outputs n of each of the panels named; other logits stay as they are.
 * weight: F16 or F32, x f32 [K], panels: count of them, 1 to AVX2_HEAD_PANELS, logits f32 [N]. */
void avx2_head_panels(const struct weight *weight, const float *x, const uint32_t *panels,
                      uint32_t count, float *logits);

#endif
