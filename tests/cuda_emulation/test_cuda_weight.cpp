/* Packed weights of the CUDA back end, and the plans that cuBLASLt makes for them. */
#include <cstdlib>

#include "kernels/cuda/weight.h"
#include "tests/cuda_emulation/linears_rig.h"
extern "C" {
#include "schemas/sha256.h"
}

static weight_form int8_form(uint32_t n, uint32_t k) {
    weight_form form = {};
    form.type = ELEMENT_I8, form.n = n, form.k = k, form.activation = ACTIVATION_PER_TOKEN;
    return form;
}

static weight_form float_form(element_type type, uint32_t n, uint32_t k) {
    weight_form form = {};
    form.type = type, form.n = n, form.k = k;
    return form;
}

static weight_form fast_form(uint32_t n, uint32_t k) {
    weight_form form = float_form(ELEMENT_F16, n, k);
    form.fast = true;
    return form;
}

/* ---------------------------------------------------------------- forms */

static void refuses_forms_that_it_cannot_compute_by_name(void **state) {
    weight_form wide = int8_form(4, 65537), many = int8_form(4194241, 16);
    weight_form groups = int8_form(4, 64), zero = groups, mixed = float_form(ELEMENT_F16, 4, 64);
    groups.group_size = 24;
    zero.group_size = 32, zero.weight_zero_point = true;
    mixed.activation = ACTIVATION_PER_TOKEN;
    const struct {
        weight_form form;
        const char *said;
    } cases[] = {{wide, "1 to 65536 inputs"},
                 {many, "4194240 outputs"},
                 {groups, "multiple of 16 inputs"},
                 {zero, "zero points in groups"},
                 {mixed, "need INT8 weights"}};
    for (const auto &one : cases) {
        char err[256] = "";
        size_t bytes = 0;
        assert_int_equal(cuda_weight_packed_bytes(&one.form, &bytes, err, sizeof err),
                         KERNELS_UNSUPPORTED);
        if (strstr(err, one.said) == nullptr) {
            fail_msg("'%s' lacks '%s'", err, one.said);
        }
    }
}

static void has_fast_forms_of_16_bits_that_no_cpu_has(void **state) {
    reference_device reference;
    char err[256] = "";
    size_t bytes = 0;
    weight_form form = fast_form(3, 5);
    assert_int_equal(cuda_weight_packed_bytes(&form, &bytes, err, sizeof err), KERNELS_OK);
    assert_int_equal(bytes, 16 * 16 * 2);
    assert_int_equal(reference.ops().weight_packed_bytes(&form, &bytes, err, sizeof err),
                     KERNELS_UNSUPPORTED);
    assert_non_null(strstr(err, "only a CUDA device"));
    form.type = ELEMENT_F32;
    assert_int_equal(cuda_weight_packed_bytes(&form, &bytes, err, sizeof err), KERNELS_UNSUPPORTED);
    assert_non_null(strstr(err, "not F16"));
}

static void refuses_sources_that_lack_something(void **state) {
    const weight_form form = int8_form(2, 4);
    const int8_t values[8] = {};
    const float scale[2] = {1.0f, 1.0f / 0.0f};
    char err[256] = "", packed[1024];
    weight_source source = {};
    source.values = values;
    assert_int_equal(cuda_weight_pack(&form, &source, packed, err, sizeof err), KERNELS_INVALID);
    assert_non_null(strstr(err, "is missing"));
    source.scale = scale;
    assert_int_equal(cuda_weight_pack(&form, &source, packed, err, sizeof err), KERNELS_INVALID);
    assert_non_null(strstr(err, "scale of output 1 is not finite"));
}

/* ---------------------------------------------------------------- packing */

/* Packed weights are kept on disk: when their layout changes, raise CUDA_PACKING_VERSION and put
 * the digest that the failure shows in the place of the old one. */
#define PACKING_VERSION 1u
#define PACKING_SHA256 "8393bf3e2cf02333e1a4c02861cdffc59e51b772af615688cfa05a8e92a67390"

static void add_packed(struct sha256 *hash, const weight_form &form) {
    size_t bytes = 0, count = size_t{form.n} * form.k;
    char err[256] = "";
    std::vector<char> values(count * element_bytes(form.type));
    std::vector<float> scale(count), bias(form.n);
    for (size_t i = 0; i < count; i++) {
        auto small = static_cast<int8_t>(i * 37 % 251);
        auto half = static_cast<uint16_t>(0x3C00 + i % 1000);
        float plain = static_cast<float>(i % 101) / 8.0f;
        const void *value = form.type == ELEMENT_I8    ? static_cast<const void *>(&small)
                            : form.type == ELEMENT_F16 ? static_cast<const void *>(&half)
                                                       : &plain;
        memcpy(values.data() + i * element_bytes(form.type), value, element_bytes(form.type));
        scale[i] = 0.5f + static_cast<float>(i % 13);
    }
    for (uint32_t n = 0; n < form.n; n++) {
        bias[n] = static_cast<float>(n);
    }
    weight_source source = {};
    source.values = values.data(), source.scale = scale.data(), source.bias = bias.data();
    assert_int_equal(cuda_weight_packed_bytes(&form, &bytes, err, sizeof err), KERNELS_OK);
    void *packed = kernel_test_alloc(bytes);
    memset(packed, 0xEE, bytes);
    assert_int_equal(cuda_weight_pack(&form, &source, packed, err, sizeof err), KERNELS_OK);
    sha256_update(hash, packed, bytes);
    kernel_test_free(packed);
}

static void changes_its_version_with_its_layout(void **state) {
    weight_form biased = int8_form(83, 71), groups = int8_form(64, 128);
    weight_form plain = float_form(ELEMENT_F32, 83, 71);
    biased.bias = plain.bias = true;
    groups.group_size = 32;
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    sha256_init(&hash);
    add_packed(&hash, int8_form(83, 71));
    add_packed(&hash, biased);
    add_packed(&hash, groups);
    add_packed(&hash, float_form(ELEMENT_F16, 83, 71));
    add_packed(&hash, plain);
    assert_true(sha256_finish(&hash, digest));
    sha256_hex(digest, hex);
    assert_int_equal(CUDA_PACKING_VERSION, PACKING_VERSION);
    assert_string_equal(hex, PACKING_SHA256);
}

/* Rows of K16 halves, of which those past K and N are zero. */
static void packs_fast_weights_as_padded_rows(void **state) {
    weight_form form = fast_form(3, 21);
    form.bias = true;
    uint16_t values[3 * 21];
    const float bias[3] = {1, 2, 3};
    for (uint16_t i = 0; i < 3 * 21; i++) {
        values[i] = static_cast<uint16_t>(i + 1);
    }
    weight_source source = {};
    source.values = values, source.bias = bias;
    size_t bytes = 0;
    char err[256] = "";
    assert_int_equal(cuda_weight_packed_bytes(&form, &bytes, err, sizeof err), KERNELS_OK);
    assert_int_equal(cuda_weight_values_bytes(&form), 16 * 32 * 2);
    void *packed = kernel_test_alloc(bytes);
    memset(packed, 0xEE, bytes);
    assert_int_equal(cuda_weight_pack(&form, &source, packed, err, sizeof err), KERNELS_OK);
    const auto *halves = static_cast<const uint16_t *>(packed);
    for (uint32_t n = 0; n < 16; n++) {
        for (uint32_t k = 0; k < 32; k++) {
            assert_int_equal(halves[n * 32 + k], n < 3 && k < 21 ? values[n * 21 + k] : 0);
        }
    }
    const weight placed = {form, packed, nullptr};
    assert_memory_equal(cuda_weight_view(&placed).bias, bias, sizeof bias);
    kernel_test_free(packed);
}

/* ---------------------------------------------------------------- plans */

static weight placed(const rig &rig, const weight_form &form) {
    size_t bytes = 0;
    char err[256] = "";
    assert_int_equal(cuda_weight_packed_bytes(&form, &bytes, err, sizeof err), KERNELS_OK);
    return {form, rig_memory<char>(bytes), nullptr};
}

static void has_plans_for_buckets_beyond_few_rows_only(void **state) {
    rig_each_seed([](rig &rig) {
        linears_blas blas;
        char err[256] = "";
        const uint32_t buckets[] = {1, 8, 16, 512, 1024, 1500, 2048};
        weight int8 = placed(rig, int8_form(21, 40));
        assert_int_equal(cuda_weight_prepare(blas.blas, &int8, buckets, 7, err, sizeof err),
                         KERNELS_OK);
        for (uint32_t rows : {16u, 512u, 1024u, 1500u % 1024u}) {
            assert_non_null(cuda_weight_plan(&int8, rows));
        }
        for (uint32_t rows : {1u, 8u, 17u, 1500u, 2048u}) {
            assert_null(cuda_weight_plan(&int8, rows));
        }
        linears_weight_free(blas.blas, &int8);
        weight_form groups = int8_form(21, 64);
        groups.group_size = 32;
        for (const weight_form &form : {groups, float_form(ELEMENT_F16, 21, 40)}) {
            weight other = placed(rig, form);
            assert_int_equal(cuda_weight_prepare(blas.blas, &other, buckets, 7, err, sizeof err),
                             KERNELS_OK);
            assert_null(other.plan);
            linears_weight_free(blas.blas, &other);
        }
        weight absent = {int8_form(4, 4), nullptr, nullptr};
        assert_int_equal(cuda_weight_prepare(blas.blas, &absent, buckets, 7, err, sizeof err),
                         KERNELS_INVALID);
        assert_non_null(strstr(err, "not on the device"));
        cuda_weight_release(blas.blas, &absent);
    });
}

static void shares_plans_between_weights_of_one_padded_shape(void **state) {
    rig_each_seed([](rig &rig) {
        linears_blas blas;
        char err[256] = "";
        const uint32_t buckets[] = {16, 64};
        weight first = placed(rig, int8_form(21, 40)), second = placed(rig, int8_form(32, 48));
        assert_int_equal(cuda_weight_prepare(blas.blas, &first, buckets, 2, err, sizeof err),
                         KERNELS_OK);
        size_t live = emulation_live_objects();
        assert_int_equal(cuda_weight_prepare(blas.blas, &second, buckets, 2, err, sizeof err),
                         KERNELS_OK);
        assert_int_equal(emulation_live_objects(), live);
        assert_ptr_equal(cuda_weight_plan(&first, 64), cuda_weight_plan(&second, 64));
        linears_weight_free(blas.blas, &first);
        assert_int_equal(emulation_live_objects(), live - 1); /* its memory */
        linears_weight_free(blas.blas, &second);
    });
}

static void has_one_fast_plan_of_64_rows_whatever_the_buckets(void **state) {
    rig_each_seed([](rig &rig) {
        linears_blas blas;
        char err[256] = "";
        const uint32_t buckets[] = {1, 16, 2048};
        weight first = placed(rig, fast_form(20, 30)), second = placed(rig, fast_form(32, 32));
        assert_int_equal(cuda_weight_prepare(blas.blas, &first, buckets, 3, err, sizeof err),
                         KERNELS_OK);
        assert_int_equal(cuda_weight_prepare(blas.blas, &second, nullptr, 0, err, sizeof err),
                         KERNELS_OK);
        assert_non_null(cuda_weight_plan(&first, WEIGHT_FAST_ROWS));
        assert_ptr_equal(cuda_weight_plan(&first, 64), cuda_weight_plan(&second, 64));
        for (uint32_t rows : {1u, 16u, 1024u}) {
            assert_null(cuda_weight_plan(&first, rows));
        }
        linears_weight_free(blas.blas, &first);
        linears_weight_free(blas.blas, &second);
    });
}

static void refuses_fast_products_that_the_library_lacks_or_would_split(void **state) {
    rig_each_seed([](rig &rig) {
        linears_blas blas;
        weight one = placed(rig, fast_form(20, 30));
        for (int attempt = 0; attempt < 3; attempt++) {
            char err[256] = "";
            size_t live = emulation_live_objects();
            if (attempt < 2) {
                emulation_fail_call(attempt == 0 ? "cublasLtMatmulAlgoGetHeuristic"
                                                 : "cublasLtMatmulAlgoConfigGetAttribute",
                                    1, CUBLAS_STATUS_NOT_SUPPORTED);
            } else {
                emulation_set_split_k(3);
            }
            assert_int_equal(cuda_weight_prepare(blas.blas, &one, nullptr, 0, err, sizeof err),
                             KERNELS_UNSUPPORTED);
            assert_null(one.plan);
            assert_int_equal(emulation_live_objects(), live);
            assert_non_null(strstr(err, "weight [20, 30]: no fast product on this card: "));
        }
        assert_cuda(cudaFree(one.packed));
        emulation_set_split_k(0);
    });
}

/* Each call of the library that opening makes, and each that a plan needs. */
static void gives_back_everything_when_a_call_fails(void **state) {
    static const struct {
        const char *call;
        unsigned count;
        bool at_open;
    } calls[] = {{"cublasLtCreate", 1, true},
                 {"cublasLtMatmulDescCreate", 2, true},
                 {"cublasLtMatmulDescSetAttribute", 4, true},
                 {"cublasLtMatmulPreferenceCreate", 2, true},
                 {"cublasLtMatmulPreferenceSetAttribute", 11, true},
                 {"cublasLtMatrixLayoutCreate", 6, false},
                 {"cublasLtMatmulAlgoGetHeuristic", 2, false}};
    rig_each_seed([](rig &rig) {
        const uint32_t buckets[] = {16, 32};
        weight one = placed(rig, int8_form(16, 16));
        for (const auto &call : calls) {
            for (unsigned nth = 1; nth <= call.count; nth++) {
                char err[256] = "";
                bool no_memory = nth % 2 == 0;
                int status = no_memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INTERNAL_ERROR;
                kernels_status wanted = no_memory ? KERNELS_NO_MEMORY : KERNELS_FAILED;
                size_t live = emulation_live_objects();
                cublaslt_api api;
                cuda_blas *blas = nullptr;
                assert_true(cublaslt_api_open(&api, nullptr, err, sizeof err));
                if (call.at_open) {
                    emulation_fail_call(call.call, nth, status);
                    assert_int_equal(cuda_blas_open(&api, &blas, err, sizeof err), wanted);
                    assert_null(blas);
                } else {
                    assert_int_equal(cuda_blas_open(&api, &blas, err, sizeof err), KERNELS_OK);
                    emulation_fail_call(call.call, nth, status);
                    assert_int_equal(cuda_weight_prepare(blas, &one, buckets, 2, err, sizeof err),
                                     wanted);
                    assert_null(one.plan);
                }
                assert_non_null(strstr(err, "cublasLt"));
                cuda_blas_close(blas);
                cublaslt_api_close(&api);
                assert_int_equal(emulation_live_objects(), live);
            }
        }
        assert_cuda(cudaFree(one.packed));
    });
}

TEST_MAIN(cmocka_unit_test(refuses_forms_that_it_cannot_compute_by_name),
          cmocka_unit_test(has_fast_forms_of_16_bits_that_no_cpu_has),
          cmocka_unit_test(refuses_sources_that_lack_something),
          cmocka_unit_test(changes_its_version_with_its_layout),
          cmocka_unit_test(packs_fast_weights_as_padded_rows),
          cmocka_unit_test(has_plans_for_buckets_beyond_few_rows_only),
          cmocka_unit_test(shares_plans_between_weights_of_one_padded_shape),
          cmocka_unit_test(has_one_fast_plan_of_64_rows_whatever_the_buckets),
          cmocka_unit_test(refuses_fast_products_that_the_library_lacks_or_would_split),
          cmocka_unit_test(gives_back_everything_when_a_call_fails))
