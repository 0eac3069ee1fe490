#include "tests/cuda_emulation/linears_rig.h"

linears_blas::linears_blas() : api(), blas(nullptr) {
    char err[256];
    assert_true(cublaslt_api_open(&api, nullptr, err, sizeof err));
    assert_int_equal(cuda_blas_open(&api, &blas, err, sizeof err), KERNELS_OK);
}

linears_blas::~linears_blas() {
    cuda_blas_close(blas);
    cublaslt_api_close(&api);
}

weight linears_weight(const rig &rig, cuda_blas *blas, const weight_form &form,
                      const weight_source &source, const std::vector<uint32_t> &rows) {
    char err[256] = "";
    size_t bytes = 0;
    if (cuda_weight_packed_bytes(&form, &bytes, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    void *packed = kernel_test_alloc(bytes);
    memset(packed, 0xEE, bytes); /* packing leaves no byte as it was */
    if (cuda_weight_pack(&form, &source, packed, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    weight weight = {form, rig_memory<char>(bytes), nullptr};
    assert_cuda(cudaMemcpyAsync(weight.packed, packed, bytes, cudaMemcpyHostToDevice, rig.stream));
    kernel_test_free(packed);
    if (cuda_weight_prepare(blas, &weight, rows.data(), static_cast<uint32_t>(rows.size()), err,
                            sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    return weight;
}

void linears_weight_free(cuda_blas *blas, weight *weight) {
    cuda_weight_release(blas, weight);
    assert_null(weight->plan);
    assert_cuda(cudaFree(weight->packed));
}

kernels_workspace linears_workspace(size_t bytes) {
    return {rig_memory<char>(bytes), bytes};
}

void linears_same(const std::vector<float> &got, const std::vector<float> &wanted,
                  const char *label) {
    assert_int_equal(got.size(), wanted.size());
    kernel_test_same_floats(got.data(), wanted.data(), wanted.size(), label);
}
