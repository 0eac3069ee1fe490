/* SiLU-gated products, GELU and the residual sum: by the scalar formula, and against libm. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

static void body_silu(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t rows = 1; rows <= 17; rows++) {
        uint32_t dim = kernel_test_between(&random, 1, 300);
        size_t count = (size_t)rows * dim;
        float *gate_up = kernel_test_alloc(2 * count * sizeof(float));
        float *y = kernel_test_alloc(count * sizeof(float));
        float *wanted = kernel_test_alloc(count * sizeof(float));
        kernel_test_hostile_floats(&random, gate_up, 2 * count);
        gate_up[0] = NAN;
        for (uint32_t t = 0; t < rows; t++) {
            for (uint32_t i = 0; i < dim; i++) {
                float g = gate_up[(size_t)t * 2 * dim + i],
                      u = gate_up[(size_t)t * 2 * dim + dim + i];
                float e = canonical_exp(-g);
                float sigmoid_part = g / (1.0f + e);
                wanted[(size_t)t * dim + i] = sigmoid_part * u;
                double exact = (double)g / (1.0 + exp(-(double)g)) * (double)u;
                float got = wanted[(size_t)t * dim + i];
                if (fabsf(g) < 60 && fabsf(u) < 1e6f) {
                    assert_true(fabs((double)got - exact) <= 4e-7 * fabs(exact) + 1e-37);
                }
            }
        }
        const struct glu_args args = {gate_up, y, rows, dim};
        assert_int_equal(test->ops->silu_mul(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(y, wanted, count, test->label);
        kernel_test_free(gate_up);
        kernel_test_free(y);
        kernel_test_free(wanted);
    }
}

static void silu_mul_follows_its_formula(void **state) {
    kernel_test_each(body_silu);
}

static void body_gelu(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t rows = 1; rows <= 9; rows++) {
        uint32_t dim = kernel_test_between(&random, 1, 300);
        size_t count = (size_t)rows * dim;
        float *x = kernel_test_alloc(count * sizeof(float));
        float *wanted = kernel_test_alloc(count * sizeof(float));
        kernel_test_floats(&random, x, count);
        x[0] = -50.0f;
        for (size_t i = 0; i < count; i++) {
            double v = (double)x[i];
            double exact = v * 0.5 * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
            wanted[i] = canonical_gelu(x[i]);
            assert_true(fabs((double)wanted[i] - exact) <= 2e-6 * fabs(exact) + 1e-9);
        }
        const struct activation_args args = {x, x, rows, dim}; /* in place */
        assert_int_equal(test->ops->gelu(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(x, wanted, count, test->label);
        kernel_test_free(x);
        kernel_test_free(wanted);
    }
}

static void gelu_is_the_tanh_form(void **state) {
    kernel_test_each(body_gelu);
}

static void body_add(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t rows = 1; rows <= 17; rows++) {
        uint32_t dim = kernel_test_between(&random, 1, 100);
        size_t count = (size_t)rows * dim;
        float *x = kernel_test_alloc(count * sizeof(float));
        float *y = kernel_test_alloc(count * sizeof(float));
        float *wanted = kernel_test_alloc(count * sizeof(float));
        kernel_test_hostile_floats(&random, x, count);
        kernel_test_hostile_floats(&random, y, count);
        for (size_t i = 0; i < count; i++) {
            wanted[i] = x[i] + y[i];
        }
        const struct add_args args = {x, y, rows, dim};
        assert_int_equal(test->ops->add(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(x, wanted, count, test->label);
        kernel_test_free(x);
        kernel_test_free(y);
        kernel_test_free(wanted);
    }
}

static void add_takes_in_the_block(void **state) {
    kernel_test_each(body_add);
}

static void body_arguments(const struct kernel_test *test) {
    float x[8] = {0}, y[8] = {0};
    const struct glu_args no_rows = {x, y, 0, 4}, no_output = {x, NULL, 1, 4};
    assert_int_equal(test->ops->silu_mul(test->device, &no_rows), KERNELS_INVALID);
    assert_int_equal(test->ops->silu_mul(test->device, &no_output), KERNELS_INVALID);
    const struct activation_args wide = {x, y, 1, KERNELS_K_MAX + 1};
    assert_int_equal(test->ops->gelu(test->device, &wide), KERNELS_INVALID);
    const struct add_args crooked = {(float *)(void *)((char *)x + 1), y, 1, 4};
    assert_int_equal(test->ops->add(test->device, &crooked), KERNELS_INVALID);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(silu_mul_follows_its_formula), cmocka_unit_test(gelu_is_the_tanh_form),
          cmocka_unit_test(add_takes_in_the_block),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
