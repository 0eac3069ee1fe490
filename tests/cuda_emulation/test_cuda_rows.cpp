/* INT8 rows, activations and the residual sum of the CUDA back end equal `reference` by memcmp, on
 * the emulation. */
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda_emulation/twin.h"

/* ---------------------------------------------------------------- INT8 rows */

enum form { SYMMETRIC, WITH_SUM, ASYMMETRIC, STATIC, STATIC_ZERO_POINT, FORM_COUNT };

/* What a quantising op writes, and the arguments for each form. */
struct int8_rows {
    uint32_t rows, dim;
    twin<float> static_scale, scale;
    twin<int32_t> static_zero_point, zero_point, sum;
    twin<int8_t> q;
    twin<uint8_t> bad;

    int8_rows(const rig &rig, uint32_t rows_, uint32_t dim_)
        : rows(rows_), dim(dim_), static_scale(rig, {0.03f}), scale(rig, std::vector<float>(rows)),
          static_zero_point(rig, {-7}), zero_point(rig, std::vector<int32_t>(rows)),
          sum(rig, std::vector<int32_t>(rows)), q(rig, std::vector<int8_t>(size_t{rows} * dim)),
          bad(rig, std::vector<uint8_t>(rows, rows > 1 ? 2 : 0)) { /* is never cleared */
    }
    quantize_args args(side where, form form, const float *x) {
        bool has_zero_point = form == ASYMMETRIC || form == STATIC_ZERO_POINT;
        bool is_static = form == STATIC || form == STATIC_ZERO_POINT;
        quantize_args args = {};
        args.x = x;
        args.out.q = q.at(where);
        args.out.scale = scale.at(where);
        args.out.zero_point = has_zero_point ? zero_point.at(where) : nullptr;
        args.out.sum = form == WITH_SUM || form == ASYMMETRIC ? sum.at(where) : nullptr;
        args.static_scale = is_static ? static_scale.at(where) : nullptr;
        args.static_zero_point = form == STATIC_ZERO_POINT ? static_zero_point.at(where) : nullptr;
        args.bad = bad.at(where);
        args.rows = rows;
        args.dim = dim;
        return args;
    }
    void same(const char *label) {
        q.same(label);
        scale.same(label);
        zero_point.same(label);
        sum.same(label);
        bad.same(label);
    }
};

/* Rows: all zero, hostile, a NaN, an infinity, a tiny one, one whose range overflows, halves. */
static std::vector<float> rows_to_quantize(uint32_t dim, uint64_t *random) {
    std::vector<float> x(size_t{7} * dim);
    kernel_test_hostile_floats(random, x.data() + dim, dim);
    kernel_test_floats(random, x.data() + 2 * dim, size_t{3} * dim);
    x[2 * dim + dim / 3] = NAN;
    x[3 * dim + dim - 1] = -INFINITY;
    for (uint32_t i = 0; i < dim; i++) {
        x[4 * dim + i] *= 0x1p-103f;
        x[5 * dim + i] = i % 2 == 0 ? 3e38f : -3e38f;
        x[6 * dim + i] = static_cast<float>(i % 255) - 127.0f + (i % 2 == 0 ? 0.5f : 0.0f);
    }
    return x;
}

static void quantize_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t dim : {1u, 15u, 16u, 255u, 256u, 257u, 576u, 4100u}) {
            twin<float> x(rig, rows_to_quantize(dim, &random));
            for (int i = 0; i < FORM_COUNT; i++) {
                int8_rows out(rig, 7, dim);
                auto args = [&](side where) {
                    return out.args(where, static_cast<form>(i), x.at(where));
                };
                RUN_TWINS(rig, reference, quantize, args);
                out.same("quantize");
            }
        }
    });
}

static void rms_norm_quantize_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t dim : {1u, 15u, 16u, 17u, 255u, 256u, 257u, 576u, 4100u}) {
            twin<float> x(rig, rows_to_quantize(dim, &random));
            twin<float> weight(rig, twin_floats(&random, dim));
            twin<int32_t> row_index(rig, {6, 0, 3, 1, 2});
            for (int i = 0; i < FORM_COUNT; i++) {
                int8_rows out(rig, 5, dim);
                auto args = [&](side where) {
                    norm_quantize_args fused = {};
                    fused.norm = {x.at(where),
                                  row_index.at(where),
                                  weight.at(where),
                                  nullptr,
                                  nullptr,
                                  1e-5f,
                                  5,
                                  dim};
                    fused.quantize = out.args(where, static_cast<form>(i), nullptr);
                    return fused;
                };
                RUN_TWINS(rig, reference, rms_norm_quantize, args);
                out.same("rms_norm_quantize");
            }
        }
    });
}

/* Gate and up side by side; exponentials over their whole range. */
static std::vector<float> gates(uint32_t rows, uint32_t dim, uint64_t *random) {
    std::vector<float> gate_up = twin_hostile_floats(random, size_t{2} * rows * dim);
    for (uint32_t t = 0; t < rows; t++) {
        float reach = t % 3 == 0 ? 1.0f : 30.0f;
        for (uint32_t i = 0; i < dim; i++) {
            gate_up[size_t{2} * t * dim + i] *= reach;
        }
    }
    return gate_up;
}

static void silu_mul_quantize_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t dim : {1u, 31u, 256u, 257u, 1537u}) {
            twin<float> gate_up(rig, gates(4, dim, &random));
            for (int i = 0; i < FORM_COUNT; i++) {
                int8_rows out(rig, 4, dim);
                auto args = [&](side where) {
                    glu_quantize_args fused = {};
                    fused.glu = {gate_up.at(where), nullptr, 4, dim};
                    fused.quantize = out.args(where, static_cast<form>(i), nullptr);
                    return fused;
                };
                RUN_TWINS(rig, reference, silu_mul_quantize, args);
                out.same("silu_mul_quantize");
            }
        }
    });
}

/* ---------------------------------------------------------------- element by element */

static const uint32_t SHAPES[][2] = {{1, 1}, {3, 5}, {17, 61}, {2, 1024}, {1, 1025}, {4, 2049}};

static void silu_mul_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (auto [rows, dim] : SHAPES) {
            twin<float> gate_up(rig, gates(rows, dim, &random));
            twin<float> y(rig, std::vector<float>(size_t{rows} * dim));
            uint32_t rows_of = rows, dim_of = dim;
            auto args = [&](side where) {
                return glu_args{gate_up.at(where), y.at(where), rows_of, dim_of};
            };
            RUN_TWINS(rig, reference, silu_mul, args);
            y.same("silu_mul");
        }
    });
}

static void gelu_equals_reference_also_in_place(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (auto [rows, dim] : SHAPES) {
            std::vector<float> values = twin_hostile_floats(&random, size_t{rows} * dim);
            values[0] = NAN;
            twin<float> x(rig, values), y(rig, std::vector<float>(values.size()));
            uint32_t rows_of = rows, dim_of = dim;
            auto apart = [&](side where) {
                return activation_args{x.at(where), y.at(where), rows_of, dim_of};
            };
            RUN_TWINS(rig, reference, gelu, apart);
            y.same("gelu");
            auto in_place = [&](side where) {
                return activation_args{x.at(where), x.at(where), rows_of, dim_of};
            };
            RUN_TWINS(rig, reference, gelu, in_place);
            x.same("gelu in place");
        }
    });
}

static void add_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (auto [rows, dim] : SHAPES) {
            twin<float> x(rig, twin_hostile_floats(&random, size_t{rows} * dim));
            twin<float> y(rig, twin_hostile_floats(&random, size_t{rows} * dim));
            uint32_t rows_of = rows, dim_of = dim;
            auto args = [&](side where) {
                return add_args{x.at(where), y.at(where), rows_of, dim_of};
            };
            RUN_TWINS(rig, reference, add, args);
            x.same("add");
        }
    });
}

/* ---------------------------------------------------------------- arguments */

static void refuses_bad_arguments_and_failed_launches(void **state) {
    rig_each_seed([](rig &rig) {
        int8_rows out(rig, 2, 16);
        twin<float> x(rig, std::vector<float>(64));
        quantize_args good = out.args(ON_DEVICE, SYMMETRIC, x.at(ON_DEVICE)), bad = good;
        bad.bad = nullptr;
        assert_int_equal(cuda_quantize(rig.stream, &bad), KERNELS_INVALID);
        bad = good;
        bad.x = nullptr;
        assert_int_equal(cuda_quantize(rig.stream, &bad), KERNELS_INVALID);
        norm_quantize_args norm = {};
        norm.quantize = good;
        assert_int_equal(cuda_rms_norm_quantize(rig.stream, &norm), KERNELS_INVALID);
        glu_quantize_args glu = {{x.at(ON_DEVICE), nullptr, 2, 0}, good};
        assert_int_equal(cuda_silu_mul_quantize(rig.stream, &glu), KERNELS_INVALID);
        glu.glu.dim = 16;
        assert_int_equal(cuda_silu_mul(rig.stream, &glu.glu), KERNELS_INVALID);
        activation_args gelu = {x.at(ON_DEVICE), nullptr, 1, 1};
        assert_int_equal(cuda_gelu(rig.stream, &gelu), KERNELS_INVALID);
        add_args add = {x.at(ON_DEVICE), x.at(ON_DEVICE) + 32, 0, 32};
        assert_int_equal(cuda_add(rig.stream, &add), KERNELS_INVALID);
        add.rows = 1;
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_add(rig.stream, &add), KERNELS_FAILED);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_silu_mul_quantize(rig.stream, &glu), KERNELS_FAILED);
        assert_int_equal(cuda_quantize(rig.stream, &good), KERNELS_OK);
    });
}

TEST_MAIN(cmocka_unit_test(quantize_equals_reference),
          cmocka_unit_test(rms_norm_quantize_equals_reference),
          cmocka_unit_test(silu_mul_quantize_equals_reference),
          cmocka_unit_test(silu_mul_equals_reference),
          cmocka_unit_test(gelu_equals_reference_also_in_place),
          cmocka_unit_test(add_equals_reference),
          cmocka_unit_test(refuses_bad_arguments_and_failed_launches))
