/* A random INT8 linear with its exact answer, for the tests of gemm_i8, dequantize and linear_i8.
 *
 * The answer is computed in 64-bit integers and with fmaf, plainly, from the contract in ops.h. */
#ifndef SOLFLEET_TESTS_SUPPORT_KERNEL_INT8_H
#define SOLFLEET_TESTS_SUPPORT_KERNEL_INT8_H

#include "tests/support/kernel_test.h"

struct kernel_int8_shape {
    uint32_t rows, n, k, group_size;
    enum activation_kind activation;
    bool weight_zero_point, activation_zero_point, bias, residual;
    bool uneven;  /* stretches of 16 inputs, each with its own largest value; so are weights */
    bool extreme; /* weights of -128 and +-127, activations of +-127 only */
};

struct kernel_int8 {
    struct kernel_int8_shape shape;
    struct weight_form form;
    uint32_t groups;
    int8_t *weights;
    float *weight_scale;
    int32_t *weight_zero;
    float *bias, *residual;
    struct quantized x;
    int32_t *sum; /* [T, N, Q] */
    float *y;     /* [T, N] */
};

void kernel_int8_init(struct kernel_int8 *problem, const struct kernel_int8_shape *shape,
                      uint64_t *random);
void kernel_int8_deinit(struct kernel_int8 *problem);
struct weight kernel_int8_weight(const struct kernel_test *test, const struct kernel_int8 *problem);

#endif
