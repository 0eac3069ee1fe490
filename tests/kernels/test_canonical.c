/* The scalar arithmetic: conversions exhaustively, exp against long double, published answers. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

/* ---------------------------------------------------------------- conversions */

/* Value of a half from its fields. */
static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31;
    double fraction = half & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void every_half_converts_exactly_and_back(void **state) {
    for (uint32_t half = 0; half < 65536; half++) {
        float x = canonical_f16_to_f32((uint16_t)half);
        if ((half & 0x7FFF) > 0x7C00) {
            assert_true(isnan(x));
            assert_true((canonical_f32_to_f16(x) & 0x7FFF) > 0x7C00);
        } else if ((half & 0x7FFF) == 0x7C00) {
            assert_true(isinf(x) && (x < 0) == (half >= 0x8000));
            assert_int_equal(canonical_f32_to_f16(x), half);
        } else {
            assert_true((double)x == half_value((uint16_t)half));
            assert_true((signbit(x) != 0) == (half >= 0x8000));
            assert_int_equal(canonical_f32_to_f16(x), half);
        }
    }
}

static void floats_between_halves_round_to_the_nearest_or_even(void **state) {
    for (uint32_t half = 0; half < 0x7C00; half++) {
        double low = half_value((uint16_t)half);
        double high = half == 0x7BFF ? 65536.0 : half_value((uint16_t)(half + 1));
        float middle = (float)((low + high) / 2); /* exact in f32 */
        uint32_t even = half % 2 == 0 ? half : half + 1;
        assert_int_equal(canonical_f32_to_f16(middle), even);
        assert_int_equal(canonical_f32_to_f16(-middle), even | 0x8000);
        assert_int_equal(canonical_f32_to_f16(nextafterf(middle, 0)), half);
        assert_int_equal(canonical_f32_to_f16(nextafterf(middle, INFINITY)), half + 1);
    }
}

static void floats_beyond_halves_become_zero_infinity_or_nan(void **state) {
    assert_int_equal(canonical_f32_to_f16(0x1p-26f), 0);
    assert_int_equal(canonical_f32_to_f16(-1e-40f), 0x8000);
    assert_int_equal(canonical_f32_to_f16(65519.996f), 0x7BFF);
    assert_int_equal(canonical_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(canonical_f32_to_f16(3e38f), 0x7C00);
    assert_int_equal(canonical_f32_to_f16(-INFINITY), 0xFC00);
    assert_true((canonical_f32_to_f16(NAN) & 0x7FFF) > 0x7C00);
}

/* ---------------------------------------------------------------- exp */

#define EXP_ULP_MAX 1.0

/* Units in the last place between y and e^x. */
static double exp_error(float x) {
    long double exact = expl((long double)x);
    int exponent;
    frexpl(exact, &exponent);
    long double ulp = ldexpl(1.0L, exponent - 24);
    return (double)(fabsl((long double)canonical_exp(x) - exact) / ulp);
}

static void exp_is_within_one_ulp(void **state) {
    double worst = 0;
    float worst_at = 0;
    for (uint32_t bits = 0; bits <= canonical_bits(88.7f); bits += 1361) {
        for (int sign = 0; sign < 2; sign++) {
            float x = canonical_float(bits | (uint32_t)sign << 31);
            double error = x < -80.0f || x > 88.7f ? 0 : exp_error(x);
            worst_at = error > worst ? x : worst_at;
            worst = error > worst ? error : worst;
        }
    }
    print_message("exp: %.4f ulp at %a\n", worst, (double)worst_at);
    assert_true(worst < EXP_ULP_MAX);
}

static void exp_is_exact_or_saturates_where_it_must(void **state) {
    assert_true(canonical_exp(0.0f) == 1.0f && canonical_exp(-0.0f) == 1.0f);
    assert_int_equal(canonical_bits(canonical_exp(-80.1f)), 0); /* +0 */
    assert_int_equal(canonical_bits(canonical_exp(-INFINITY)), 0);
    assert_true(canonical_exp(-80.0f) > 0);
    assert_true(isfinite(canonical_exp(88.7f)));
    assert_true(isinf(canonical_exp(nextafterf(88.7f, INFINITY))));
    assert_true(isinf(canonical_exp(INFINITY)) && canonical_exp(INFINITY) > 0);
    assert_true(isnan(canonical_exp(NAN)) && isnan(canonical_exp(-NAN)));
    assert_true(canonical_exp(1e-30f) == 1.0f && canonical_exp(-1e-42f) == 1.0f);
}

static void weights_beyond_the_cut_are_zero(void **state) {
    for (float x = CANONICAL_WEIGHTLESS; x > -120.0f; x -= 0.001f) {
        assert_int_equal(canonical_logit_weight(nextafterf(x, -INFINITY)), 0);
    }
    assert_int_equal(canonical_logit_weight(-0.0f), 1u << 30);
}

/* ---------------------------------------------------------------- sums */

static void sums_go_through_16_lanes_and_segments_of_256(void **state) {
    uint64_t random = test_seed();
    for (uint32_t count = 1; count < 800; count += 1 + (uint32_t)(test_random(&random) % 7)) {
        float x[800], total = 0;
        for (uint32_t i = 0; i < count; i++) {
            x[i] = (float)(test_random(&random) >> 40) * 0x1p-20f - 7.0f;
        }
        for (uint32_t begin = 0; begin < count; begin += 256) {
            float lane[16] = {0};
            for (uint32_t i = begin; i < count && i < begin + 256; i++) {
                lane[(i - begin) % 16] += x[i];
            }
            float eight[8], four[4];
            for (int i = 0; i < 8; i++) {
                eight[i] = lane[i] + lane[i + 8];
            }
            for (int i = 0; i < 4; i++) {
                four[i] = eight[i] + eight[i + 4];
            }
            float left = four[0] + four[2], right = four[1] + four[3];
            total += left + right;
        }
        assert_int_equal(canonical_bits(canonical_sum(x, count)), canonical_bits(total));
    }
}

/* ---------------------------------------------------------------- integers */

static void philox_gives_the_published_answers(void **state) {
    const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t block[4];
        memcpy(block, known[i].counter, sizeof block);
        canonical_philox(block, known[i].key[0], known[i].key[1]);
        assert_memory_equal(block, known[i].answer, sizeof block);
    }
    assert_true(canonical_random(0, 0) == 0xe169c58d6627e8d5u);
}

static void mulhi_is_the_high_half_of_the_product(void **state) {
    uint64_t random = test_seed() + 1;
    const uint64_t edges[] = {0, 1, UINT32_MAX, 1ull << 32, UINT64_MAX, UINT64_MAX - 1, 1ull << 63};
    for (uint32_t i = 0; i < 10049; i++) {
        uint64_t a = i < 49 ? edges[i / 7] : test_random(&random);
        uint64_t b = i < 49 ? edges[i % 7] : test_random(&random) >> (i % 64);
        assert_true(canonical_mulhi64(a, b) == (uint64_t)((unsigned __int128)a * b >> 64));
    }
}

static void top_p_compares_in_128_bits(void **state) {
    uint64_t random = test_seed() + 2;
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t total = test_random(&random) >> (8 + i % 40);
        uint32_t p = (uint32_t)(test_random(&random) % 65536);
        uint64_t edge = (uint64_t)(((unsigned __int128)total * p + 65535) >> 16);
        for (uint64_t sum = edge > 0 ? edge - 1 : 0; sum <= edge + 1; sum++) {
            bool reached = (unsigned __int128)sum << 16 >= (unsigned __int128)total * p;
            assert_int_equal(canonical_top_p_reached(sum, total, p), reached);
        }
    }
}

static void logit_keys_order_as_logits_do(void **state) {
    const float ascending[] = {-INFINITY, -3e38f, -1.5f, -1e-40f, 0.0f, 1e-40f, 2.0f, 3e38f};
    for (int i = 0; i < 7; i++) {
        assert_true(canonical_logit_key(ascending[i]) < canonical_logit_key(ascending[i + 1]));
    }
    assert_int_equal(canonical_logit_key(-0.0f), canonical_logit_key(0.0f));
    assert_true(canonical_logit_is_bad(NAN) && canonical_logit_is_bad(INFINITY));
    assert_false(canonical_logit_is_bad(-INFINITY) || canonical_logit_is_bad(3e38f));
}

/* ---------------------------------------------------------------- attention and INT8 */

static void merging_weighs_blocks_by_their_largest_score(void **state) {
    struct canonical_merge up = canonical_attention_merge(1.0f, 3.0f);
    assert_true(up.max == 3.0f && up.block == 1.0f && up.before == canonical_exp(-2.0f));
    struct canonical_merge down = canonical_attention_merge(3.0f, 1.0f);
    assert_true(down.max == 3.0f && down.before == 1.0f && down.block == canonical_exp(-2.0f));
    struct canonical_merge gone = canonical_attention_merge(-INFINITY, 0.0f);
    assert_true(gone.max == 0.0f && gone.before == 0.0f && gone.block == 1.0f);
}

static void amax_cannot_lose_a_nan(void **state) {
    float x[20] = {0};
    x[3] = -5.0f;
    assert_true(canonical_float(canonical_amax_bits(x, 20)) == 5.0f);
    x[19] = -NAN;
    assert_true(canonical_amax_bits(x, 20) >= CANONICAL_INF_BITS);
    assert_true(canonical_quantize_symmetric(canonical_amax_bits(x, 20)).bad);
    x[19] = -INFINITY;
    assert_true(canonical_quantize_symmetric(canonical_amax_bits(x, 20)).bad);
    struct canonical_quantizer tiny =
        canonical_quantize_symmetric(canonical_bits(0x1.fffffep-101f));
    assert_true(!tiny.bad && tiny.scale == 0.0f);
    struct canonical_quantizer least = canonical_quantize_symmetric(canonical_bits(0x1p-100f));
    assert_true(least.scale > 0.0f && canonical_q_symmetric(0x1p-100f, least.factor) == 127);
}

TEST_MAIN(cmocka_unit_test(every_half_converts_exactly_and_back),
          cmocka_unit_test(floats_between_halves_round_to_the_nearest_or_even),
          cmocka_unit_test(floats_beyond_halves_become_zero_infinity_or_nan),
          cmocka_unit_test(exp_is_within_one_ulp),
          cmocka_unit_test(exp_is_exact_or_saturates_where_it_must),
          cmocka_unit_test(weights_beyond_the_cut_are_zero),
          cmocka_unit_test(sums_go_through_16_lanes_and_segments_of_256),
          cmocka_unit_test(philox_gives_the_published_answers),
          cmocka_unit_test(mulhi_is_the_high_half_of_the_product),
          cmocka_unit_test(top_p_compares_in_128_bits),
          cmocka_unit_test(logit_keys_order_as_logits_do),
          cmocka_unit_test(merging_weighs_blocks_by_their_largest_score),
          cmocka_unit_test(amax_cannot_lose_a_nan))
