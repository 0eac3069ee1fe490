#include "tests/support/test.h"

#include <string.h>

#include "engine/model_plan.h"
#include "engine/model_policy.h"

/* The shape of SmolLM2-135M. */
static const struct model_config config = {
    .layers = 30, .dim = 576, .heads = 9, .kv_heads = 3, .head_dim = 64, .ffn_dim = 1536};

static void names_and_names_only_are_parsed(void **state) {
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        enum model_policy parsed = MODEL_POLICY_COUNT;
        assert_true(model_policy_parse(model_policy_name(policy), &parsed));
        assert_int_equal(parsed, policy);
    }
    enum model_policy untouched = MODEL_POLICY_LATENCY;
    assert_false(model_policy_parse("int4", &untouched));
    assert_false(model_policy_parse("", &untouched));
    assert_false(model_policy_parse("INT8", &untouched));
    assert_int_equal(untouched, MODEL_POLICY_LATENCY);
}

static void gives_each_linear_its_shape(void **state) {
    const uint32_t expected[MODEL_LINEAR_COUNT][2] = {
        [MODEL_LINEAR_QKV] = {960, 576},
        [MODEL_LINEAR_OUTPUT] = {576, 576},
        [MODEL_LINEAR_GATE_UP] = {3072, 576},
        [MODEL_LINEAR_DOWN] = {576, 1536},
    };
    for (enum model_linear linear = 0; linear < MODEL_LINEAR_COUNT; linear++) {
        struct weight_form form = model_policy_form(MODEL_POLICY_INT8, &config, linear, 7);
        assert_int_equal(form.n, expected[linear][0]);
        assert_int_equal(form.k, expected[linear][1]);
        assert_int_equal(form.type, ELEMENT_I8);
        assert_int_equal(form.activation, ACTIVATION_PER_TOKEN);
        form = model_policy_form(MODEL_POLICY_F16, &config, linear, 7);
        assert_int_equal(form.type, ELEMENT_F16);
        assert_int_equal(form.activation, ACTIVATION_F32);
    }
}

static void keeps_down_projections_in_16_bits_when_balanced(void **state) {
    for (uint32_t layer = 0; layer < 30; layer++) {
        for (enum model_linear linear = 0; linear < MODEL_LINEAR_COUNT; linear++) {
            assert_int_equal(model_policy_linear(MODEL_POLICY_BALANCED, linear, layer, 30),
                             linear == MODEL_LINEAR_DOWN ? ELEMENT_F16 : ELEMENT_I8);
            bool is_end = layer == 0 || layer == 29;
            assert_int_equal(model_policy_linear(MODEL_POLICY_LATENCY, linear, layer, 30),
                             linear == MODEL_LINEAR_DOWN || is_end ? ELEMENT_F16 : ELEMENT_I8);
        }
    }
}

static void counts_the_share_of_multiply_adds_in_int8(void **state) {
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_F32, &config) == 0);
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_F16, &config) == 0);
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_INT8, &config) == 100);
    /* down: 1536 of 960 + 576 + 3072 + 1536 columns of width 576. */
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_BALANCED, &config) == 75);
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_LATENCY, &config) == 70);
}

static void stores_embedding_head_and_keys_in_16_bits_or_f32(void **state) {
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        enum element_type type = policy == MODEL_POLICY_F32 ? ELEMENT_F32 : ELEMENT_F16;
        assert_int_equal(model_policy_table(policy), type);
        assert_int_equal(model_policy_kv(policy), type);
    }
}

static void is_fast_under_one_policy_and_in_16_bits_only(void **state) {
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        assert_int_equal(model_policy_is_fast(policy), policy == MODEL_POLICY_FAST);
        for (enum model_linear linear = 0; linear < MODEL_LINEAR_COUNT; linear++) {
            assert_false(model_policy_form(policy, &config, linear, 7).fast);
        }
        struct weight_form table = model_plan_table_form(&config, policy);
        assert_int_equal(table.fast, policy == MODEL_POLICY_FAST);
    }
    assert_true(model_policy_int8_share_percent(MODEL_POLICY_FAST, &config) == 100);
    assert_int_equal(model_plan_table_form(&config, MODEL_POLICY_FAST).type, ELEMENT_F16);
}

TEST_MAIN(cmocka_unit_test(names_and_names_only_are_parsed),
          cmocka_unit_test(gives_each_linear_its_shape),
          cmocka_unit_test(keeps_down_projections_in_16_bits_when_balanced),
          cmocka_unit_test(is_fast_under_one_policy_and_in_16_bits_only),
          cmocka_unit_test(counts_the_share_of_multiply_adds_in_int8),
          cmocka_unit_test(stores_embedding_head_and_keys_in_16_bits_or_f32))
