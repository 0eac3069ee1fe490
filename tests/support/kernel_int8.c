#include "tests/support/kernel_int8.h"

#include <math.h>

static int8_t kernel_int8_value(uint64_t *random, bool extreme, int low) {
    if (extreme) {
        return (int8_t)(test_random(random) % 2u ? 127 : low);
    }
    return (int8_t)(low + (int)(test_random(random) % (unsigned)(128 - low)));
}

/* Makes stretches of 16 of a row smaller by whole parts. */
static void kernel_int8_make_uneven(int8_t *row, uint32_t k, uint64_t *random) {
    for (uint32_t i = 0; i < k; i += 16) {
        int divisor = 1 << kernel_test_between(random, 0, 4);
        int more = (int)kernel_test_between(random, 1, 3);
        for (uint32_t j = i; j < k && j < i + 16; j++) {
            row[j] = (int8_t)(row[j] / divisor / more);
        }
    }
}

static void kernel_int8_fill(struct kernel_int8 *p, uint64_t *random) {
    const struct kernel_int8_shape *s = &p->shape;
    /* Per token and symmetric means within -127 .. 127; everything else may reach -128. */
    int low = s->activation == ACTIVATION_PER_TOKEN && !s->activation_zero_point ? -127 : -128;
    for (size_t i = 0; i < (size_t)s->n * s->k; i++) {
        p->weights[i] = kernel_int8_value(random, s->extreme, -128);
    }
    for (size_t i = 0; i < (size_t)s->n * p->groups; i++) {
        p->weight_scale[i] = kernel_test_float(random, 0.0001f, 0.01f);
        p->weight_zero[i] = (int32_t)kernel_test_between(random, 0, 255) - 128;
    }
    for (size_t i = 0; i < (size_t)s->rows * s->k; i++) {
        p->x.q[i] = kernel_int8_value(random, s->extreme, low);
    }
    for (uint32_t n = 0; s->uneven && n < s->n; n++) {
        kernel_int8_make_uneven(p->weights + (size_t)n * s->k, s->k, random);
    }
    for (uint32_t t = 0; t < s->rows; t++) {
        if (s->uneven) {
            kernel_int8_make_uneven(p->x.q + (size_t)t * s->k, s->k, random);
        }
        p->x.scale[t] = kernel_test_float(random, 0.001f, 0.1f);
        p->x.sum[t] = 0;
        for (uint32_t k = 0; k < s->k; k++) {
            p->x.sum[t] += p->x.q[(size_t)t * s->k + k];
        }
        if (s->activation_zero_point) {
            p->x.zero_point[t] = (int32_t)kernel_test_between(random, 0, 255) - 128;
        }
    }
    kernel_test_floats(random, p->bias, s->n);
    kernel_test_floats(random, p->residual, (size_t)s->rows * s->n);
}

/* Output (t, n): raw sums of each group, and what the epilogue makes of them. */
static void kernel_int8_solve(struct kernel_int8 *p, uint32_t t, uint32_t n) {
    const struct kernel_int8_shape *s = &p->shape;
    uint32_t size = s->group_size != 0 ? s->group_size : s->k;
    size_t at = (size_t)t * s->n + n;
    float y = s->bias ? p->bias[n] : 0.0f;
    for (uint32_t g = 0; g < p->groups; g++) {
        size_t scale_at = (size_t)n * p->groups + g;
        int64_t zx = s->activation_zero_point ? p->x.zero_point[t] : 0;
        int64_t zw = s->weight_zero_point ? p->weight_zero[scale_at] : 0;
        int64_t raw = 0, value = 0;
        for (uint32_t k = g * size; k < s->k && k < (g + 1) * size; k++) {
            int64_t q = p->x.q[(size_t)t * s->k + k], w = p->weights[(size_t)n * s->k + k];
            raw += q * w;
            value += (q - zx) * (w - zw);
        }
        p->sum[at * p->groups + g] = (int32_t)raw;
        float both = p->x.scale[t] * p->weight_scale[scale_at];
        if (p->groups == 1 && !s->bias) {
            y = (float)value * both;
        } else {
            y = fmaf((float)value, both, y);
        }
    }
    p->y[at] = s->residual ? p->residual[at] + y : y;
}

void kernel_int8_init(struct kernel_int8 *p, const struct kernel_int8_shape *shape,
                      uint64_t *random) {
    const struct kernel_int8_shape s = *shape;
    *p = (struct kernel_int8){.shape = s};
    p->form = (struct weight_form){.type = ELEMENT_I8,
                                   .n = s.n,
                                   .k = s.k,
                                   .group_size = s.group_size,
                                   .activation = s.activation,
                                   .weight_zero_point = s.weight_zero_point,
                                   .activation_zero_point = s.activation_zero_point,
                                   .bias = s.bias};
    p->groups = s.group_size != 0 ? (s.k + s.group_size - 1) / s.group_size : 1;
    size_t outputs = (size_t)s.rows * s.n;
    p->weights = kernel_test_alloc((size_t)s.n * s.k);
    p->weight_scale = kernel_test_alloc((size_t)s.n * p->groups * sizeof(float));
    p->weight_zero = kernel_test_alloc((size_t)s.n * p->groups * sizeof(int32_t));
    p->bias = kernel_test_alloc(s.n * sizeof(float));
    p->residual = kernel_test_alloc(outputs * sizeof(float));
    p->x.q = kernel_test_alloc((size_t)s.rows * s.k);
    p->x.scale = kernel_test_alloc(s.rows * sizeof(float));
    p->x.sum = kernel_test_alloc(s.rows * sizeof(int32_t));
    p->x.zero_point = s.activation_zero_point ? kernel_test_alloc(s.rows * sizeof(int32_t)) : NULL;
    p->sum = kernel_test_alloc(outputs * p->groups * sizeof(int32_t));
    p->y = kernel_test_alloc(outputs * sizeof(float));
    kernel_int8_fill(p, random);
    for (uint32_t t = 0; t < s.rows; t++) {
        for (uint32_t n = 0; n < s.n; n++) {
            kernel_int8_solve(p, t, n);
        }
    }
}

void kernel_int8_deinit(struct kernel_int8 *p) {
    kernel_test_free(p->weights);
    kernel_test_free(p->weight_scale);
    kernel_test_free(p->weight_zero);
    kernel_test_free(p->bias);
    kernel_test_free(p->residual);
    kernel_test_free(p->x.q);
    kernel_test_free(p->x.scale);
    kernel_test_free(p->x.sum);
    kernel_test_free(p->x.zero_point);
    kernel_test_free(p->sum);
    kernel_test_free(p->y);
}

struct weight kernel_int8_weight(const struct kernel_test *test, const struct kernel_int8 *p) {
    const struct weight_source source = {
        .values = p->weights,
        .scale = p->weight_scale,
        .zero_point = p->shape.weight_zero_point ? p->weight_zero : NULL,
        .bias = p->shape.bias ? p->bias : NULL,
        .activation_scale = 0.5f,
    };
    return kernel_test_weight(test, &p->form, &source);
}
