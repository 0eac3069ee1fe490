/* Kernels of the CUDA back end equal `reference` by memcmp, on the emulation. */
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/device.h"
#include "tests/cuda_emulation/rig.h"
extern "C" {
#include "tests/support/kernel_test.h"
}

enum form { SYMMETRIC, WITH_SUM, ASYMMETRIC, STATIC, STATIC_ZERO_POINT, FORM_COUNT };

struct inputs {
    uint32_t rows, dim;
    std::vector<float> x, weight, static_scale;
    std::vector<int32_t> row_index, static_zero_point;
};

/* What an op wrote; scale by bits. */
struct outputs {
    std::vector<int8_t> q;
    std::vector<float> scale;
    std::vector<int32_t> zero_point, sum;
    std::vector<uint8_t> bad;
};

/* Where the arrays of one side are: the host's, or the device's. */
struct places {
    float *x, *weight, *static_scale, *scale;
    int32_t *row_index, *static_zero_point, *zero_point, *sum;
    int8_t *q;
    uint8_t *bad;
};

static norm_quantize_args arguments(const inputs &in, const places &at, form form) {
    bool has_zero_point = form == ASYMMETRIC || form == STATIC_ZERO_POINT;
    norm_quantize_args args = {};
    args.norm.x = at.x;
    args.norm.row_index = at.row_index;
    args.norm.weight = at.weight;
    args.norm.eps = 1e-5f;
    args.norm.rows = in.rows;
    args.norm.dim = in.dim;
    args.quantize.out.q = at.q;
    args.quantize.out.scale = at.scale;
    args.quantize.out.zero_point = has_zero_point ? at.zero_point : nullptr;
    args.quantize.out.sum = form == WITH_SUM || form == ASYMMETRIC ? at.sum : nullptr;
    args.quantize.static_scale =
        form == STATIC || form == STATIC_ZERO_POINT ? at.static_scale : nullptr;
    args.quantize.static_zero_point = form == STATIC_ZERO_POINT ? at.static_zero_point : nullptr;
    args.quantize.bad = at.bad;
    return args;
}

static outputs fresh_outputs(const inputs &in) {
    outputs out = {std::vector<int8_t>(size_t{in.rows} * in.dim), std::vector<float>(in.rows),
                   std::vector<int32_t>(in.rows), std::vector<int32_t>(in.rows),
                   std::vector<uint8_t>(in.rows)};
    out.bad[0] = 1; /* is never cleared */
    return out;
}

static outputs by_reference(inputs in, form form) {
    struct device_options options = {"cpu", "reference", 1};
    struct device *device = nullptr;
    char err[256];
    assert_int_equal(device_open(&options, &device, err, sizeof err), KERNELS_OK);
    device_enter_thread(device);
    outputs out = fresh_outputs(in);
    places at = {in.x.data(),           in.weight.data(),    in.static_scale.data(),
                 out.scale.data(),      in.row_index.data(), in.static_zero_point.data(),
                 out.zero_point.data(), out.sum.data(),      out.q.data(),
                 out.bad.data()};
    norm_quantize_args args = arguments(in, at, form);
    assert_int_equal(device_ops(device)->rms_norm_quantize(device, &args), KERNELS_OK);
    device_close(device);
    return out;
}

static outputs by_cuda(const rig &rig, const inputs &in, form form) {
    outputs out = fresh_outputs(in);
    places at = {rig_memory_of(rig, in.x),
                 rig_memory_of(rig, in.weight),
                 rig_memory_of(rig, in.static_scale),
                 rig_memory_of(rig, out.scale),
                 rig_memory_of(rig, in.row_index),
                 rig_memory_of(rig, in.static_zero_point),
                 rig_memory_of(rig, out.zero_point),
                 rig_memory_of(rig, out.sum),
                 rig_memory_of(rig, out.q),
                 rig_memory_of(rig, out.bad)};
    norm_quantize_args args = arguments(in, at, form);
    assert_int_equal(cuda_rms_norm_quantize(rig.stream, &args), KERNELS_OK);
    out.q = rig_take(rig, at.q, out.q.size());
    out.scale = rig_take(rig, at.scale, in.rows);
    out.zero_point = rig_take(rig, at.zero_point, in.rows);
    out.sum = rig_take(rig, at.sum, in.rows);
    out.bad = rig_take(rig, at.bad, in.rows);
    assert_cuda(cudaFree(at.x));
    assert_cuda(cudaFree(at.weight));
    assert_cuda(cudaFree(at.static_scale));
    assert_cuda(cudaFree(at.row_index));
    assert_cuda(cudaFree(at.static_zero_point));
    return out;
}

/* Rows: plain, hostile values, a NaN, an infinity, all zero; read in another order. */
static inputs pose(uint32_t dim, uint64_t *random) {
    enum { ROWS = 5 };
    inputs in = {ROWS,
                 dim,
                 std::vector<float>(size_t{ROWS} * dim),
                 std::vector<float>(dim),
                 {0.03f},
                 {4, 0, 3, 1, 2},
                 {-7}};
    kernel_test_floats(random, in.x.data(), dim);
    kernel_test_hostile_floats(random, in.x.data() + dim, dim);
    kernel_test_floats(random, in.x.data() + 2 * dim, size_t{2} * dim);
    in.x[2 * dim + dim / 2] = NAN;
    in.x[3 * dim + dim - 1] = INFINITY;
    kernel_test_floats(random, in.weight.data(), dim);
    return in;
}

static void rms_norm_quantize_equals_reference(void **state) {
    static const uint32_t dims[] = {1, 15, 16, 17, 255, 256, 257, 576, 4100};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        for (uint32_t dim : dims) {
            inputs in = pose(dim, &random);
            for (int i = 0; i < FORM_COUNT; i++) {
                outputs wanted = by_reference(in, static_cast<form>(i));
                outputs got = by_cuda(rig, in, static_cast<form>(i));
                assert_true(got.q == wanted.q);
                assert_memory_equal(got.scale.data(), wanted.scale.data(), in.rows * sizeof(float));
                assert_true(got.zero_point == wanted.zero_point);
                assert_true(got.sum == wanted.sum);
                assert_true(got.bad == wanted.bad);
            }
        }
    });
}

static void refuses_bad_arguments_and_failed_launches(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        inputs in = pose(16, &random);
        outputs out = fresh_outputs(in);
        places at = {};
        norm_quantize_args args = arguments(in, at, SYMMETRIC);
        assert_int_equal(cuda_rms_norm_quantize(rig.stream, &args), KERNELS_INVALID);
        at = {in.x.data(), in.weight.data(), nullptr, out.scale.data(), nullptr,
              nullptr,     nullptr,          nullptr, out.q.data(),     out.bad.data()};
        args = arguments(in, at, SYMMETRIC);
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        assert_int_equal(cuda_rms_norm_quantize(rig.stream, &args), KERNELS_FAILED);
    });
}

TEST_MAIN(cmocka_unit_test(rms_norm_quantize_equals_reference),
          cmocka_unit_test(refuses_bad_arguments_and_failed_launches))
