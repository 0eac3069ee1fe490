/* The INT8 product of one output, and its epilogue, which the CUDA kernels share. Private to
 * kernels. */
#ifndef SOLFLEET_KERNELS_REFERENCE_INT8_H
#define SOLFLEET_KERNELS_REFERENCE_INT8_H

#include "kernels/reference/weight.h"

static inline int32_t int8_dot(const int8_t *q, const int8_t *w, uint32_t count) {
    int32_t sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        sum += (int32_t)q[k] * (int32_t)w[k];
    }
    return sum;
}

/* Sums of output n over the K inputs of row q, one a group. */
static inline void int8_output_sums(const struct weight_form *form, const int8_t *values,
                                    uint32_t n, const int8_t *q, uint32_t groups, int32_t *sum) {
    const int8_t *w = values + (size_t)n * form->k;
    uint32_t size = form->group_size != 0 ? form->group_size : form->k;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t begin = g * size;
        uint32_t left = form->k - begin;
        sum[g] = int8_dot(q + begin, w + begin, left < size ? left : size);
    }
}

/* Sum over a group of (q - zx) * (w - zw). Wraps in between, but its value fits (K is bounded). */
KERNELS_DEVICE_FN int32_t int8_without_zero_points(const struct reference_weight_view *view,
                                                   const struct quantized *x, uint32_t t,
                                                   uint32_t n, uint32_t group, int32_t group_inputs,
                                                   int32_t sum) {
    uint32_t value = (uint32_t)sum;
    uint32_t zx = view->row_sum != NULL ? (uint32_t)x->zero_point[t] : 0u;
    uint32_t zw = view->zero_point != NULL ? (uint32_t)view->zero_point[n] : 0u;
    if (view->row_sum != NULL) {
        value -= zx * (uint32_t)view->row_sum[(size_t)n * view->groups + group];
    }
    if (view->zero_point != NULL) {
        value -= zw * (uint32_t)x->sum[t];
    }
    return (int32_t)(value + (uint32_t)group_inputs * zx * zw);
}

/* Adds group g of output n of row t to `acc`, which begins as int8_begin. */
KERNELS_DEVICE_FN float int8_add_group(const struct weight_form *form,
                                       const struct reference_weight_view *view,
                                       const struct quantized *x, uint32_t t, uint32_t n,
                                       uint32_t g, int32_t sum, float acc) {
    uint32_t size = form->group_size != 0 ? form->group_size : form->k;
    uint32_t left = form->k - g * size;
    int32_t inputs = (int32_t)(left < size ? left : size);
    int32_t value = int8_without_zero_points(view, x, t, n, g, inputs, sum);
    float both = x->scale[t] * view->scale[(size_t)n * view->groups + g];
    return view->groups == 1
               ? canonical_dequantize(value, both, view->bias != NULL ? view->bias + n : NULL)
               : fmaf((float)value, both, acc);
}

KERNELS_DEVICE_FN float int8_begin(const struct reference_weight_view *view, uint32_t n) {
    return view->bias != NULL ? view->bias[n] : 0.0f;
}

/* y of output n of row t from its sums, before the residual. */
KERNELS_DEVICE_FN float int8_dequantize(const struct weight_form *form,
                                        const struct reference_weight_view *view,
                                        const struct quantized *x, uint32_t t, uint32_t n,
                                        const int32_t *sum) {
    float acc = int8_begin(view, n);
    for (uint32_t g = 0; g < view->groups; g++) {
        acc = int8_add_group(form, view, x, t, n, g, sum[g], acc);
    }
    return acc;
}

#endif
