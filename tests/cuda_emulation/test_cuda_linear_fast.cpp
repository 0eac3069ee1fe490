/* Weights of the fast form on the CUDA back end: rows have the same bytes whoever stands beside
 * them, outputs are as near to `reference` as kernels/ops.h says and are not its bits, overflow is
 * found. */
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/canonical.h"
#include "kernels/cuda/linear_fast.h"
#include "tests/cuda_emulation/linears_rig.h"

/* One weight: fast on the device, plain for `reference`, and its values for bounds. */
struct fast_weight {
    reference_device reference;
    kernel_test test;
    linears_blas blas;
    std::vector<float> values, bias; /* [N, K], as F16 holds them; [N] */
    weight on_host, on_device;
    kernels_workspace workspace;

    fast_weight(const rig &rig, uint32_t n, uint32_t k, bool has_bias, uint64_t *random)
        : test{reference.device(), &reference.ops(), "reference"},
          values(twin_floats(random, size_t{n} * k)), bias(twin_floats(random, n)), on_host(),
          on_device(), workspace(linears_workspace(cuda_linear_fast_bytes(n, k))) {
        std::vector<uint16_t> halves(values.size());
        for (size_t i = 0; i < values.size(); i++) {
            halves[i] = canonical_f32_to_f16(values[i]);
            values[i] = canonical_f16_to_f32(halves[i]);
        }
        weight_form form = {};
        form.type = ELEMENT_F16, form.n = n, form.k = k, form.bias = has_bias;
        weight_source source = {};
        source.values = halves.data();
        source.bias = has_bias ? bias.data() : nullptr;
        on_host = kernel_test_weight(&test, &form, &source);
        form.fast = true;
        on_device = linears_weight(rig, blas.blas, form, source, {1, 16});
    }
    ~fast_weight() {
        kernel_test_weight_free(&test, &on_host);
        linears_weight_free(blas.blas, &on_device);
        assert_cuda(cudaFree(workspace.data));
    }
    fast_weight(const fast_weight &) = delete;
    fast_weight &operator=(const fast_weight &) = delete;

    uint32_t n() const {
        return on_host.form.n;
    }
    uint32_t k() const {
        return on_host.form.k;
    }
    linear_f32_args args(const float *x, const float *residual, float *y, uint32_t rows) const {
        return {x, &on_device, residual, y, workspace, rows};
    }
};

static std::vector<float> run(const rig &rig, const fast_weight &w, const std::vector<float> &x,
                              const std::vector<float> &residual) {
    auto rows = static_cast<uint32_t>(x.size() / w.k());
    float *dx = rig_memory_of(rig, x), *dy = rig_memory<float>(size_t{rows} * w.n());
    float *dr = residual.empty() ? nullptr : rig_memory_of(rig, residual);
    const linear_f32_args args = w.args(dx, dr, dy, rows);
    assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &args), KERNELS_OK);
    std::vector<float> y = rig_take(rig, dy, size_t{rows} * w.n());
    assert_cuda(cudaFree(dx));
    assert_cuda(cudaFree(dr));
    return y;
}

static std::vector<float> run_reference(const fast_weight &w, const std::vector<float> &x,
                                        const std::vector<float> &residual) {
    auto rows = static_cast<uint32_t>(x.size() / w.k());
    std::vector<float> y(size_t{rows} * w.n());
    const linear_f32_args args = {
        x.data(), &w.on_host, residual.empty() ? nullptr : residual.data(), y.data(), {}, rows};
    assert_int_equal(w.reference.ops().linear_f32(w.reference.device(), &args), KERNELS_OK);
    return y;
}

/* ---------------------------------------------------------------- nearness */

/* How far an output may lie from `reference`: x loses at most 2^-11 of itself, or 2^-25 where it is
 * smaller than F16's normal numbers, to its rounding; and each of K additions, of either side, at
 * most 2^-23 of the sum of magnitudes (2^-24 where it rounds to nearest; tensor cores cut off).
 * Bias and residual are two more. */
static double bound_of(const fast_weight &w, const float *x, uint32_t n, double others) {
    double rounded = 0, sum = others;
    for (uint32_t k = 0; k < w.k(); k++) {
        double weight = std::fabs(double{w.values[size_t{n} * w.k() + k]});
        double magnitude = std::fabs(double{x[k]});
        rounded += (magnitude * 0x1p-11 + 0x1p-25) * weight;
        sum += magnitude * (1 + 0x1p-11) * weight;
    }
    return rounded + 2 * (w.k() + 2) * 0x1p-23 * sum;
}

/* Counts outputs whose bits are not those of `reference`. */
static size_t check_near(const rig &rig, uint32_t rows, uint32_t n, uint32_t k, bool has_bias,
                         bool has_residual, uint64_t *random) {
    fast_weight w(rig, n, k, has_bias, random);
    std::vector<float> x = twin_floats(random, size_t{rows} * k), residual;
    if (has_residual) {
        residual = twin_floats(random, size_t{rows} * n);
    }
    std::vector<float> got = run(rig, w, x, residual), wanted = run_reference(w, x, residual);
    size_t different = 0;
    for (size_t i = 0; i < got.size(); i++) {
        auto at = static_cast<uint32_t>(i % n);
        double others = (has_bias ? std::fabs(double{w.bias[at]}) : 0) +
                        (has_residual ? std::fabs(double{residual[i]}) : 0);
        double bound = bound_of(w, &x[i / n * k], at, others);
        double off = std::fabs(double{got[i]} - double{wanted[i]});
        different += off != 0;
        if (!(off <= bound)) {
            fail_msg("%u x %u x %u: output %zu is %g, reference %g, bound %g", rows, n, k, i,
                     double{got[i]}, double{wanted[i]}, bound);
        }
    }
    return different;
}

static void is_as_near_to_reference_as_the_contract_says(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        size_t different = 0;
        for (uint32_t i = 0; i < 12; i++) {
            different += check_near(
                rig, kernel_test_between(&random, 1, 70), kernel_test_between(&random, 1, 130),
                kernel_test_between(&random, 1, 256), i % 2 == 0, i % 3 == 0, &random);
        }
        different += check_near(rig, 64, 48, 64, false, false, &random); /* straight to y */
        assert_true(different > 0); /* it is not the canonical chain */
    });
}

/* Rounding x is not all that differs: the order of the sums does, too. */
static void sums_in_an_order_of_its_own(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        fast_weight w(rig, 64, 200, false, &random);
        std::vector<float> x = twin_floats(&random, 200);
        for (float &one : x) {
            one = canonical_f16_to_f32(canonical_f32_to_f16(one));
        }
        if (emulation_is_there()) {
            assert_true(run(rig, w, x, {}) != run_reference(w, x, {}));
        }
    });
}

/* ---------------------------------------------------------------- whoever stands beside */

static void gives_a_row_the_same_bytes_alone_and_among_1_to_200_others(void **state) {
    static const uint32_t counts[] = {2, 8, 9, 63, 64, 65, 128, 129, 200, 201};
    rig_each_seed([](rig &rig) {
        const uint32_t n = 40, k = 72;
        uint64_t random = test_seed() + 2;
        fast_weight w(rig, n, k, true, &random);
        std::vector<float> row = twin_floats(&random, k), alone = run(rig, w, row, {});
        for (uint32_t count : counts) {
            uint32_t at = kernel_test_between(&random, 0, count - 1);
            std::vector<float> x = twin_hostile_floats(&random, size_t{count} * k);
            std::copy(row.begin(), row.end(), x.begin() + at * k);
            std::vector<float> y = run(rig, w, x, {});
            linears_same({y.begin() + at * n, y.begin() + (at + 1) * n}, alone, "a row");
        }
    });
}

/* What the fixed plan is for: the library's sums do depend on how many rows it is given. */
static void would_give_other_bytes_by_a_plan_of_other_rows(void **state) {
    rig_each_seed([](rig &rig) {
        const uint32_t n = 64, k = 192, rows = 32;
        uint64_t random = test_seed() + 3;
        fast_weight w(rig, n, k, false, &random);
        std::vector<float> x = twin_floats(&random, size_t{rows} * k);
        std::vector<uint16_t> halves(x.size());
        for (size_t i = 0; i < x.size(); i++) {
            halves[i] = canonical_f32_to_f16(x[i]);
        }
        cuda_blas_plan *plan = nullptr;
        char err[256] = "";
        assert_int_equal(
            cuda_blas_plan_open(w.blas.blas, CUDA_BLAS_F16, n, k, rows, &plan, err, sizeof err),
            KERNELS_OK);
        uint16_t *dx = rig_memory_of(rig, halves);
        float *dy = rig_memory<float>(size_t{rows} * n);
        kernels_workspace workspace = linears_workspace(cuda_blas_workspace_bytes());
        assert_int_equal(cuda_blas_multiply(w.blas.blas, plan, w.on_device.packed, dx, dy,
                                            workspace.data, rig.stream),
                         KERNELS_OK);
        std::vector<float> y = rig_take(rig, dy, size_t{rows} * n);
        assert_true(!emulation_is_there() || y != run(rig, w, x, {}));
        cuda_blas_plan_close(w.blas.blas, plan);
        assert_cuda(cudaFree(dx));
        assert_cuda(cudaFree(workspace.data));
    });
}

/* ---------------------------------------------------------------- overflow */

/* Rows 1 and 4 do not fit into F16: one by a value, one by an infinity. */
static void spoils_every_output_of_a_row_that_overflows_and_no_other(void **state) {
    rig_each_seed([](rig &rig) {
        const uint32_t n = 35, k = 50, rows = 6;
        uint64_t random = test_seed() + 4;
        fast_weight w(rig, n, k, true, &random);
        std::vector<float> x = twin_floats(&random, rows * k);
        std::vector<float> before = run(rig, w, x, {});
        x[1 * k + 7] = 65520.0f, x[4 * k + 49] = -INFINITY, x[5 * k + 3] = 65519.0f;
        std::vector<float> y = run(rig, w, x, {});
        for (size_t i = 0; i < y.size(); i++) {
            bool is_bad = i / n == 1 || i / n == 4;
            assert_true(std::isfinite(y[i]) != is_bad);
            assert_true(is_bad || i / n == 5 || y[i] == before[i]);
        }
    });
}

struct greedy {
    twin<float> plain, one;
    twin<uint32_t> none, off;
    twin<uint64_t> seed;
    twin<int32_t> seen_begin, token;
    twin<uint8_t> bad;

    greedy(const rig &rig, uint32_t rows)
        : plain(rig, std::vector<float>(rows, 0.0f)), one(rig, std::vector<float>(rows, 1.0f)),
          none(rig, std::vector<uint32_t>(rows, 0)), off(rig, std::vector<uint32_t>(rows, 65536)),
          seed(rig, std::vector<uint64_t>(rows, 1)),
          seen_begin(rig, std::vector<int32_t>(rows + 1, 0)),
          token(rig, std::vector<int32_t>(rows, 0)), bad(rig, std::vector<uint8_t>(rows, 0)) {
    }

    head_sample_args at(side where, const float *x, const weight *head, kernels_workspace workspace,
                        uint32_t rows) {
        head_sample_args args = {};
        args.x = x, args.weight = head, args.workspace = workspace, args.rows = rows;
        args.params = {plain.at(where), none.at(where),       off.at(where),   none.at(where),
                       one.at(where),   plain.at(where),      plain.at(where), seed.at(where),
                       seed.at(where),  seen_begin.at(where), nullptr,         nullptr};
        args.token = token.at(where), args.bad = bad.at(where);
        return args;
    }
};

template <typename T> static std::vector<T> copy_of(const rig &rig, const T *memory, size_t count) {
    std::vector<T> values(count);
    assert_cuda(cudaMemcpyAsync(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost,
                                rig.stream));
    assert_cuda(cudaStreamSynchronize(rig.stream));
    return values;
}

/* The first largest logit, as the op makes them. */
static int32_t largest_of(const std::vector<float> &logits, uint32_t n, uint32_t t) {
    auto first = logits.begin() + t * n;
    return static_cast<int32_t>(std::max_element(first, first + n) - first);
}

static void chooses_by_its_own_logits_and_marks_a_row_that_overflows(void **state) {
    rig_each_seed([](rig &rig) {
        const uint32_t n = 67, k = 40;
        uint64_t random = test_seed() + 5;
        fast_weight w(rig, n, k, false, &random);
        for (uint32_t rows : {1u, 5u, 150u}) { /* 150: more than a slice */
            std::vector<float> x = twin_floats(&random, size_t{rows} * k);
            std::vector<float> logits = run(rig, w, x, {});
            uint32_t over = rows > 3 ? 3 : rows;
            if (over < rows) {
                x[over * k + 11] = -70000.0f;
            }
            float *dx = rig_memory_of(rig, x);
            kernels_shape shape = {};
            shape.sampled_max = rows, shape.vocabulary = n, shape.dim = k, shape.fast = true;
            kernels_workspace workspace = linears_workspace(cuda_head_sample_bytes(&shape));
            greedy way(rig, rows);
            head_sample_args args = way.at(ON_DEVICE, dx, &w.on_device, workspace, rows);
            assert_int_equal(cuda_head_sample(w.blas.blas, rig.stream, &args), KERNELS_OK);
            std::vector<int32_t> token = copy_of(rig, way.token.at(ON_DEVICE), rows);
            std::vector<uint8_t> bad = copy_of(rig, way.bad.at(ON_DEVICE), rows);
            for (uint32_t t = 0; t < rows; t++) {
                assert_int_equal(bad[t], t == over);
                assert_int_equal(token[t], t == over ? 0 : largest_of(logits, n, t));
            }
            args.workspace.bytes--;
            assert_int_equal(cuda_head_sample(w.blas.blas, rig.stream, &args), KERNELS_INVALID);
            assert_cuda(cudaFree(dx));
            assert_cuda(cudaFree(workspace.data));
        }
    });
}

/* ---------------------------------------------------------------- embedding */

static void embeds_the_bits_of_reference_out_of_the_same_table(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 6;
        for (uint32_t k : {1u, 8u, 37u, 144u}) {
            fast_weight w(rig, 51, k, false, &random);
            twin<int32_t> token(rig, {50, 0, 17});
            twin<float> x(rig, std::vector<float>(size_t{3} * k));
            auto arguments = [&](side where) -> embed_args {
                return {token.at(where), where == ON_HOST ? &w.on_host : &w.on_device, x.at(where),
                        3};
            };
            RUN_TWINS(rig, w.reference, embed, arguments);
            x.same("embed");
        }
    });
}

/* ---------------------------------------------------------------- refusals */

static void refuses_bad_arguments_and_failed_calls(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 7;
        fast_weight w(rig, 16, 24, false, &random);
        twin<float> x(rig, twin_floats(&random, 2 * 24)), y(rig, std::vector<float>(2 * 16));
        weight unprepared = w.on_device;
        unprepared.plan = nullptr;
        const linear_f32_args good = w.args(x.at(ON_DEVICE), nullptr, y.at(ON_DEVICE), 2);
        linear_f32_args bad[4] = {good, good, good, good};
        bad[0].rows = 0;
        bad[1].workspace.bytes--;
        bad[2].workspace.data = nullptr;
        bad[3].weight = &unprepared;
        for (const linear_f32_args &one : bad) {
            assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &one), KERNELS_INVALID);
        }
        for (unsigned nth = 1; nth <= 2; nth++) { /* in front of the product, and behind it */
            emulation_fail_call("launch", nth, cudaErrorLaunchFailure);
            assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &good), KERNELS_FAILED);
        }
        emulation_fail_call("cublasLtMatmul", 1, CUBLAS_STATUS_EXECUTION_FAILED);
        assert_int_equal(cuda_linear_f32(w.blas.blas, rig.stream, &good), KERNELS_FAILED);
        assert_cuda(cudaStreamSynchronize(rig.stream));
    });
}

TEST_MAIN(cmocka_unit_test(is_as_near_to_reference_as_the_contract_says),
          cmocka_unit_test(sums_in_an_order_of_its_own),
          cmocka_unit_test(gives_a_row_the_same_bytes_alone_and_among_1_to_200_others),
          cmocka_unit_test(would_give_other_bytes_by_a_plan_of_other_rows),
          cmocka_unit_test(spoils_every_output_of_a_row_that_overflows_and_no_other),
          cmocka_unit_test(chooses_by_its_own_logits_and_marks_a_row_that_overflows),
          cmocka_unit_test(embeds_the_bits_of_reference_out_of_the_same_table),
          cmocka_unit_test(refuses_bad_arguments_and_failed_calls))
