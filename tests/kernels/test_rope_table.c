/* The rotary tables against libm in long double. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/rope_table.h"

static float *table(uint32_t positions, uint32_t half) {
    float *values = calloc((size_t)positions * half + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static void entries_are_within_one_ulp_of_libm(void **state) {
    const double thetas[] = {1.0, 10000.0, 500000.0, 1000000.0};
    const uint32_t dims[] = {2, 20, 64, 128};
    uint32_t off_by_one = 0, entries = 0;
    for (int a = 0; a < 4; a++) {
        const uint32_t positions = 700, half = dims[a] / 2;
        float *cosine = table(positions, half), *sine = table(positions, half);
        rope_table_fill(cosine, sine, positions, dims[a], thetas[a]);
        for (uint32_t p = 0; p < positions; p++) {
            for (uint32_t i = 0; i < half; i++) {
                long double angle =
                    (long double)p * powl((long double)thetas[a], -2.0L * i / (long double)dims[a]);
                float c = (float)cosl(angle), s = (float)sinl(angle);
                float got_c = cosine[p * half + i], got_s = sine[p * half + i];
                assert_true(got_c == c || got_c == nextafterf(c, got_c));
                assert_true(got_s == s || got_s == nextafterf(s, got_s));
                off_by_one += (got_c != c ? 1u : 0u) + (got_s != s ? 1u : 0u);
                entries += 2;
            }
        }
        free(cosine);
        free(sine);
    }
    assert_true(off_by_one * 10000 < entries); /* the f64 value is nearly always rounded right */
}

static void far_positions_keep_their_accuracy(void **state) {
    const uint32_t positions = ROPE_TABLE_POSITIONS_MAX, half = 1;
    float *cosine = table(positions, half), *sine = table(positions, half);
    rope_table_fill(cosine, sine, positions, 2, 10000.0); /* frequency 1: angle = position */
    for (uint32_t p = positions - 1; p > 100; p -= 97) {
        assert_true(fabs((double)cosine[p] - cos((double)p)) < 6.1e-8);
        assert_true(fabs((double)sine[p] - sin((double)p)) < 6.1e-8);
    }
    free(cosine);
    free(sine);
}

static void position_zero_turns_nothing(void **state) {
    float cosine[32], sine[32];
    rope_table_fill(cosine, sine, 1, 64, 10000.0);
    for (int i = 0; i < 32; i++) {
        assert_true(cosine[i] == 1.0f && sine[i] == 0.0f);
    }
    rope_table_fill(cosine, sine, 1, 0, 10000.0); /* no rotation: nothing to fill */
}

TEST_MAIN(cmocka_unit_test(entries_are_within_one_ulp_of_libm),
          cmocka_unit_test(far_positions_keep_their_accuracy),
          cmocka_unit_test(position_zero_turns_nothing))
