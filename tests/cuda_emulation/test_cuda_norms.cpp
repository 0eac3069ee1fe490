/* Norms of the CUDA back end equal `reference` by memcmp, on the emulation. */
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda_emulation/twin.h"

static const uint32_t DIMS[] = {1, 15, 16, 17, 255, 256, 257, 576, 4100};

/* Rows: plain, hostile values, a NaN, an infinity, all zero. */
static std::vector<float> hostile_rows(uint32_t dim, uint64_t *random) {
    std::vector<float> x(size_t{5} * dim);
    kernel_test_floats(random, x.data(), dim);
    kernel_test_hostile_floats(random, x.data() + dim, dim);
    kernel_test_floats(random, x.data() + 2 * dim, size_t{2} * dim);
    x[2 * dim + dim / 2] = NAN;
    x[3 * dim + dim - 1] = INFINITY;
    return x;
}

struct norm_case {
    uint32_t dim;
    twin<float> x, weight, bias, y;
    twin<int32_t> row_index;

    norm_case(const rig &rig, uint32_t dim_, uint64_t *random)
        : dim(dim_), x(rig, hostile_rows(dim, random)), weight(rig, twin_floats(random, dim)),
          bias(rig, twin_hostile_floats(random, dim)), y(rig, std::vector<float>(size_t{7} * dim)),
          row_index(rig, {4, 0, 3, 1, 2, 2, 1}) {
    }
    norm_args args(side where, bool indexed, bool biased) {
        norm_args args = {};
        args.x = x.at(where);
        args.row_index = indexed ? row_index.at(where) : nullptr;
        args.weight = weight.at(where);
        args.bias = biased ? bias.at(where) : nullptr;
        args.y = y.at(where);
        args.eps = 1e-5f;
        args.rows = indexed ? 7 : 5;
        args.dim = dim;
        return args;
    }
};

static void rms_norm_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t dim : DIMS) {
            norm_case one(rig, dim, &random);
            for (bool indexed : {false, true}) {
                auto args = [&](side where) { return one.args(where, indexed, false); };
                RUN_TWINS(rig, reference, rms_norm, args);
                one.y.same("rms_norm");
            }
        }
    });
}

static void layer_norm_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t dim : DIMS) {
            norm_case one(rig, dim, &random);
            for (bool biased : {false, true}) {
                auto args = [&](side where) { return one.args(where, biased, biased); };
                RUN_TWINS(rig, reference, layer_norm, args);
                one.y.same("layer_norm");
            }
        }
    });
}

static void check_head_norm_of(rig &rig, const reference_device &reference, uint32_t heads,
                               uint32_t head_dim, uint64_t *random) {
    uint32_t rows = kernel_test_between(random, 1, 5), stride = heads * head_dim + 3;
    std::vector<float> values = twin_hostile_floats(random, size_t{rows} * stride);
    values[head_dim / 2] = NAN;
    values[(rows - 1) * stride + head_dim - 1] = -INFINITY;
    twin<float> x(rig, values), weight(rig, twin_floats(random, head_dim));
    auto args = [&](side where) {
        return head_norm_args{x.at(where), stride, weight.at(where), 1e-6f, rows, heads, head_dim};
    };
    RUN_TWINS(rig, reference, head_norm, args);
    x.same("head_norm");
}

static void head_norm_equals_reference(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t head_dim : {1u, 7u, 16u, 33u, 64u, 80u, 96u, 128u, 257u, 600u}) {
            check_head_norm_of(rig, reference, kernel_test_between(&random, 1, 19), head_dim,
                               &random);
        }
    });
}

static void refuses_bad_arguments_and_failed_launches(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        norm_case one(rig, 16, &random);
        norm_args good = one.args(ON_DEVICE, true, true), bad = good;
        bad.rows = 0;
        assert_int_equal(cuda_rms_norm(rig.stream, &bad), KERNELS_INVALID);
        bad = good;
        bad.y = nullptr;
        assert_int_equal(cuda_layer_norm(rig.stream, &bad), KERNELS_INVALID);
        bad = good;
        bad.dim = KERNELS_K_MAX + 1;
        assert_int_equal(cuda_rms_norm(rig.stream, &bad), KERNELS_INVALID);
        head_norm_args narrow = {one.x.at(ON_DEVICE), 15, one.weight.at(ON_DEVICE), 0.0f, 1, 1, 16};
        assert_int_equal(cuda_head_norm(rig.stream, &narrow), KERNELS_INVALID);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_rms_norm(rig.stream, &good), KERNELS_FAILED);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_layer_norm(rig.stream, &good), KERNELS_FAILED);
    });
}

TEST_MAIN(cmocka_unit_test(rms_norm_equals_reference),
          cmocka_unit_test(layer_norm_equals_reference),
          cmocka_unit_test(head_norm_equals_reference),
          cmocka_unit_test(refuses_bad_arguments_and_failed_launches))
