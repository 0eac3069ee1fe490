/* gemm_i8, dequantize and linear_i8 of the CUDA back end equal `reference` by memcmp, on the
 * emulation, whichever kernel does them. */
#include <cmath>
#include <cstdio>

#include "tests/cuda_emulation/linears_rig.h"
extern "C" {
#include "tests/support/kernel_int8.h"
}

/* How a problem is computed. */
struct way {
    bool has_plan;       /* else kernels of ours do what cuBLASLt would */
    uint32_t misaligned; /* bytes that activations, words that sums are away from 16 */
};

/* A problem with its answer by `reference`. */
struct posed {
    reference_device reference;
    kernel_int8 problem;
    std::vector<int32_t> sum;
    std::vector<float> y;
    size_t outputs;

    posed(const kernel_int8_shape &shape, uint64_t *random) : problem(), outputs() {
        kernel_int8_init(&problem, &shape, random);
        outputs = size_t{shape.rows} * shape.n;
        solve();
    }
    ~posed() {
        kernel_int8_deinit(&problem);
    }
    posed(const posed &) = delete;
    posed &operator=(const posed &) = delete;

    const float *residual() const {
        return problem.shape.residual ? problem.residual : nullptr;
    }
    void solve() {
        const kernel_test test = {reference.device(), &reference.ops(), "reference"};
        weight weight = kernel_int8_weight(&test, &problem);
        sum.resize(outputs * problem.groups);
        y.resize(outputs);
        const gemm_i8_args gemm = {problem.x, &weight, sum.data(), {}, problem.shape.rows};
        assert_int_equal(test.ops->gemm_i8(test.device, &gemm), KERNELS_OK);
        const linear_i8_args linear = {problem.x, &weight, residual(),
                                       y.data(),  {},      problem.shape.rows};
        assert_int_equal(test.ops->linear_i8(test.device, &linear), KERNELS_OK);
        kernel_test_weight_free(&test, &weight);
    }
};

template <typename T> static T *to_device(const rig &rig, const T *values, size_t count) {
    return values != nullptr ? rig_memory_of(rig, std::vector<T>(values, values + count)) : nullptr;
}

/* The problem on the emulated device. */
struct placed {
    const rig &device;
    linears_blas blas;
    weight w;
    int8_t *q_memory;
    int32_t *sum_memory;
    quantized x;
    int32_t *sum;
    float *residual, *y;
    kernels_workspace workspace;

    placed(const rig &rig, const posed &from, const way &way)
        : device(rig), w(), q_memory(), sum_memory(), x(), sum(), residual(), y(), workspace() {
        const kernel_int8 &p = from.problem;
        const kernel_int8_shape &s = p.shape;
        const weight_source source = {p.weights,
                                      p.weight_scale,
                                      s.weight_zero_point ? p.weight_zero : nullptr,
                                      s.bias ? p.bias : nullptr,
                                      0.5f,
                                      0};
        w = linears_weight(rig, blas.blas, p.form, source,
                           way.has_plan ? std::vector<uint32_t>{1, 8, s.rows, s.rows}
                                        : std::vector<uint32_t>{});
        std::vector<int8_t> q(way.misaligned + size_t{s.rows} * s.k);
        memcpy(q.data() + way.misaligned, p.x.q, size_t{s.rows} * s.k);
        q_memory = rig_memory_of(rig, q);
        x = {q_memory + way.misaligned, to_device(rig, p.x.scale, s.rows),
             to_device(rig, p.x.zero_point, s.rows), to_device(rig, p.x.sum, s.rows)};
        sum_memory = rig_memory<int32_t>(way.misaligned + from.sum.size());
        sum = sum_memory + way.misaligned;
        residual = to_device(rig, from.residual(), from.outputs);
        y = rig_memory<float>(from.outputs);
        kernels_shape shape = {};
        shape.rows_max = s.rows, shape.n_max = s.n, shape.k_max = s.k;
        workspace = linears_workspace(cuda_linear_i8_workspace_bytes(&shape));
    }
    ~placed() {
        void *all[] = {q_memory, x.scale, x.zero_point,  x.sum, sum_memory,
                       residual, y,       workspace.data};
        for (void *memory : all) {
            assert_cuda(cudaFree(memory));
        }
        linears_weight_free(blas.blas, &w);
    }
    placed(const placed &) = delete;
    placed &operator=(const placed &) = delete;

    gemm_i8_args gemm(uint32_t rows) const {
        return {x, &w, sum, workspace, rows};
    }
    dequantize_args dequantize(uint32_t rows) const {
        return {sum, x, &w, residual, y, rows};
    }
    linear_i8_args linear(uint32_t rows) const {
        return {x, &w, residual, y, workspace, rows};
    }
    template <typename T> std::vector<T> read(const T *from, size_t count) const {
        std::vector<T> values(count);
        assert_cuda(cudaGetLastError());
        assert_cuda(cudaMemcpyAsync(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost,
                                    device.stream));
        return values;
    }
};

static void check(const rig &rig, const posed &wanted, const way &way) {
    const kernel_int8_shape &s = wanted.problem.shape;
    char label[128];
    snprintf(label, sizeof label, "%u x %u x %u, groups of %u, %s, off by %u", s.rows, s.n, s.k,
             s.group_size, way.has_plan ? "planned" : "no plan", way.misaligned);
    placed at(rig, wanted, way);
    const gemm_i8_args gemm = at.gemm(s.rows);
    const dequantize_args dequantize = at.dequantize(s.rows);
    const linear_i8_args linear = at.linear(s.rows);
    assert_int_equal(cuda_gemm_i8(at.blas.blas, rig.stream, &gemm), KERNELS_OK);
    assert_int_equal(cuda_dequantize(rig.stream, &dequantize), KERNELS_OK);
    kernel_test_same_bytes(at.read(at.sum, wanted.sum.size()).data(), wanted.sum.data(),
                           wanted.sum.size() * sizeof(int32_t), label);
    linears_same(at.read(at.y, wanted.outputs), wanted.y, label);
    assert_cuda(cudaMemsetAsync(at.y, 0xEE, wanted.outputs * sizeof(float), rig.stream));
    assert_int_equal(cuda_linear_i8(at.blas.blas, rig.stream, &linear), KERNELS_OK);
    linears_same(at.read(at.y, wanted.outputs), wanted.y, label);
}

static kernel_int8_shape shape_of(uint32_t rows, uint32_t n, uint32_t k) {
    kernel_int8_shape shape = {};
    shape.rows = rows, shape.n = n, shape.k = k;
    shape.activation = ACTIVATION_PER_TOKEN;
    return shape;
}

static void equal_reference_for_1_to_17_rows(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        for (uint32_t rows = 1; rows <= 17; rows++) {
            kernel_int8_shape shape = shape_of(rows, 71, 53);
            shape.bias = rows % 2 != 0;
            shape.residual = rows % 3 == 0;
            check(rig, posed(shape, &random), {rows % 4 != 0, 0});
        }
    });
}

static void equal_reference_for_every_row_bucket(void **state) {
    static const uint32_t ks[] = {16, 24, 64, 31};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        for (uint32_t rows = 1; rows <= 2048; rows *= 2) {
            kernel_int8_shape shape = shape_of(rows, rows % 3 == 1 ? 16 : 21, ks[rows % 5 % 4]);
            shape.residual = true;
            check(rig, posed(shape, &random), {true, 0});
        }
    });
}

/* Whole slices, and what is left for either kind of kernel. */
static void equal_reference_for_more_rows_than_a_slice(void **state) {
    static const uint32_t rows[] = {1025, 1024 + 9, 2048 + 40};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 2;
        for (uint32_t count : rows) {
            kernel_int8_shape shape = shape_of(count, 5, 17);
            shape.activation_zero_point = shape.weight_zero_point = shape.residual = true;
            check(rig, posed(shape, &random), {true, 0});
        }
    });
}

static void equal_reference_for_shapes_of_no_round_number(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 3;
        for (uint32_t i = 0; i < 24; i++) {
            kernel_int8_shape shape =
                shape_of(kernel_test_between(&random, 1, 70), kernel_test_between(&random, 1, 256),
                         kernel_test_between(&random, 1, 256));
            shape.bias = i % 3 == 0;
            shape.residual = i % 2 == 0;
            check(rig, posed(shape, &random), {i % 4 < 2, 0});
        }
    });
}

static void equal_reference_at_addresses_of_no_round_number(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 4;
        for (uint32_t misaligned : {1u, 4u, 15u}) {
            for (uint32_t rows : {3u, 20u}) {
                check(rig, posed(shape_of(rows, 32, 48), &random), {true, misaligned});
            }
        }
    });
}

static void equal_reference_for_zero_points_groups_and_static_scales(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 5;
        for (uint32_t i = 0; i < 64; i++) {
            kernel_int8_shape shape = shape_of(1 + i * 7 % 40, 33, 100);
            shape.activation = i % 8 < 3 ? ACTIVATION_STATIC : ACTIVATION_PER_TOKEN;
            shape.activation_zero_point = i % 2 != 0;
            shape.bias = i / 2 % 2 != 0;
            shape.residual = i / 4 % 2 != 0;
            if (i / 8 % 2 != 0) {
                static const uint32_t sizes[] = {16, 32, 48, 96, 99, 100, 128};
                shape.group_size = sizes[i % 7];
                shape.group_size = shape.group_size == 99 ? 112 : shape.group_size;
            } else {
                shape.weight_zero_point = i / 16 % 2 != 0;
            }
            check(rig, posed(shape, &random), {i % 3 != 0, 0});
        }
    });
}

static void equal_reference_for_the_largest_values_and_longest_sums(void **state) {
    static const kernel_int8_shape shapes[] = {shape_of(8, 48, 256), shape_of(20, 48, 256),
                                               shape_of(2, 3, KERNELS_K_MAX),
                                               shape_of(9, 3, KERNELS_K_MAX / 8 - 1)};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 6;
        for (kernel_int8_shape shape : shapes) {
            for (bool has_plan : {true, false}) {
                shape.extreme = true;
                check(rig, posed(shape, &random), {has_plan, 0});
            }
        }
    });
}

/* One value throughout, so that nothing cancels. */
static void equal_reference_where_nothing_cancels(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 7;
        for (int sign : {-127, 127}) {
            for (uint32_t rows : {4u, 18u}) {
                posed wanted(shape_of(rows, 18, 1024), &random);
                memset(wanted.problem.weights, -128, size_t{18} * 1024);
                memset(wanted.problem.x.q, sign, size_t{rows} * 1024);
                wanted.solve();
                assert_int_equal(wanted.sum[0], -128 * sign * 1024);
                check(rig, wanted, {true, 0});
                check(rig, wanted, {false, 0});
            }
        }
    });
}

static void keep_bad_rows_to_themselves(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 8;
        for (uint32_t rows : {5u, 24u}) {
            kernel_int8_shape shape = shape_of(rows, 40, 64);
            shape.bias = shape.residual = true;
            posed wanted(shape, &random);
            wanted.problem.x.scale[1] = NAN;
            wanted.problem.x.scale[2] = INFINITY;
            wanted.problem.residual[3 * 40 + 7] = NAN;
            wanted.problem.x.scale[4] = 0.0f;
            wanted.solve();
            check(rig, wanted, {true, 0});
        }
    });
}

static void take_the_residual_in_place(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 9;
        for (uint32_t rows : {6u, 30u}) {
            for (bool has_plan : {true, false}) {
                kernel_int8_shape shape = shape_of(rows, 37, 45);
                shape.residual = true;
                posed wanted(shape, &random);
                placed at(rig, wanted, {has_plan, 0});
                linear_i8_args args = at.linear(rows);
                args.y = at.residual;
                assert_int_equal(cuda_linear_i8(at.blas.blas, rig.stream, &args), KERNELS_OK);
                linears_same(at.read(at.residual, wanted.outputs), wanted.y, "in place");
            }
        }
    });
}

/* ---------------------------------------------------------------- refusals and failures */

static void fall_to_kernels_of_ours_where_the_card_takes_no_such_shape(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 10;
        posed wanted(shape_of(20, 32, 32), &random);
        for (int bucket = 0; bucket < 2; bucket++) { /* the same one twice */
            emulation_fail_call("cublasLtMatmulAlgoGetHeuristic", 1, CUBLAS_STATUS_NOT_SUPPORTED);
        }
        emulation_fail_call("cublasLtMatmul", 1, CUBLAS_STATUS_INTERNAL_ERROR); /* is not called */
        check(rig, wanted, {true, 0});
        placed at(rig, wanted, {true, 0});
        const linear_i8_args linear = at.linear(20);
        assert_int_equal(cuda_linear_i8(at.blas.blas, rig.stream, &linear), KERNELS_FAILED);
    });
}

static void say_when_a_launch_fails(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 11;
        for (uint32_t n : {16u, 21u}) {
            posed wanted(shape_of(20, n, 21), &random); /* pad, multiply, dequantize */
            placed at(rig, wanted, {true, 0}), plain(rig, wanted, {false, 0});
            const linear_i8_args linear = at.linear(20), by_dp4a = plain.linear(20);
            const dequantize_args dequantize = at.dequantize(20);
            for (unsigned nth = 1; nth <= 2; nth++) {
                emulation_fail_call("launch", nth, cudaErrorLaunchFailure);
                assert_int_equal(cuda_linear_i8(at.blas.blas, rig.stream, &linear), KERNELS_FAILED);
                emulation_fail_call("launch", nth, cudaErrorLaunchFailure);
                assert_int_equal(cuda_linear_i8(plain.blas.blas, rig.stream, &by_dp4a),
                                 KERNELS_FAILED);
            }
            emulation_fail_call("cublasLtMatmul", 1, CUBLAS_STATUS_EXECUTION_FAILED);
            const gemm_i8_args gemm = at.gemm(20);
            assert_int_equal(cuda_gemm_i8(at.blas.blas, rig.stream, &gemm), KERNELS_FAILED);
            emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
            assert_int_equal(cuda_dequantize(rig.stream, &dequantize), KERNELS_FAILED);
            assert_cuda(cudaStreamSynchronize(rig.stream));
        }
    });
}

static void refuse_arguments_that_break_the_contract(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 12;
        posed wanted(shape_of(2, 16, 8), &random);
        placed at(rig, wanted, {true, 0});
        weight floats = at.w;
        floats.form.type = ELEMENT_F32;
        const linear_i8_args good = at.linear(2);
        linear_i8_args bad[8] = {good, good, good, good, good, good, good, good};
        bad[0].rows = 0;
        bad[1].x.q = nullptr;
        bad[2].x.scale = nullptr;
        bad[3].weight = &floats;
        bad[4].y = nullptr;
        bad[5].x.zero_point = at.x.sum; /* the form has none */
        bad[6].workspace.bytes--;
        bad[7].workspace.data = static_cast<char *>(good.workspace.data) + 16;
        for (const linear_i8_args &one : bad) {
            assert_int_equal(cuda_linear_i8(at.blas.blas, rig.stream, &one), KERNELS_INVALID);
        }
        gemm_i8_args gemm = at.gemm(2);
        gemm.sum = nullptr;
        assert_int_equal(cuda_gemm_i8(at.blas.blas, rig.stream, &gemm), KERNELS_INVALID);
        dequantize_args dequantize = at.dequantize(2);
        dequantize.sum = nullptr;
        assert_int_equal(cuda_dequantize(rig.stream, &dequantize), KERNELS_INVALID);
    });
}

TEST_MAIN(cmocka_unit_test(equal_reference_for_1_to_17_rows),
          cmocka_unit_test(equal_reference_for_every_row_bucket),
          cmocka_unit_test(equal_reference_for_more_rows_than_a_slice),
          cmocka_unit_test(equal_reference_for_shapes_of_no_round_number),
          cmocka_unit_test(equal_reference_at_addresses_of_no_round_number),
          cmocka_unit_test(equal_reference_for_zero_points_groups_and_static_scales),
          cmocka_unit_test(equal_reference_for_the_largest_values_and_longest_sums),
          cmocka_unit_test(equal_reference_where_nothing_cancels),
          cmocka_unit_test(keep_bad_rows_to_themselves),
          cmocka_unit_test(take_the_residual_in_place),
          cmocka_unit_test(fall_to_kernels_of_ours_where_the_card_takes_no_such_shape),
          cmocka_unit_test(say_when_a_launch_fails),
          cmocka_unit_test(refuse_arguments_that_break_the_contract))
