/* cuBLASLt's stand-in: exact INT8 sums, FP16 sums in an order of their own, and what it refuses. */
#include <cmath>

#include <cublasLt.h>

#include "kernels/canonical.h"
#include "tests/cuda_emulation/rig.h"

#define assert_cublas(call) assert_int_equal(call, CUBLAS_STATUS_SUCCESS)

/* ---------------------------------------------------------------- INT8 */

struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[4];
    int count;
};

struct element_types {
    cublasComputeType_t compute;
    cudaDataType_t scale, a, b, d;
};

/* D[m, n] = A[k, m]^T B[k, n]; returns what the heuristic says when asked for `asked` choices.
 * `reductions`, unless NULL, is what the caller can do with. */
static cublasStatus_t open_product_of(product *p, const element_types &types, uint64_t m,
                                      uint64_t n, uint64_t k, uint64_t workspace_bytes,
                                      const uint32_t *reductions, int asked) {
    int32_t transposed = CUBLAS_OP_T;
    assert_cublas(cublasLtCreate(&p->handle));
    assert_cublas(cublasLtMatmulDescCreate(&p->desc, types.compute, types.scale));
    assert_cublas(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                 sizeof transposed));
    assert_cublas(cublasLtMatrixLayoutCreate(&p->a, types.a, k, m, static_cast<int64_t>(k)));
    assert_cublas(cublasLtMatrixLayoutCreate(&p->b, types.b, k, n, static_cast<int64_t>(k)));
    assert_cublas(cublasLtMatrixLayoutCreate(&p->d, types.d, m, n, static_cast<int64_t>(m)));
    assert_cublas(cublasLtMatmulPreferenceCreate(&p->preference));
    assert_cublas(cublasLtMatmulPreferenceSetAttribute(p->preference,
                                                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &workspace_bytes, sizeof workspace_bytes));
    if (reductions != nullptr) {
        assert_cublas(cublasLtMatmulPreferenceSetAttribute(
            p->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions,
            sizeof *reductions));
    }
    p->count = -1;
    return cublasLtMatmulAlgoGetHeuristic(p->handle, p->desc, p->a, p->b, p->d, p->d, p->preference,
                                          asked, p->found, &p->count);
}

/* Of INT8. */
static cublasStatus_t open_product(product *p, uint64_t m, uint64_t n, uint64_t k,
                                   uint64_t workspace_bytes) {
    const element_types types = {CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_8I, CUDA_R_32I};
    cublasStatus_t status = open_product_of(p, types, m, n, k, workspace_bytes, nullptr, 1);
    assert_int_equal(p->count, status == CUBLAS_STATUS_SUCCESS);
    return status;
}

static void close_product(product *p) {
    assert_cublas(cublasLtMatmulPreferenceDestroy(p->preference));
    assert_cublas(cublasLtMatrixLayoutDestroy(p->d));
    assert_cublas(cublasLtMatrixLayoutDestroy(p->b));
    assert_cublas(cublasLtMatrixLayoutDestroy(p->a));
    assert_cublas(cublasLtMatmulDescDestroy(p->desc));
    assert_cublas(cublasLtDestroy(p->handle));
}

static cublasStatus_t multiply(const rig &rig, const product &p, const int8_t *a, const int8_t *b,
                               int32_t *d, int32_t beta, void *workspace, size_t bytes) {
    int32_t alpha = 1;
    return cublasLtMatmul(p.handle, p.desc, &alpha, a, p.a, b, p.b, &beta, d, p.d, d, p.d,
                          &p.found[0].algo, workspace, bytes, rig.stream);
}

static void multiplies_int8_exactly(void **state) {
    rig_each_seed([](rig &rig) {
        enum { M = 16, N = 5, K = 48, WORKSPACE = 4096 };
        std::vector<int8_t> a(M * K), b(N * K);
        for (size_t i = 0; i < a.size(); i++) {
            a[i] = static_cast<int8_t>(i * 53 % 256 - 128);
        }
        for (size_t i = 0; i < b.size(); i++) {
            b[i] = static_cast<int8_t>(i * 29 % 256 - 128);
        }
        product p;
        assert_cublas(open_product(&p, M, N, K, WORKSPACE));
        int8_t *da = rig_memory_of(rig, a), *db = rig_memory_of(rig, b);
        int32_t *dd = rig_memory<int32_t>(M * N);
        auto *workspace = rig_memory<char>(WORKSPACE);
        assert_cublas(multiply(rig, p, da, db, dd, 0, workspace, WORKSPACE));
        assert_cublas(multiply(rig, p, da, db, dd, 1, workspace, WORKSPACE));
        std::vector<int32_t> d = rig_take(rig, dd, M * N);
        for (size_t n = 0; n < N; n++) {
            for (size_t m = 0; m < M; m++) {
                int wanted = 0;
                for (size_t k = 0; k < K; k++) {
                    wanted += a[m * K + k] * b[n * K + k];
                }
                assert_int_equal(d[n * M + m], 2 * wanted);
            }
        }
        assert_cuda(cudaFree(da));
        assert_cuda(cudaFree(db));
        assert_cuda(cudaFree(workspace));
        close_product(&p);
    });
}

static void refuses_products_that_cards_refuse(void **state) {
    rig_each_seed([](rig &rig) {
        const struct {
            uint64_t m, n, k, workspace_bytes;
            cublasStatus_t status;
        } cases[] = {{16, 1, 16, 4096, CUBLAS_STATUS_SUCCESS},
                     {15, 1, 16, 4096, CUBLAS_STATUS_NOT_SUPPORTED},
                     {16, 1, 24, 4096, CUBLAS_STATUS_NOT_SUPPORTED},
                     {16, 1, 16, 0, CUBLAS_STATUS_NOT_SUPPORTED},
                     {16, 0, 16, 4096, CUBLAS_STATUS_INVALID_VALUE}};
        for (const auto &one : cases) {
            product p;
            assert_int_equal(open_product(&p, one.m, one.n, one.k, one.workspace_bytes),
                             one.status);
            close_product(&p);
        }
    });
}

static void refuses_a_product_without_its_workspace_or_transposition(void **state) {
    rig_each_seed([](rig &rig) {
        product p;
        assert_cublas(open_product(&p, 16, 16, 16, 4096));
        int8_t *x = rig_memory_of(rig, std::vector<int8_t>(272, 1));
        int32_t *d = rig_memory<int32_t>(256);
        auto *workspace = rig_memory<char>(4096);
        assert_int_equal(multiply(rig, p, x, x, d, 0, nullptr, 0), CUBLAS_STATUS_INVALID_VALUE);
        assert_int_equal(multiply(rig, p, x, x, d, 0, workspace, 4097),
                         CUBLAS_STATUS_INVALID_VALUE);
        for (int off : {1, 16}) { /* the preference promised 256 */
            assert_int_equal(multiply(rig, p, x + off, x, d, 0, workspace, 4096),
                             CUBLAS_STATUS_NOT_SUPPORTED);
        }
        assert_int_equal(multiply(rig, p, x, x, d, 2, workspace, 4096),
                         CUBLAS_STATUS_NOT_SUPPORTED);
        int32_t plain = CUBLAS_OP_N;
        assert_cublas(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &plain,
                                                     sizeof plain));
        assert_int_equal(multiply(rig, p, x, x, d, 0, workspace, 4096),
                         CUBLAS_STATUS_NOT_SUPPORTED);
        assert_cuda(cudaFree(x));
        assert_cuda(cudaFree(d));
        assert_cuda(cudaFree(workspace));
        close_product(&p);
    });
}

static void finds_a_product_of_fresh_memory(void **state) {
    rig_each_seed([](rig &rig) {
        product p;
        assert_cublas(open_product(&p, 16, 16, 16, 4096));
        int8_t *x = rig_memory<int8_t>(256);
        int32_t *d = rig_memory<int32_t>(256);
        auto *workspace = rig_memory<char>(4096);
        assert_cublas(multiply(rig, p, x, x, d, 0, workspace, 4096));
        rig_expect(rig, EMULATION_UNINITIALISED, cudaErrorLaunchFailure);
        close_product(&p);
    });
}

/* ---------------------------------------------------------------- FP16 */

/* D of f32 from halves, A of type `in`. */
static cublasStatus_t open_halves(product *p, uint64_t m, uint64_t n, uint64_t k, cudaDataType_t in,
                                  uint32_t reductions) {
    const element_types types = {CUBLAS_COMPUTE_32F, CUDA_R_32F, in, CUDA_R_16F, CUDA_R_32F};
    return open_product_of(p, types, m, n, k, 4096, &reductions, 4);
}

static int32_t splits_of(const cublasLtMatmulHeuristicResult_t &found) {
    int32_t splits = 0;
    size_t written = 0;
    assert_cublas(cublasLtMatmulAlgoConfigGetAttribute(&found.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                       &splits, sizeof splits, &written));
    assert_int_equal(written, sizeof splits);
    assert_int_equal(cublasLtMatmulAlgoConfigGetAttribute(&found.algo,
                                                          CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                          sizeof splits + 1, &written),
                     CUBLAS_STATUS_INVALID_VALUE);
    return splits;
}

enum { HALVES_M = 16, HALVES_K = 256, HALVES_N_MAX = 64 };

/* Column 0 of D by choice `choice` of a product of `columns`. */
static std::vector<float> first_column(const rig &rig, const uint16_t *a, const uint16_t *b,
                                       uint64_t columns, uint32_t reductions, int choice) {
    const float one = 1, zero = 0, two = 2;
    product p;
    assert_cublas(open_halves(&p, HALVES_M, columns, HALVES_K, CUDA_R_16F, reductions));
    assert_true(choice < p.count);
    float *d = rig_memory<float>(HALVES_M * columns);
    auto *workspace = rig_memory<char>(4096);
    const cublasLtMatmulAlgo_t *algo = &p.found[choice].algo;
    assert_int_equal(cublasLtMatmul(p.handle, p.desc, &two, a, p.a, b, p.b, &zero, d, p.d, d, p.d,
                                    algo, workspace, 4096, rig.stream),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_cublas(cublasLtMatmul(p.handle, p.desc, &one, a, p.a, b, p.b, &zero, d, p.d, d, p.d,
                                 algo, workspace, 4096, rig.stream));
    std::vector<float> all = rig_take(rig, d, HALVES_M * columns);
    assert_cuda(cudaFree(workspace));
    close_product(&p);
    return {all.begin(), all.begin() + HALVES_M};
}

/* By rows, by parts of K, and never the chain: whoever counts on an order is found. */
static void sums_halves_in_an_order_that_the_shape_and_the_choice_decide(void **state) {
    rig_each_seed([](rig &rig) {
        std::vector<uint16_t> a(HALVES_M * HALVES_K), b(HALVES_N_MAX * HALVES_K);
        for (size_t i = 0; i < a.size(); i++) {
            a[i] = canonical_f32_to_f16(static_cast<float>(i * 7919 % 1000) / 300.0f - 1.5f);
        }
        for (size_t i = 0; i < b.size(); i++) {
            b[i] = canonical_f32_to_f16(static_cast<float>(i % HALVES_K * 104729 % 997) / 301.0f);
        }
        uint16_t *da = rig_memory_of(rig, a), *db = rig_memory_of(rig, b);
        const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE, all = CUBLASLT_REDUCTION_SCHEME_MASK;
        std::vector<float> of_64 = first_column(rig, da, db, 64, none, 0);
        assert_true(of_64 == first_column(rig, da, db, 64, none, 0));
        assert_true(of_64 == first_column(rig, da, db, 64, all, 1));
        assert_true(of_64 != first_column(rig, da, db, 64, all, 0)); /* in two parts */
        assert_true(of_64 != first_column(rig, da, db, 1, none, 0));
        std::vector<float> chain(HALVES_M);
        for (size_t m = 0; m < HALVES_M; m++) {
            for (size_t k = 0; k < HALVES_K; k++) {
                chain[m] = fmaf(canonical_f16_to_f32(a[m * HALVES_K + k]),
                                canonical_f16_to_f32(b[k]), chain[m]);
            }
            assert_true(fabsf(of_64[m] - chain[m]) < 1e-2f);
        }
        assert_true(of_64 != chain);
        assert_cuda(cudaFree(da));
        assert_cuda(cudaFree(db));
    });
}

static void offers_parts_of_k_unless_they_are_forbidden(void **state) {
    rig_each_seed([](rig &) {
        const struct {
            uint32_t reductions;
            int forced, count, splits;
        } cases[] = {{CUBLASLT_REDUCTION_SCHEME_MASK, 0, 2, 2},
                     {CUBLASLT_REDUCTION_SCHEME_NONE, 0, 1, 1},
                     {CUBLASLT_REDUCTION_SCHEME_NONE, 3, 1, 3}};
        for (const auto &one : cases) {
            product p;
            emulation_set_split_k(one.forced);
            assert_cublas(open_halves(&p, 16, 64, 16, CUDA_R_16F, one.reductions));
            assert_int_equal(p.count, one.count);
            assert_int_equal(splits_of(p.found[0]), one.splits);
            close_product(&p);
        }
        emulation_set_split_k(0);
        product p;
        assert_int_equal(open_halves(&p, 16, 64, 24, CUDA_R_16F, 0), CUBLAS_STATUS_NOT_SUPPORTED);
        close_product(&p);
        assert_int_equal(open_halves(&p, 16, 64, 16, CUDA_R_8I, 0), CUBLAS_STATUS_NOT_SUPPORTED);
        close_product(&p);
    });
}

TEST_MAIN(cmocka_unit_test(multiplies_int8_exactly),
          cmocka_unit_test(sums_halves_in_an_order_that_the_shape_and_the_choice_decide),
          cmocka_unit_test(offers_parts_of_k_unless_they_are_forbidden),
          cmocka_unit_test(refuses_products_that_cards_refuse),
          cmocka_unit_test(refuses_a_product_without_its_workspace_or_transposition),
          cmocka_unit_test(finds_a_product_of_fresh_memory))
