#include "kernels/head_sketch.h"

#include "kernels/canonical.h"

/* Rounds up, beyond what the sums in double and the conversion lost, to a denormal, too. */
static float head_sketch_above(double sum_squares) {
    return (float)(sqrt(sum_squares) * (1.0 + 1e-6)) + 0x1p-126f;
}

void head_sketch_row(const float *w, uint32_t k, int8_t *q, float *scale, float *norm,
                     float *error) {
    struct canonical_quantizer quantizer = canonical_quantize_symmetric(canonical_amax_bits(w, k));
    double squares = 0, off_squares = 0;
    for (uint32_t i = 0; i < k; i++) {
        q[i] = canonical_q_symmetric(w[i], quantizer.factor);
        double off = (double)w[i] - (double)q[i] * (double)quantizer.scale;
        squares += (double)w[i] * (double)w[i];
        off_squares += off * off;
    }
    *scale = quantizer.scale;
    *norm = head_sketch_above(squares);
    *error = head_sketch_above(off_squares);
}
