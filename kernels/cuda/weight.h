/* The layout of packed weights on CUDA, and the plans of one. Private to kernels/cuda.
 *
 * Sections as in kernels/reference/weight.h; only `values` differ:
 *   INT8       [N16, K16], both rounded up to 16, padding 0: operand A of cuBLASLt as it stands
 *   F16, fast  the same, in F16
 *   F16, F32   panels of 32 outputs by 16 bytes of inputs, [ceil(N/32), ceil(K/E), 32, E], E = 8 or
 *              4, padding 0: lane l of a warp loads 16 bytes of output l, the warp 512 in a row */
#ifndef SOLFLEET_KERNELS_CUDA_WEIGHT_H
#define SOLFLEET_KERNELS_CUDA_WEIGHT_H

#include "kernels/cuda/cuda_blas.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/weight.h"

#define WEIGHT_PANEL 32u            /* outputs of a panel: the lanes of a warp */
#define WEIGHT_VECTOR_BYTES 16u     /* of one output, side by side: what a lane loads at once */
#define WEIGHT_N_MAX (65535u * 64u) /* tiles of 64 outputs in a grid's second dimension */
#define WEIGHT_FAST_ROWS \
    64u /* of the one plan of a fast weight: an answer never depends on
                                       the batch, whatever the library would choose for it */

/* Rounded up to 16; n <= WEIGHT_N_MAX, k <= KERNELS_K_MAX. */
KERNELS_DEVICE_FN uint32_t weight_padded(uint32_t count) {
    return (count + CUDA_BLAS_PADDING - 1u) & ~(CUDA_BLAS_PADDING - 1u);
}

/* Steps of `elements` inputs that cover k. */
KERNELS_DEVICE_FN uint32_t weight_steps(uint32_t k, uint32_t elements) {
    return (k + elements - 1u) / elements;
}

/* Where 16 bytes of output n, inputs step * E onwards, stand: in units of 16 bytes. */
KERNELS_DEVICE_FN size_t weight_panel_vector(uint32_t n, uint32_t step, uint32_t steps) {
    return (static_cast<size_t>(n / WEIGHT_PANEL) * steps + step) * WEIGHT_PANEL + n % WEIGHT_PANEL;
}

size_t cuda_weight_values_bytes(const struct weight_form *form);
struct reference_weight_view cuda_weight_view(const struct weight *weight);

/* Products of more rows than this are cut: sums stay near, and the workspace small. A guess until a
 * card has been measured. */
#define WEIGHT_SLICE_ROWS 1024u
/* Up to this many rows the weights are streamed by a kernel of ours. */
#define WEIGHT_FEW_ROWS 8u

/* The plan for a slice of exactly `rows` rows; NULL = a kernel of ours does it. A fast weight has
 * that of WEIGHT_FAST_ROWS, always. */
const struct cuda_blas_plan *cuda_weight_plan(const struct weight *weight, uint32_t rows);

#endif
