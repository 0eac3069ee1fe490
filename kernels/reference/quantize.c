/* Rows of floats to INT8: symmetric or asymmetric per token, or with a static scale. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/rows.h"

/* ---------------------------------------------------------------- kernels */

static void quantize_symmetric(const float *x, float factor, uint32_t dim, int8_t *q) {
    for (uint32_t i = 0; i < dim; i++) {
        q[i] = canonical_q_symmetric(x[i], factor);
    }
}

static void quantize_affine(const float *x, const struct canonical_quantizer *by, uint32_t dim,
                            int8_t *q) {
    for (uint32_t i = 0; i < dim; i++) {
        q[i] = canonical_q_affine(x[i], by->scale, by->zero_point);
    }
}

static struct canonical_quantizer quantize_static(const struct quantize_args *args,
                                                  uint32_t amax_bits) {
    struct canonical_quantizer by = {0.0f, 0.0f, 0, amax_bits >= CANONICAL_INF_BITS};
    if (!by.bad) {
        by.scale = *args->static_scale;
        by.zero_point = args->static_zero_point != NULL ? *args->static_zero_point : 0;
    }
    return by;
}

static struct canonical_quantizer quantize_asymmetric(const float *x, uint32_t dim,
                                                      uint32_t amax_bits) {
    float lo = 0.0f, hi = 0.0f;
    for (uint32_t i = 0; i < dim; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    return canonical_quantize_asymmetric(amax_bits, lo, hi);
}

static int32_t quantize_sum(const int8_t *q, uint32_t dim) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < dim; i++) {
        sum += q[i];
    }
    return sum;
}

void reference_quantize_row(const struct quantize_args *args, const float *x, uint32_t t,
                            uint32_t dim) {
    uint32_t amax_bits = canonical_amax_bits(x, dim);
    bool affine = args->static_scale != NULL || args->out.zero_point != NULL;
    struct canonical_quantizer by = args->static_scale != NULL ? quantize_static(args, amax_bits)
                                    : args->out.zero_point != NULL
                                        ? quantize_asymmetric(x, dim, amax_bits)
                                        : canonical_quantize_symmetric(amax_bits);
    int8_t *q = args->out.q + (size_t)t * dim;
    if (by.scale == 0.0f) {
        memset(q, 0, dim);
    } else if (affine) {
        quantize_affine(x, &by, dim, q);
    } else {
        quantize_symmetric(x, by.factor, dim, q);
    }
    args->out.scale[t] = by.scale;
    if (args->out.zero_point != NULL) {
        args->out.zero_point[t] = by.zero_point;
    }
    if (args->out.sum != NULL) {
        args->out.sum[t] = quantize_sum(q, dim);
    }
    args->bad[t] = args->bad[t] | (uint8_t)by.bad;
}

/* ---------------------------------------------------------------- launchers */

static void quantize_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct quantize_args *args = context;
    for (uint32_t t = begin; t < end; t++) {
        reference_quantize_row(args, args->x + (size_t)t * args->dim, t, args->dim);
    }
}

enum kernels_status reference_quantize(struct device *device, const struct quantize_args *args) {
    if (args->rows < 1 || !check_dim(args->dim) || !check_words(args->x) || !check_quantize(args)) {
        return KERNELS_INVALID;
    }
    struct quantize_args job = *args;
    pool_run_ranges(cpu_device_pool(device), quantize_range, &job, args->rows, args->dim / 4);
    return KERNELS_OK;
}
