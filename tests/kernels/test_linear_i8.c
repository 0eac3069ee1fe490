/* The fused INT8 linear, its parts, and their equality, against 64-bit integer sums. */
#include "tests/support/kernel_int8.h"

#include <string.h>

static struct kernels_workspace workspace_of(const struct kernel_test *test,
                                             const struct kernel_int8_shape *s) {
    const struct kernels_shape shape = {.rows_max = s->rows, .n_max = s->n, .k_max = s->k};
    return kernel_test_workspace(test, KERNEL_OP_linear_i8, &shape);
}

/* gemm_i8, dequantize of its sums, and linear_i8 of one problem. */
static void check(const struct kernel_test *test, const struct kernel_int8 *p) {
    const struct kernel_int8_shape *s = &p->shape;
    struct weight weight = kernel_int8_weight(test, p);
    size_t outputs = (size_t)s->rows * s->n;
    int32_t *sum = kernel_test_alloc(outputs * p->groups * sizeof(int32_t));
    float *y = kernel_test_alloc(outputs * sizeof(float));
    const float *residual = s->residual ? p->residual : NULL;
    const struct gemm_i8_args gemm = {.x = p->x, .weight = &weight, .sum = sum, .rows = s->rows};
    assert_int_equal(test->ops->gemm_i8(test->device, &gemm), KERNELS_OK);
    kernel_test_same_bytes(sum, p->sum, outputs * p->groups * sizeof(int32_t), test->label);
    const struct dequantize_args dequantize = {
        .sum = sum, .x = p->x, .weight = &weight, .residual = residual, .y = y, .rows = s->rows};
    assert_int_equal(test->ops->dequantize(test->device, &dequantize), KERNELS_OK);
    kernel_test_same_floats(y, p->y, outputs, test->label);
    memset(y, 0xFF, outputs * sizeof(float));
    const struct linear_i8_args linear = {.x = p->x,
                                          .weight = &weight,
                                          .residual = residual,
                                          .y = y,
                                          .workspace = workspace_of(test, s),
                                          .rows = s->rows};
    assert_int_equal(test->ops->linear_i8(test->device, &linear), KERNELS_OK);
    kernel_test_same_floats(y, p->y, outputs, test->label);
    kernel_test_free(linear.workspace.data);
    kernel_test_free(sum);
    kernel_test_free(y);
    kernel_test_weight_free(test, &weight);
}

static void try_shape(const struct kernel_test *test, struct kernel_int8_shape shape,
                      uint64_t *random) {
    struct kernel_int8 problem;
    kernel_int8_init(&problem, &shape, random);
    check(test, &problem);
    kernel_int8_deinit(&problem);
}

static void body_rows(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t rows = 1; rows <= 17; rows++) {
        try_shape(test,
                  (struct kernel_int8_shape){.rows = rows,
                                             .n = 71,
                                             .k = 53,
                                             .activation = ACTIVATION_PER_TOKEN,
                                             .bias = rows % 2,
                                             .residual = rows % 3 == 0},
                  &random);
    }
}

static void body_crowd(const struct kernel_test *test) {
    uint64_t random = test_seed() + 8;
    /* 571 outputs: nine tiles of 64, whose rows threads share; ranges end within one, too. */
    static const uint32_t shapes[][3] = {
        {401, 117, 13}, {23, 331, 61}, {24, 331, 61}, {61, 571, 37}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        try_shape(test,
                  (struct kernel_int8_shape){.rows = shapes[i][0],
                                             .n = shapes[i][1],
                                             .k = shapes[i][2],
                                             .activation = ACTIVATION_PER_TOKEN,
                                             .bias = true,
                                             .residual = true},
                  &random);
    }
}

static void is_exact_for_many_rows(void **state) {
    kernel_test_each(body_crowd);
}

static void is_exact_for_1_to_17_rows(void **state) {
    kernel_test_each(body_rows);
}

static void body_shapes(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 40; i++) {
        try_shape(test,
                  (struct kernel_int8_shape){.rows = kernel_test_between(&random, 1, 9),
                                             .n = kernel_test_between(&random, 1, 100),
                                             .k = kernel_test_between(&random, 1, 200),
                                             .activation = ACTIVATION_PER_TOKEN,
                                             .bias = i % 3 == 0,
                                             .residual = i % 2 == 0},
                  &random);
    }
}

static void is_exact_for_shapes_of_no_round_number(void **state) {
    kernel_test_each(body_shapes);
}

static void body_extremes(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t rows = 1; rows <= 17; rows++) {
        try_shape(test,
                  (struct kernel_int8_shape){.rows = rows,
                                             .n = rows % 2 ? 48 : 59 + rows,
                                             .k = rows % 3 ? 256 : 241 + rows,
                                             .extreme = true,
                                             .activation = ACTIVATION_PER_TOKEN},
                  &random);
    }
}

static void is_exact_where_pairs_come_near_16_bits(void **state) {
    kernel_test_each(body_extremes);
}

/* Stretches of small and of large inputs and weights: sums that come near 16 bits in some groups of
 * steps, in single steps elsewhere, and not at all in others. */
static void body_uneven(const struct kernel_test *test) {
    uint64_t random = test_seed() + 9;
    for (uint32_t i = 0; i < 40; i++) {
        try_shape(test,
                  (struct kernel_int8_shape){.rows = kernel_test_between(&random, 1, 13),
                                             .n = kernel_test_between(&random, 1, 60),
                                             .k = kernel_test_between(&random, 1, 400),
                                             .uneven = true,
                                             .activation = ACTIVATION_PER_TOKEN,
                                             .residual = i % 2 == 0},
                  &random);
    }
}

static void is_exact_where_inputs_and_weights_are_uneven(void **state) {
    kernel_test_each(body_uneven);
}

/* One value throughout, so that nothing cancels on the way: the largest sums there are. */
static void try_uniform(const struct kernel_test *test, uint32_t k, int8_t w, int8_t q) {
    uint64_t random = test_seed() + 3;
    const struct kernel_int8_shape shape = {
        .rows = 4, .n = 18, .k = k, .activation = ACTIVATION_PER_TOKEN};
    struct kernel_int8 problem;
    kernel_int8_init(&problem, &shape, &random);
    memset(problem.weights, w, (size_t)shape.n * k);
    memset(problem.x.q, q, (size_t)shape.rows * k);
    for (uint32_t i = 0; i < shape.rows * shape.n; i++) {
        problem.sum[i] = (int32_t)k * w * q;
        float both = problem.x.scale[i / shape.n] * problem.weight_scale[i % shape.n];
        problem.y[i] = (float)problem.sum[i] * both;
    }
    check(test, &problem);
    kernel_int8_deinit(&problem);
}

static void body_saturating(const struct kernel_test *test) {
    static const uint32_t lengths[] = {2, 64, 131, KERNELS_K_MAX - 1, KERNELS_K_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            try_uniform(test, lengths[i], -128, (int8_t)(sign * 127));
            try_uniform(test, lengths[i], 127, (int8_t)(sign * 127));
        }
    }
}

static void is_exact_for_the_largest_weights_and_inputs_throughout(void **state) {
    kernel_test_each(body_saturating);
}

static void body_forms(const struct kernel_test *test) {
    uint64_t random = test_seed() + 4;
    for (uint32_t i = 0; i < 48; i++) {
        struct kernel_int8_shape shape = {
            .rows = kernel_test_between(&random, 1, 5),
            .n = kernel_test_between(&random, 1, 40),
            .k = kernel_test_between(&random, 2, 90),
            .activation = i % 2 ? ACTIVATION_PER_TOKEN : ACTIVATION_STATIC,
            .weight_zero_point = i % 3 == 0,
            .activation_zero_point = i % 4 < 2,
            .bias = i % 5 == 0,
            .residual = i % 7 == 0,
            .extreme = i % 11 == 0,
        };
        shape.group_size = shape.weight_zero_point ? 0 : kernel_test_between(&random, 0, shape.k);
        try_shape(test, shape, &random);
    }
}

static void is_exact_for_zero_points_groups_and_static_scales(void **state) {
    kernel_test_each(body_forms);
}

static void body_long(const struct kernel_test *test) {
    uint64_t random = test_seed() + 5;
    try_shape(test,
              (struct kernel_int8_shape){.rows = 2,
                                         .n = 3,
                                         .k = KERNELS_K_MAX,
                                         .extreme = true,
                                         .activation = ACTIVATION_PER_TOKEN},
              &random);
    try_shape(test,
              (struct kernel_int8_shape){.rows = 1,
                                         .n = 2,
                                         .k = KERNELS_K_MAX / 2,
                                         .extreme = true,
                                         .activation = ACTIVATION_PER_TOKEN,
                                         .weight_zero_point = true,
                                         .activation_zero_point = true},
              &random);
}

static void is_exact_for_the_longest_sums(void **state) {
    kernel_test_each(body_long);
}

static void body_in_place(const struct kernel_test *test) {
    uint64_t random = test_seed() + 6;
    const struct kernel_int8_shape shape = {
        .rows = 6, .n = 37, .k = 45, .residual = true, .activation = ACTIVATION_PER_TOKEN};
    struct kernel_int8 p;
    kernel_int8_init(&p, &shape, &random);
    struct weight weight = kernel_int8_weight(test, &p);
    const struct linear_i8_args args = {.x = p.x,
                                        .weight = &weight,
                                        .residual = p.residual,
                                        .y = p.residual,
                                        .workspace = workspace_of(test, &shape),
                                        .rows = 6};
    assert_int_equal(test->ops->linear_i8(test->device, &args), KERNELS_OK);
    kernel_test_same_floats(p.residual, p.y, 6 * 37, test->label);
    kernel_test_free(args.workspace.data);
    kernel_test_weight_free(test, &weight);
    kernel_int8_deinit(&p);
}

static void takes_the_residual_in_place(void **state) {
    kernel_test_each(body_in_place);
}

static void body_refusals(const struct kernel_test *test) {
    const struct {
        struct weight_form form;
        const char *said;
    } cases[] = {
        {{ELEMENT_I8, 4, 0, 0, ACTIVATION_PER_TOKEN, false, false, false, false},
         "1 to 65536 inputs"},
        {{ELEMENT_I8, 4, 65537, 0, ACTIVATION_PER_TOKEN, false, false, false, false},
         "1 to 65536 inputs"},
        {{ELEMENT_I8, 4, 40000, 0, ACTIVATION_PER_TOKEN, true, false, false, false},
         "32768 inputs"},
        {{ELEMENT_I8, 4, 64, 32, ACTIVATION_PER_TOKEN, true, false, false, false},
         "zero points in groups"},
        {{ELEMENT_I8, 4, 64, 0, ACTIVATION_F32, false, false, false, false},
         "need INT8 activations"},
        {{ELEMENT_F16, 4, 64, 0, ACTIVATION_PER_TOKEN, false, false, false, false},
         "need INT8 weights"},
        {{ELEMENT_F16, 4, 64, 32, ACTIVATION_F32, false, false, false, false}, "no groups"},
        {{ELEMENT_F16, 4, 64, 0, ACTIVATION_F32, false, false, false, true}, "only a CUDA device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char err[256] = "";
        size_t bytes = 0;
        assert_int_equal(test->ops->weight_packed_bytes(&cases[i].form, &bytes, err, sizeof err),
                         KERNELS_UNSUPPORTED);
        if (strstr(err, cases[i].said) == NULL) {
            fail_msg("'%s' lacks '%s'", err, cases[i].said);
        }
    }
}

static void refuses_forms_that_it_cannot_compute_by_name(void **state) {
    kernel_test_each(body_refusals);
}

static void body_source(const struct kernel_test *test) {
    const struct weight_form form = {
        .type = ELEMENT_I8, .n = 2, .k = 4, .activation = ACTIVATION_PER_TOKEN};
    const int8_t values[8] = {0};
    float scale[2] = {1.0f, 1.0f / 0.0f};
    char err[256] = "", packed[1024];
    const struct weight_source infinite = {.values = values, .scale = scale};
    assert_int_equal(test->ops->weight_pack(&form, &infinite, packed, err, sizeof err),
                     KERNELS_INVALID);
    assert_non_null(strstr(err, "scale of output 1 is not finite"));
    const struct weight_source missing = {.values = values};
    assert_int_equal(test->ops->weight_pack(&form, &missing, packed, err, sizeof err),
                     KERNELS_INVALID);
    assert_non_null(strstr(err, "is missing"));
    struct weight_form fixed = form;
    fixed.activation = ACTIVATION_STATIC;
    scale[1] = 1.0f;
    const struct weight_source unset = {.values = values, .scale = scale};
    assert_int_equal(test->ops->weight_pack(&fixed, &unset, packed, err, sizeof err),
                     KERNELS_INVALID);
    assert_non_null(strstr(err, "static activation scale is 0"));
}

static void refuses_a_weight_without_finite_scales(void **state) {
    kernel_test_each(body_source);
}

static void body_arguments(const struct kernel_test *test) {
    uint64_t random = test_seed() + 7;
    const struct kernel_int8_shape shape = {
        .rows = 2, .n = 16, .k = 8, .activation = ACTIVATION_PER_TOKEN};
    struct kernel_int8 p;
    kernel_int8_init(&p, &shape, &random);
    struct weight weight = kernel_int8_weight(test, &p), floats = weight;
    floats.form.type = ELEMENT_F32;
    const struct linear_i8_args good = {.x = p.x, .weight = &weight, .y = p.y, .rows = 2};
    struct linear_i8_args bad[6] = {good, good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].x.q = NULL;
    bad[2].x.scale = NULL;
    bad[3].weight = &floats;
    bad[4].y = NULL;
    bad[5].x.zero_point = p.x.sum; /* the form has none */
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(test->ops->linear_i8(test->device, &bad[i]), KERNELS_INVALID);
    }
    struct gemm_i8_args gemm = {.x = p.x, .weight = &weight, .sum = NULL, .rows = 2};
    assert_int_equal(test->ops->gemm_i8(test->device, &gemm), KERNELS_INVALID);
    struct dequantize_args dequantize = {.x = p.x, .weight = &weight, .y = p.y, .rows = 2};
    assert_int_equal(test->ops->dequantize(test->device, &dequantize), KERNELS_INVALID);
    kernel_test_weight_free(test, &weight);
    kernel_int8_deinit(&p);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(is_exact_for_1_to_17_rows), cmocka_unit_test(is_exact_for_many_rows),
          cmocka_unit_test(is_exact_for_shapes_of_no_round_number),
          cmocka_unit_test(is_exact_where_pairs_come_near_16_bits),
          cmocka_unit_test(is_exact_where_inputs_and_weights_are_uneven),
          cmocka_unit_test(is_exact_for_the_largest_weights_and_inputs_throughout),
          cmocka_unit_test(is_exact_for_zero_points_groups_and_static_scales),
          cmocka_unit_test(is_exact_for_the_longest_sums),
          cmocka_unit_test(takes_the_residual_in_place),
          cmocka_unit_test(refuses_forms_that_it_cannot_compute_by_name),
          cmocka_unit_test(refuses_a_weight_without_finite_scales),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
