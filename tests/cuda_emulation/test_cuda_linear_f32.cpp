/* linear_f32, embed and head_logits of the CUDA back end equal `reference` by memcmp, on the
 * emulation. */
#include <cmath>
#include <cstdio>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/canonical.h"
#include "tests/cuda_emulation/linears_rig.h"

struct shape {
    uint32_t rows, n, k;
    element_type type;
    bool bias, residual, hostile;
};

static std::vector<float> floats(uint64_t *random, size_t count, bool hostile) {
    return hostile ? twin_hostile_floats(random, count) : twin_floats(random, count);
}

/* Values of `type` as the source of a weight has them. */
static std::vector<char> stored(const std::vector<float> &values, element_type type) {
    std::vector<char> bytes(values.size() * element_bytes(type));
    for (size_t i = 0; i < values.size(); i++) {
        uint16_t bits = canonical_f32_to_f16(values[i]);
        const void *from = type == ELEMENT_F16 ? static_cast<const void *>(&bits) : &values[i];
        memcpy(bytes.data() + i * element_bytes(type), from, element_bytes(type));
    }
    return bytes;
}

/* One weight on both sides. */
struct weights {
    reference_device reference;
    kernel_test test;
    linears_blas blas;
    weight on_host, on_device;

    weights(const rig &rig, const weight_form &form, const std::vector<float> &values,
            const std::vector<float> &bias)
        : test{reference.device(), &reference.ops(), "reference"}, on_host(), on_device() {
        std::vector<char> bytes = stored(values, form.type);
        weight_source source = {};
        source.values = bytes.data();
        source.bias = form.bias ? bias.data() : nullptr;
        on_host = kernel_test_weight(&test, &form, &source);
        on_device = linears_weight(rig, blas.blas, form, source, {1, 16});
    }
    ~weights() {
        kernel_test_weight_free(&test, &on_host);
        linears_weight_free(blas.blas, &on_device);
    }
    weights(const weights &) = delete;
    weights &operator=(const weights &) = delete;

    const weight *at(side where) const {
        return where == ON_HOST ? &on_host : &on_device;
    }
};

static weight_form form_of(const shape &s) {
    weight_form form = {};
    form.type = s.type, form.n = s.n, form.k = s.k, form.bias = s.bias;
    return form;
}

static void check(const rig &rig, const shape &s, std::vector<float> rows, uint64_t *random) {
    char label[128];
    snprintf(label, sizeof label, "%u x %u x %u, type %d", s.rows, s.n, s.k, s.type);
    weights w(rig, form_of(s), floats(random, size_t{s.n} * s.k, s.hostile),
              twin_floats(random, s.n));
    twin<float> x(rig, std::move(rows));
    twin<float> residual(rig, twin_floats(random, size_t{s.rows} * s.n));
    twin<float> y(rig, std::vector<float>(residual.size()));
    auto arguments = [&](side where) -> linear_f32_args {
        return {x.at(where), w.at(where), s.residual ? residual.at(where) : nullptr,
                y.at(where), {},          s.rows};
    };
    RUN_TWINS_BLAS(rig, w.blas, w.reference, linear_f32, arguments);
    y.same(label);
    auto in_place = [&](side where) -> linear_f32_args {
        return {x.at(where), w.at(where), residual.at(where), residual.at(where), {}, s.rows};
    };
    RUN_TWINS_BLAS(rig, w.blas, w.reference, linear_f32, in_place);
    residual.same(label);
}

static void try_shape(const rig &rig, const shape &s, uint64_t *random) {
    check(rig, s, floats(random, size_t{s.rows} * s.k, s.hostile), random);
}

static void equals_reference_for_1_to_17_rows(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        for (uint32_t rows = 1; rows <= 17; rows++) {
            try_shape(rig, {rows, 83, 37, ELEMENT_F16, rows % 2 != 0, rows % 3 == 0, false},
                      &random);
            try_shape(rig, {rows, 70, 21, ELEMENT_F32, rows % 3 != 0, rows % 2 != 0, false},
                      &random);
        }
    });
}

static void equals_reference_for_every_row_bucket(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        for (uint32_t rows = 1; rows <= 2048; rows *= 2) {
            element_type type = rows % 3 == 1 ? ELEMENT_F16 : ELEMENT_F32;
            try_shape(rig, {rows, 33, 9, type, true, true, false}, &random);
        }
    });
}

/* Denormal products round to -0 only where a chain stops in time: hostile values tell. */
static void equals_reference_for_shapes_of_no_round_number(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 2;
        for (uint32_t i = 0; i < 24; i++) {
            shape s = {kernel_test_between(&random, 1, 70),
                       kernel_test_between(&random, 1, 256),
                       kernel_test_between(&random, 1, 256),
                       i % 2 != 0 ? ELEMENT_F16 : ELEMENT_F32,
                       i % 3 == 0,
                       i % 5 == 0,
                       i % 4 < 2};
            try_shape(rig, s, &random);
        }
    });
}

static void equals_reference_for_inputs_beyond_a_chunk(void **state) {
    static const uint32_t ks[] = {255, 256, 257, 511, 600};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 3;
        for (uint32_t k : ks) {
            for (uint32_t rows : {3u, 10u}) {
                try_shape(rig, {rows, 65, k, ELEMENT_F16, false, false, true}, &random);
                try_shape(rig, {rows, 31, k, ELEMENT_F32, false, false, true}, &random);
            }
        }
    });
}

/* Every product underflows to -0, which one more product of zeros would turn into +0. */
static void keeps_the_zero_that_a_chain_ends_in(void **state) {
    rig_each_seed([](rig &rig) {
        for (uint32_t rows : {2u, 12u}) {
            for (element_type type : {ELEMENT_F16, ELEMENT_F32}) {
                const shape s = {rows, 40, 11, type, false, false, false};
                weights w(rig, form_of(s), std::vector<float>(size_t{s.n} * s.k, 0x1p-20f), {});
                twin<float> x(rig, std::vector<float>(size_t{rows} * s.k, -0x1p-149f));
                twin<float> y(rig, std::vector<float>(size_t{rows} * s.n));
                auto arguments = [&](side where) -> linear_f32_args {
                    return {x.at(where), w.at(where), nullptr, y.at(where), {}, rows};
                };
                RUN_TWINS_BLAS(rig, w.blas, w.reference, linear_f32, arguments);
                assert_true(y.at(ON_HOST)[0] == 0.0f && std::signbit(y.at(ON_HOST)[0]));
                y.same("zeros");
            }
        }
    });
}

static void keeps_a_row_of_nans_to_itself(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 4;
        for (uint32_t rows : {6u, 40u}) {
            std::vector<float> x = twin_floats(&random, size_t{rows} * 29);
            for (uint32_t k = 0; k < 29; k++) {
                x[2 * 29 + k] = k % 2 != 0 ? NAN : INFINITY;
            }
            check(rig, {rows, 33, 29, ELEMENT_F16, true, false, false}, x, &random);
        }
    });
}

static void refuses_bad_arguments_and_failed_launches(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 5;
        const shape s = {2, 16, 8, ELEMENT_F32, false, false, false};
        weights w(rig, form_of(s), twin_floats(&random, 16 * 8), {});
        twin<float> x(rig, twin_floats(&random, 2 * 8)), y(rig, std::vector<float>(2 * 16));
        weight int8 = w.on_device;
        int8.form.type = ELEMENT_I8;
        const linear_f32_args good = {x.at(ON_DEVICE), &w.on_device, nullptr,
                                      y.at(ON_DEVICE), {},           2};
        linear_f32_args bad[5] = {good, good, good, good, good};
        bad[0].rows = 0;
        bad[1].x = nullptr;
        bad[2].y = reinterpret_cast<float *>(reinterpret_cast<char *>(good.y) + 1);
        bad[3].weight = nullptr;
        bad[4].weight = &int8;
        for (const linear_f32_args &one : bad) {
            assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &one), KERNELS_INVALID);
        }
        const head_logits_args head = {x.at(ON_DEVICE), &int8, y.at(ON_DEVICE), {}, 2};
        assert_int_equal(cuda_head_logits(w.blas.blas, rig.stream, &head), KERNELS_INVALID);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &good), KERNELS_FAILED);
    });
}

/* ---------------------------------------------------------------- embedding and head */

static void embeds_rows_and_makes_logits_of_one_table(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 6;
        for (uint32_t rows = 1; rows <= 17; rows += 4) {
            shape s = {rows,
                       kernel_test_between(&random, 1, 256),
                       kernel_test_between(&random, 1, 256),
                       rows % 8 == 1 ? ELEMENT_F16 : ELEMENT_F32,
                       false,
                       false,
                       true};
            weights w(rig, form_of(s), floats(&random, size_t{s.n} * s.k, true), {});
            std::vector<int32_t> ids(rows);
            for (int32_t &id : ids) {
                id = static_cast<int32_t>(kernel_test_between(&random, 0, s.n - 1));
            }
            ids[0] = static_cast<int32_t>(s.n - 1);
            twin<int32_t> token(rig, ids);
            twin<float> x(rig, std::vector<float>(size_t{rows} * s.k));
            auto embed = [&](side where) -> embed_args {
                return {token.at(where), w.at(where), x.at(where), rows};
            };
            RUN_TWINS(rig, w.reference, embed, embed);
            x.same("embed");
            twin<float> logits(rig, std::vector<float>(size_t{rows} * s.n));
            auto head = [&](side where) -> head_logits_args {
                return {x.at(where), w.at(where), logits.at(where), {}, rows};
            };
            RUN_TWINS_BLAS(rig, w.blas, w.reference, head_logits, head);
            logits.same("head_logits");
        }
    });
}

static void makes_a_bad_row_of_a_token_outside_the_table(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 7;
        const shape s = {3, 8, 5, ELEMENT_F16, false, false, false};
        weights w(rig, form_of(s), twin_floats(&random, 8 * 5), {});
        twin<int32_t> token(rig, {8, 7, -1});
        float *x = rig_memory<float>(15);
        const embed_args args = {token.at(ON_DEVICE), &w.on_device, x, 3};
        assert_int_equal(cuda_embed(rig.stream, &args), KERNELS_OK);
        std::vector<float> got = rig_take(rig, x, 15);
        for (size_t i = 0; i < got.size(); i++) {
            assert_true(std::isnan(got[i]) == (i < 5 || i >= 10));
        }
    });
}

static void refuses_bad_embeddings(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 8;
        const shape s = {2, 8, 4, ELEMENT_F16, false, false, false};
        weights w(rig, form_of(s), twin_floats(&random, 8 * 4), {});
        twin<int32_t> token(rig, {0, 1});
        twin<float> x(rig, std::vector<float>(8));
        const embed_args good = {token.at(ON_DEVICE), &w.on_device, x.at(ON_DEVICE), 2};
        embed_args bad[3] = {good, good, good};
        bad[0].rows = 0;
        bad[1].token = nullptr;
        bad[2].table = nullptr;
        for (const embed_args &one : bad) {
            assert_int_equal(cuda_embed(rig.stream, &one), KERNELS_INVALID);
        }
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_embed(rig.stream, &good), KERNELS_FAILED);
    });
}

/* ---------------------------------------------------------------- 16-bit conversions */

/* The emulation's are canonical.h's: every half, and what lies between two of them. */
static void converts_halves_as_the_card_does(void **state) {
    for (uint32_t bits = 0; bits < 0x10000u; bits++) {
        float x = __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
        unsigned short back = __half_as_ushort(__float2half_rn(x));
        bool is_nan = (bits & 0x7FFFu) > 0x7C00u;
        assert_true(is_nan ? std::isnan(x) && (back & 0x7FFFu) > 0x7C00u : back == bits);
    }
    /* Halfway goes to even; past the largest half by half a step is infinite. */
    assert_int_equal(__half_as_ushort(__float2half_rn(0x1.002p0f)), 0x3C00);
    assert_int_equal(__half_as_ushort(__float2half_rn(0x1.006p0f)), 0x3C02);
    assert_int_equal(__half_as_ushort(__float2half_rn(65519.0f)), 0x7BFF);
    assert_int_equal(__half_as_ushort(__float2half_rn(65520.0f)), 0x7C00);
    assert_int_equal(__half_as_ushort(__float2half_rn(-0x1p-25f)), 0x8000);
    assert_int_equal(__half_as_ushort(__float2half_rn(0x1.8p-25f)), 0x0001);
}

static uint16_t bfloat16_bits(float x) {
    __nv_bfloat16 value = __float2bfloat16_rn(x);
    uint16_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bfloat16_of(uint16_t bits) {
    __nv_bfloat16 value;
    memcpy(static_cast<void *>(&value), &bits, sizeof bits);
    return __bfloat162float(value);
}

static void converts_bfloat16_as_the_card_does(void **state) {
    for (uint32_t bits = 0; bits < 0x10000u; bits++) {
        float x = bfloat16_of(static_cast<uint16_t>(bits));
        uint16_t back = bfloat16_bits(x);
        bool is_nan = (bits & 0x7FFFu) > 0x7F80u;
        assert_true(is_nan ? std::isnan(x) && back == 0x7FFFu : back == bits);
    }
    assert_int_equal(bfloat16_bits(0x1.01p0f), 0x3F80);
    assert_int_equal(bfloat16_bits(0x1.03p0f), 0x3F82);
    assert_int_equal(bfloat16_bits(0x1.010002p0f), 0x3F81);
    assert_int_equal(bfloat16_bits(0x1.fffffep127f), 0x7F80);
}

TEST_MAIN(cmocka_unit_test(equals_reference_for_1_to_17_rows),
          cmocka_unit_test(equals_reference_for_every_row_bucket),
          cmocka_unit_test(equals_reference_for_shapes_of_no_round_number),
          cmocka_unit_test(equals_reference_for_inputs_beyond_a_chunk),
          cmocka_unit_test(keeps_the_zero_that_a_chain_ends_in),
          cmocka_unit_test(keeps_a_row_of_nans_to_itself),
          cmocka_unit_test(refuses_bad_arguments_and_failed_launches),
          cmocka_unit_test(embeds_rows_and_makes_logits_of_one_table),
          cmocka_unit_test(makes_a_bad_row_of_a_token_outside_the_table),
          cmocka_unit_test(refuses_bad_embeddings),
          cmocka_unit_test(converts_halves_as_the_card_does),
          cmocka_unit_test(converts_bfloat16_as_the_card_does))
