/* What several row ops do to one row. Private to kernels. */
#ifndef SOLFLEET_KERNELS_REFERENCE_ROWS_H
#define SOLFLEET_KERNELS_REFERENCE_ROWS_H

#include "kernels/canonical.h"
#include "kernels/ops.h"

static inline const float *norm_row(const struct norm_args *args, uint32_t t) {
    uint32_t row = args->row_index != NULL ? (uint32_t)args->row_index[t] : t;
    return args->x + (size_t)row * args->dim;
}

/* y = (x * r) * w; x and y may be the same row. */
static inline void rms_norm_row(const float *x, const float *weight, float eps, uint32_t dim,
                                float *y) {
    float r = canonical_rms_factor(x, dim, eps);
    for (uint32_t i = 0; i < dim; i++) {
        y[i] = (x[i] * r) * weight[i];
    }
}

/* Row t of the INT8 output, from a row of floats. */
void reference_quantize_row(const struct quantize_args *args, const float *x, uint32_t t,
                            uint32_t dim);

/* Row t of the gated activation. */
static inline void silu_mul_row(const struct glu_args *args, uint32_t t, float *y) {
    const float *gate = args->gate_up + (size_t)t * 2u * args->dim;
    const float *up = gate + args->dim;
    for (uint32_t i = 0; i < args->dim; i++) {
        y[i] = canonical_silu_mul(gate[i], up[i]);
    }
}

#endif
