/* RMSNorm, LayerNorm and QK-norm against the canonical sum written out. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

/* Sum of f(x_i): lanes of 16 within segments of 256, folded by 8, 4, 2, 1. */
static float summed(const float *x, uint32_t count, float mean, bool squares) {
    float total = 0;
    for (uint32_t begin = 0; begin < count; begin += 256) {
        float lane[16] = {0};
        for (uint32_t i = begin; i < count && i < begin + 256; i++) {
            float c = x[i] - mean;
            lane[i % 16] = squares ? fmaf(c, c, lane[i % 16]) : lane[i % 16] + x[i];
        }
        for (int half = 8; half > 0; half /= 2) {
            for (int i = 0; i < half; i++) {
                lane[i] += lane[i + half];
            }
        }
        total += lane[0];
    }
    return total;
}

static void rms(const float *x, const float *w, uint32_t dim, float eps, float *y) {
    float mean_square = summed(x, dim, 0, true) / (float)dim;
    float r = 1.0f / sqrtf(mean_square + eps);
    for (uint32_t i = 0; i < dim; i++) {
        float scaled = x[i] * r;
        y[i] = scaled * w[i];
    }
}

static void layer(const float *x, const float *w, const float *bias, uint32_t dim, float eps,
                  float *y) {
    float mean = summed(x, dim, 0, false) / (float)dim;
    float variance = summed(x, dim, mean, true) / (float)dim;
    float r = 1.0f / sqrtf(variance + eps);
    for (uint32_t i = 0; i < dim; i++) {
        float c = x[i] - mean;
        float scaled = c * r;
        float weighted = scaled * w[i];
        y[i] = bias != NULL ? weighted + bias[i] : weighted;
    }
}

struct problem {
    uint32_t rows, dim;
    float *x, *w, *bias, *wanted, *y;
    int32_t *row_index;
};

static void pose(struct problem *p, uint32_t rows, uint32_t dim, uint64_t *random) {
    size_t count = (size_t)rows * dim;
    *p = (struct problem){rows, dim, NULL, NULL, NULL, NULL, NULL, NULL};
    p->x = kernel_test_alloc(count * sizeof(float));
    p->w = kernel_test_alloc(dim * sizeof(float));
    p->bias = kernel_test_alloc(dim * sizeof(float));
    p->wanted = kernel_test_alloc(count * sizeof(float));
    p->y = kernel_test_alloc(count * sizeof(float));
    p->row_index = kernel_test_alloc(rows * sizeof(int32_t));
    kernel_test_floats(random, p->x, count);
    kernel_test_floats(random, p->w, dim);
    kernel_test_floats(random, p->bias, dim);
    for (uint32_t t = 0; t < rows; t++) {
        p->row_index[t] = (int32_t)kernel_test_between(random, 0, rows - 1);
    }
    for (uint32_t i = 0; rows > 2 && i < dim; i++) {
        p->x[dim + i] = 0.0f;
        p->x[2 * dim + i] = i % 2 ? 1e-40f : -1e-41f;
    }
    if (rows > 4) {
        p->x[3 * dim + dim / 2] = NAN;
        p->x[4 * dim] = 3e38f; /* its square is infinite */
    }
}

static void discard(struct problem *p) {
    kernel_test_free(p->x);
    kernel_test_free(p->w);
    kernel_test_free(p->bias);
    kernel_test_free(p->wanted);
    kernel_test_free(p->y);
    kernel_test_free(p->row_index);
}

static const uint32_t dims[] = {1, 15, 16, 17, 255, 256, 257, 576, 1000};

static void body_rms(const struct kernel_test *test) {
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 18; i++) {
        struct problem p;
        pose(&p, i + 1, dims[i % 9], &random);
        bool picked = i % 2 == 1;
        for (uint32_t t = 0; t < p.rows; t++) {
            uint32_t from = picked ? (uint32_t)p.row_index[t] : t;
            rms(p.x + (size_t)from * p.dim, p.w, p.dim, 1e-5f, p.wanted + (size_t)t * p.dim);
        }
        const struct norm_args args = {.x = p.x,
                                       .row_index = picked ? p.row_index : NULL,
                                       .weight = p.w,
                                       .y = p.y,
                                       .eps = 1e-5f,
                                       .rows = p.rows,
                                       .dim = p.dim};
        assert_int_equal(test->ops->rms_norm(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(p.y, p.wanted, (size_t)p.rows * p.dim, test->label);
        discard(&p);
    }
}

static void rms_norm_sums_in_the_canonical_order(void **state) {
    kernel_test_each(body_rms);
}

static void body_layer(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 18; i++) {
        struct problem p;
        pose(&p, i + 1, dims[i % 9], &random);
        const float *bias = i % 2 ? p.bias : NULL;
        for (uint32_t t = 0; t < p.rows; t++) {
            layer(p.x + (size_t)t * p.dim, p.w, bias, p.dim, 1e-6f, p.wanted + (size_t)t * p.dim);
        }
        const struct norm_args args = {.x = p.x,
                                       .weight = p.w,
                                       .bias = bias,
                                       .y = p.y,
                                       .eps = 1e-6f,
                                       .rows = p.rows,
                                       .dim = p.dim};
        assert_int_equal(test->ops->layer_norm(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(p.y, p.wanted, (size_t)p.rows * p.dim, test->label);
        discard(&p);
    }
}

static void layer_norm_sums_in_the_canonical_order(void **state) {
    kernel_test_each(body_layer);
}

static void body_head(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t rows = 1; rows <= 9; rows++) {
        struct problem p;
        const uint32_t heads = 3, d = rows % 2 ? 64 : 20, stride = 3 * d + 7;
        pose(&p, rows, stride, &random);
        memcpy(p.wanted, p.x, (size_t)rows * stride * sizeof(float));
        for (uint32_t t = 0; t < rows; t++) {
            for (uint32_t h = 0; h < heads; h++) {
                float *head = p.wanted + (size_t)t * stride + h * d;
                rms(p.x + (size_t)t * stride + h * d, p.w, d, 1e-6f, head);
            }
        }
        const struct head_norm_args args = {.x = p.x,
                                            .stride = stride,
                                            .weight = p.w,
                                            .eps = 1e-6f,
                                            .rows = rows,
                                            .heads = heads,
                                            .head_dim = d};
        assert_int_equal(test->ops->head_norm(test->device, &args), KERNELS_OK);
        kernel_test_same_floats(p.x, p.wanted, (size_t)rows * stride, test->label);
        discard(&p);
    }
}

static void head_norm_takes_each_head_alone_and_nothing_beside(void **state) {
    kernel_test_each(body_head);
}

static void body_arguments(const struct kernel_test *test) {
    float x[16] = {0}, w[16] = {0}, y[16];
    const struct norm_args good = {.x = x, .weight = w, .y = y, .eps = 1e-5f, .rows = 1, .dim = 16};
    struct norm_args bad[5] = {good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].dim = 0;
    bad[2].dim = KERNELS_K_MAX + 1;
    bad[3].weight = NULL;
    bad[4].y = NULL;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(test->ops->rms_norm(test->device, &bad[i]), KERNELS_INVALID);
        assert_int_equal(test->ops->layer_norm(test->device, &bad[i]), KERNELS_INVALID);
    }
    const struct head_norm_args narrow = {
        .x = x, .stride = 15, .weight = w, .eps = 1e-5f, .rows = 1, .heads = 2, .head_dim = 8};
    assert_int_equal(test->ops->head_norm(test->device, &narrow), KERNELS_INVALID);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(rms_norm_sums_in_the_canonical_order),
          cmocka_unit_test(layer_norm_sums_in_the_canonical_order),
          cmocka_unit_test(head_norm_takes_each_head_alone_and_nothing_beside),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
