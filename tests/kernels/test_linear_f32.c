/* Linears of 16- and 32-bit weights against the chain written out: one fmaf after another. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

struct shape {
    uint32_t rows, n, k;
    enum element_type type;
    bool bias, residual;
};

struct problem {
    struct shape shape;
    float *x, *bias, *residual, *wanted, *y;
    void *weights; /* [N, K] */
};

static float weight_at(const struct problem *problem, size_t i) {
    return problem->shape.type == ELEMENT_F32
               ? ((const float *)problem->weights)[i]
               : canonical_f16_to_f32(((const uint16_t *)problem->weights)[i]);
}

static void solve(struct problem *problem) {
    const struct shape *s = &problem->shape;
    for (uint32_t t = 0; t < s->rows; t++) {
        for (uint32_t n = 0; n < s->n; n++) {
            float y = 0.0f;
            for (uint32_t k = 0; k < s->k; k++) {
                y = fmaf(problem->x[(size_t)t * s->k + k], weight_at(problem, (size_t)n * s->k + k),
                         y);
            }
            y = s->bias ? y + problem->bias[n] : y;
            size_t at = (size_t)t * s->n + n;
            problem->wanted[at] = s->residual ? problem->residual[at] + y : y;
        }
    }
}

static struct problem pose(struct shape s, uint64_t *random, bool hostile) {
    size_t outputs = (size_t)s.rows * s.n, weights = (size_t)s.n * s.k;
    struct problem problem = {.shape = s};
    problem.x = kernel_test_alloc((size_t)s.rows * s.k * sizeof(float));
    problem.bias = kernel_test_alloc(s.n * sizeof(float));
    problem.residual = kernel_test_alloc(outputs * sizeof(float));
    problem.wanted = kernel_test_alloc(outputs * sizeof(float));
    problem.y = kernel_test_alloc(outputs * sizeof(float));
    problem.weights = kernel_test_alloc(weights * element_bytes(s.type));
    (hostile ? kernel_test_hostile_floats : kernel_test_floats)(random, problem.x,
                                                                (size_t)s.rows * s.k);
    kernel_test_floats(random, problem.bias, s.n);
    kernel_test_floats(random, problem.residual, outputs);
    for (size_t i = 0; i < weights; i++) {
        float w;
        (hostile ? kernel_test_hostile_floats : kernel_test_floats)(random, &w, 1);
        if (s.type == ELEMENT_F32) {
            ((float *)problem.weights)[i] = w;
        } else {
            ((uint16_t *)problem.weights)[i] = canonical_f32_to_f16(w);
        }
    }
    solve(&problem);
    return problem;
}

static void check(const struct kernel_test *test, struct problem *problem) {
    const struct shape *s = &problem->shape;
    const struct weight_form form = {.type = s->type, .n = s->n, .k = s->k, .bias = s->bias};
    const struct weight_source source = {.values = problem->weights,
                                         .bias = s->bias ? problem->bias : NULL};
    struct weight weight = kernel_test_weight(test, &form, &source);
    const struct linear_f32_args args = {.x = problem->x,
                                         .weight = &weight,
                                         .residual = s->residual ? problem->residual : NULL,
                                         .y = problem->y,
                                         .rows = s->rows};
    assert_int_equal(test->ops->linear_f32(test->device, &args), KERNELS_OK);
    kernel_test_same_floats(problem->y, problem->wanted, (size_t)s->rows * s->n, test->label);
    kernel_test_weight_free(test, &weight);
}

static void discard(struct problem *problem) {
    kernel_test_free(problem->x);
    kernel_test_free(problem->bias);
    kernel_test_free(problem->residual);
    kernel_test_free(problem->wanted);
    kernel_test_free(problem->y);
    kernel_test_free(problem->weights);
}

static void try_shape(const struct kernel_test *test, struct shape shape, uint64_t *random,
                      bool hostile) {
    struct problem problem = pose(shape, random, hostile);
    check(test, &problem);
    discard(&problem);
}

static void body_rows(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t rows = 1; rows <= 17; rows++) {
        try_shape(test, (struct shape){rows, 83, 37, ELEMENT_F16, rows % 2, rows % 3 == 0}, &random,
                  false);
        try_shape(test, (struct shape){rows, 70, 21, ELEMENT_F32, rows % 3, rows % 2}, &random,
                  false);
    }
}

static void equals_the_chain_for_1_to_17_rows(void **state) {
    kernel_test_each(body_rows);
}

static void body_shapes(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 40; i++) {
        struct shape shape = {kernel_test_between(&random, 1, 9),
                              kernel_test_between(&random, 1, 150),
                              kernel_test_between(&random, 1, 100),
                              i % 2 ? ELEMENT_F16 : ELEMENT_F32,
                              i % 3 == 0,
                              i % 5 == 0};
        try_shape(test, shape, &random, i % 4 == 0);
    }
}

static void equals_the_chain_for_shapes_of_no_round_number(void **state) {
    kernel_test_each(body_shapes);
}

static void body_in_place(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    struct problem problem =
        pose((struct shape){7, 50, 40, ELEMENT_F16, true, true}, &random, false);
    const struct weight_form form = {.type = ELEMENT_F16, .n = 50, .k = 40, .bias = true};
    const struct weight_source source = {.values = problem.weights, .bias = problem.bias};
    struct weight weight = kernel_test_weight(test, &form, &source);
    const struct linear_f32_args args = {.x = problem.x,
                                         .weight = &weight,
                                         .residual = problem.residual,
                                         .y = problem.residual,
                                         .rows = 7};
    assert_int_equal(test->ops->linear_f32(test->device, &args), KERNELS_OK);
    kernel_test_same_floats(problem.residual, problem.wanted, 7 * 50, test->label);
    kernel_test_weight_free(test, &weight);
    discard(&problem);
}

static void takes_the_residual_in_place(void **state) {
    kernel_test_each(body_in_place);
}

static void body_neighbours(const struct kernel_test *test) {
    uint64_t random = test_seed() + 3;
    struct problem problem =
        pose((struct shape){6, 33, 29, ELEMENT_F16, false, false}, &random, false);
    for (uint32_t k = 0; k < 29; k++) {
        problem.x[2 * 29 + k] = k % 2 ? NAN : INFINITY;
    }
    solve(&problem);
    check(test, &problem);
    discard(&problem);
}

static void keeps_a_row_of_nans_to_itself(void **state) {
    kernel_test_each(body_neighbours);
}

static void body_arguments(const struct kernel_test *test) {
    uint64_t random = test_seed() + 4;
    struct problem problem =
        pose((struct shape){2, 16, 8, ELEMENT_F32, false, false}, &random, false);
    const struct weight_form form = {.type = ELEMENT_F32, .n = 16, .k = 8};
    const struct weight_source source = {.values = problem.weights};
    struct weight weight = kernel_test_weight(test, &form, &source);
    struct weight int8 = weight;
    int8.form.type = ELEMENT_I8;
    const struct linear_f32_args good = {
        .x = problem.x, .weight = &weight, .y = problem.y, .rows = 2};
    struct linear_f32_args bad[6] = {good, good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].x = NULL;
    bad[2].y = (float *)(void *)((char *)problem.y + 1);
    bad[3].weight = NULL;
    bad[4].weight = &int8;
    bad[5].residual = (const float *)(const void *)((const char *)problem.y + 2);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(test->ops->linear_f32(test->device, &bad[i]), KERNELS_INVALID);
    }
    kernel_test_weight_free(test, &weight);
    discard(&problem);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(equals_the_chain_for_1_to_17_rows),
          cmocka_unit_test(equals_the_chain_for_shapes_of_no_round_number),
          cmocka_unit_test(takes_the_residual_in_place),
          cmocka_unit_test(keeps_a_row_of_nans_to_itself),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
