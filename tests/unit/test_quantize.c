#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "engine/quantize.h"

static void quantises_a_row_with_its_own_scale(void **state) {
    const float row[] = {-4, -3, 0, 1, 2, 3, 4};
    const int8_t expected[] = {-127, -95, 0, 32, 64, 95, 127}; /* 95.25 and 31.75, 63.5 to even */
    int8_t q[7];
    float scale = 0;
    uint32_t bad = 99;
    assert_int_equal(quantize_row(ELEMENT_I8, row, 7, q, &scale, &bad), QUANTIZE_OK);
    assert_memory_equal(q, expected, sizeof q);
    assert_true(scale == 4.0f / 127.0f);
}

static void gives_a_row_of_zeros_scale_zero(void **state) {
    const float row[] = {0, -0.0f, 0x1p-101f};
    int8_t q[3] = {1, 1, 1};
    float scale = 1;
    uint32_t bad;
    assert_int_equal(quantize_row(ELEMENT_I8, row, 3, q, &scale, &bad), QUANTIZE_OK);
    assert_true(scale == 0 && q[0] == 0 && q[1] == 0 && q[2] == 0);
}

static void reads_back_within_half_a_step(void **state) {
    uint64_t random = test_seed();
    for (int round = 0; round < 200; round++) {
        float row[96], scale = 0;
        int8_t q[96];
        uint32_t bad;
        for (int i = 0; i < 96; i++) {
            row[i] = (float)(int64_t)test_random(&random) * 0x1p-64f;
        }
        assert_int_equal(quantize_row(ELEMENT_I8, row, 96, q, &scale, &bad), QUANTIZE_OK);
        for (int i = 0; i < 96; i++) {
            assert_true(fabs((double)row[i] - (double)q[i] * (double)scale) <=
                        0.50001 * (double)scale);
        }
    }
}

static void rounds_to_halves_half_to_even(void **state) {
    const float row[] = {1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, -65519.0f};
    const uint16_t expected[] = {0x3C00, 0x3C02, 0xFBFF};
    uint16_t halves[3];
    uint32_t bad;
    assert_int_equal(quantize_row(ELEMENT_F16, row, 3, halves, NULL, &bad), QUANTIZE_OK);
    assert_memory_equal(halves, expected, sizeof halves);
}

static void refuses_a_weight_too_large_for_a_half(void **state) {
    const float row[] = {1, 65520.0f};
    uint16_t halves[2];
    float floats[2];
    uint32_t bad = 99;
    assert_int_equal(quantize_row(ELEMENT_F16, row, 2, halves, NULL, &bad), QUANTIZE_OVERFLOW);
    assert_int_equal(bad, 1);
    assert_int_equal(quantize_row(ELEMENT_F32, row, 2, floats, NULL, &bad), QUANTIZE_OK);
    assert_memory_equal(row, floats, sizeof row);
}

static void refuses_what_is_not_finite_whatever_the_type(void **state) {
    const float bad_values[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        for (enum element_type type = ELEMENT_F32; type <= ELEMENT_I8; type++) {
            float row[3] = {1, 2, bad_values[i]}, out[3], scale;
            uint32_t bad = 99;
            assert_int_equal(quantize_row(type, row, 3, out, &scale, &bad), QUANTIZE_NOT_FINITE);
            assert_int_equal(bad, 2);
        }
    }
}

TEST_MAIN(cmocka_unit_test(quantises_a_row_with_its_own_scale),
          cmocka_unit_test(gives_a_row_of_zeros_scale_zero),
          cmocka_unit_test(reads_back_within_half_a_step),
          cmocka_unit_test(rounds_to_halves_half_to_even),
          cmocka_unit_test(refuses_a_weight_too_large_for_a_half),
          cmocka_unit_test(refuses_what_is_not_finite_whatever_the_type))
