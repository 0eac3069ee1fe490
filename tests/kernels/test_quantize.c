/* Quantised rows against the contract in ops.h written out, and the fused ops against their
 * parts. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

enum mode { SYMMETRIC, ASYMMETRIC, STATIC, STATIC_ZERO_POINT, MODES };

struct problem {
    enum mode mode;
    uint32_t rows, dim;
    float *x;
    struct quantized got, wanted;
    uint8_t *bad, *wanted_bad;
    float static_scale;
    int32_t static_zero;
};

static struct quantized rows_of(uint32_t rows, uint32_t dim) {
    return (struct quantized){
        kernel_test_alloc((size_t)rows * dim), kernel_test_alloc(rows * sizeof(float)),
        kernel_test_alloc(rows * sizeof(int32_t)), kernel_test_alloc(rows * sizeof(int32_t))};
}

static void free_rows(struct quantized *q) {
    kernel_test_free(q->q);
    kernel_test_free(q->scale);
    kernel_test_free(q->zero_point);
    kernel_test_free(q->sum);
}

static int clamped(double value) {
    return value < -128 ? -128 : value > 127 ? 127 : (int)value;
}

static void solve_row(struct problem *p, uint32_t t) {
    const float *x = p->x + (size_t)t * p->dim;
    int8_t *q = p->wanted.q + (size_t)t * p->dim;
    float amax = 0, lo = 0, hi = 0, scale = 0;
    int32_t zero = 0;
    bool bad = false;
    for (uint32_t i = 0; i < p->dim; i++) {
        bad = bad || !isfinite(x[i]);
        amax = fmaxf(amax, fabsf(x[i]));
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    if (p->mode == ASYMMETRIC) {
        bad = bad || isinf(hi - lo);
        scale = bad || hi - lo < 0x1p-100f ? 0 : (hi - lo) / 255.0f;
        zero = scale > 0 ? (int32_t)rintf(-128.0f - lo / scale) : 0;
    } else if (p->mode == SYMMETRIC) {
        scale = bad || amax < 0x1p-100f ? 0 : amax / 127.0f;
    } else {
        scale = bad ? 0 : p->static_scale;
        zero = bad || p->mode == STATIC ? 0 : p->static_zero;
    }
    p->wanted.sum[t] = 0;
    for (uint32_t i = 0; i < p->dim; i++) {
        if (scale == 0) {
            q[i] = 0;
        } else if (p->mode == SYMMETRIC) {
            float factor = 127.0f / amax;
            q[i] = (int8_t)rintf(x[i] * factor);
        } else {
            q[i] = (int8_t)clamped((double)rintf(x[i] / scale) + zero);
        }
        p->wanted.sum[t] += q[i];
    }
    p->wanted.scale[t] = scale;
    p->wanted.zero_point[t] = zero;
    p->wanted_bad[t] = bad || t % 4 == 3; /* every fourth was bad before */
}

static void pose(struct problem *p, enum mode mode, uint32_t rows, uint32_t dim, uint64_t *random) {
    *p = (struct problem){.mode = mode, .rows = rows, .dim = dim};
    p->static_scale = kernel_test_float(random, 0.01f, 0.1f);
    p->static_zero = (int32_t)kernel_test_between(random, 0, 255) - 128;
    p->x = kernel_test_alloc((size_t)rows * dim * sizeof(float));
    p->got = rows_of(rows, dim);
    p->wanted = rows_of(rows, dim);
    p->bad = kernel_test_alloc(rows);
    p->wanted_bad = kernel_test_alloc(rows);
    for (uint32_t t = 0; t < rows; t++) {
        float *x = p->x + (size_t)t * dim;
        (t % 5 == 4 ? kernel_test_hostile_floats : kernel_test_floats)(random, x, dim);
        uint32_t at = kernel_test_between(random, 0, dim - 1);
        switch (t % 11) {
        case 1: x[at] = NAN; break;
        case 2: x[at] = -INFINITY; break;
        case 3: memset(x, 0, dim * sizeof(float)); break;
        case 5: x[0] = 3e38f, x[dim - 1] = -3e38f; break;
        default: break;
        }
        for (uint32_t i = 0; t % 11 >= 6 && t % 11 <= 8 && i < dim; i++) {
            x[i] = t % 11 == 6   ? 1e-40f
                   : t % 11 == 7 ? (i % 2 ? 0x1p-100f : 0x1.fp-101f)
                                 : (float)(i % 255) - 127.5f;
        }
        p->bad[t] = t % 4 == 3;
    }
    for (uint32_t t = 0; t < rows; t++) {
        solve_row(p, t);
    }
}

static void discard(struct problem *p) {
    kernel_test_free(p->x);
    free_rows(&p->got);
    free_rows(&p->wanted);
    kernel_test_free(p->bad);
    kernel_test_free(p->wanted_bad);
}

static struct quantize_args arguments(const struct problem *p) {
    struct quantize_args args = {
        .x = p->x, .out = p->got, .bad = p->bad, .rows = p->rows, .dim = p->dim};
    if (p->mode == SYMMETRIC || p->mode == STATIC) {
        args.out.zero_point = NULL;
    }
    args.static_scale = p->mode >= STATIC ? &p->static_scale : NULL;
    args.static_zero_point = p->mode == STATIC_ZERO_POINT ? &p->static_zero : NULL;
    return args;
}

static void compare(const struct kernel_test *test, const struct problem *p) {
    kernel_test_same_bytes(p->got.q, p->wanted.q, (size_t)p->rows * p->dim, test->label);
    kernel_test_same_floats(p->got.scale, p->wanted.scale, p->rows, test->label);
    kernel_test_same_bytes(p->got.sum, p->wanted.sum, p->rows * sizeof(int32_t), test->label);
    kernel_test_same_bytes(p->bad, p->wanted_bad, p->rows, test->label);
    if (p->mode == ASYMMETRIC || p->mode == STATIC_ZERO_POINT) {
        kernel_test_same_bytes(p->got.zero_point, p->wanted.zero_point, p->rows * sizeof(int32_t),
                               test->label);
    }
}

static void body_modes(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 32; i++) {
        struct problem p;
        pose(&p, (enum mode)(i % MODES), kernel_test_between(&random, 1, 33),
             kernel_test_between(&random, 1, 300), &random);
        const struct quantize_args args = arguments(&p);
        assert_int_equal(test->ops->quantize(test->device, &args), KERNELS_OK);
        compare(test, &p);
        discard(&p);
    }
}

static void quantizes_rows_in_every_mode(void **state) {
    kernel_test_each(body_modes);
}

static void body_edges(const struct kernel_test *test) {
    float x[256];
    int8_t q[256];
    float scale;
    uint8_t bad = 0;
    for (int i = 0; i < 256; i++) {
        x[i] = (float)(i - 127) > 127 ? 127.0f : (float)(i - 127) - 0.5f; /* ties */
    }
    const struct quantize_args args = {
        .x = x, .out = {q, &scale, NULL, NULL}, .bad = &bad, .rows = 1, .dim = 255};
    x[0] = 127.0f; /* amax: the factor is 1 */
    assert_int_equal(test->ops->quantize(test->device, &args), KERNELS_OK);
    assert_true(scale == 1.0f);
    for (int i = 1; i < 255; i++) {
        int even = (int)rint((double)x[i]);
        assert_int_equal(q[i], even);
        assert_int_equal(even % 2, 0); /* half to even */
    }
}

static void rounds_half_to_even(void **state) {
    kernel_test_each(body_edges);
}

static void body_norm_fused(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 12; i++) {
        struct problem p;
        uint32_t rows = kernel_test_between(&random, 1, 20);
        uint32_t dim = kernel_test_between(&random, 1, 600);
        pose(&p, (enum mode)(i % MODES), rows, dim, &random);
        float *w = kernel_test_alloc(dim * sizeof(float));
        float *y = kernel_test_alloc((size_t)rows * dim * sizeof(float));
        kernel_test_floats(&random, w, dim);
        const struct norm_args norm = {
            .x = p.x, .weight = w, .y = y, .eps = 1e-5f, .rows = rows, .dim = dim};
        struct norm_quantize_args fused = {norm, arguments(&p)};
        fused.norm.y = NULL;
        fused.quantize.x = NULL;
        assert_int_equal(test->ops->rms_norm_quantize(test->device, &fused), KERNELS_OK);
        assert_int_equal(test->ops->rms_norm(test->device, &norm), KERNELS_OK);
        memcpy(p.x, y, (size_t)rows * dim * sizeof(float));
        for (uint32_t t = 0; t < rows; t++) {
            solve_row(&p, t);
        }
        compare(test, &p);
        kernel_test_free(w);
        kernel_test_free(y);
        discard(&p);
    }
}

static void rms_norm_quantize_equals_its_parts(void **state) {
    kernel_test_each(body_norm_fused);
}

static void body_glu_fused(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t i = 0; i < 12; i++) {
        struct problem p;
        uint32_t rows = kernel_test_between(&random, 1, 20);
        uint32_t dim = kernel_test_between(&random, 1, 400);
        pose(&p, (enum mode)(i % MODES), rows, dim, &random);
        float *gate_up = kernel_test_alloc((size_t)rows * dim * 2 * sizeof(float));
        kernel_test_hostile_floats(&random, gate_up, (size_t)rows * dim * 2);
        struct glu_quantize_args fused = {{gate_up, NULL, rows, dim}, arguments(&p)};
        assert_int_equal(test->ops->silu_mul_quantize(test->device, &fused), KERNELS_OK);
        fused.glu.y = p.x;
        assert_int_equal(test->ops->silu_mul(test->device, &fused.glu), KERNELS_OK);
        for (uint32_t t = 0; t < rows; t++) {
            solve_row(&p, t);
        }
        compare(test, &p);
        kernel_test_free(gate_up);
        discard(&p);
    }
}

static void silu_mul_quantize_equals_its_parts(void **state) {
    kernel_test_each(body_glu_fused);
}

static void body_arguments(const struct kernel_test *test) {
    uint64_t random = 1;
    struct problem p;
    pose(&p, SYMMETRIC, 2, 16, &random);
    const struct quantize_args good = arguments(&p);
    struct quantize_args bad[6] = {good, good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].dim = 0;
    bad[2].x = NULL;
    bad[3].out.q = NULL;
    bad[4].out.scale = NULL;
    bad[5].bad = NULL;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(test->ops->quantize(test->device, &bad[i]), KERNELS_INVALID);
    }
    discard(&p);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(quantizes_rows_in_every_mode), cmocka_unit_test(rounds_half_to_even),
          cmocka_unit_test(rms_norm_quantize_equals_its_parts),
          cmocka_unit_test(silu_mul_quantize_equals_its_parts),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
