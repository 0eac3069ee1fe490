/* cuBLASLt's objects: made, told their attributes, destroyed; cublaslt_product.cpp multiplies. */
#include <functional>
#include <map>

#include "tests/cuda_emulation/cublaslt_objects.h"

#define ALIGNMENT_BYTES 256u /* that the library counts on unless told less */

static std::map<const void *, std::function<void()>> cublas_live; /* how each is freed */

template <typename T> static cublasStatus_t create(T **out, T value) {
    if (out == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    T *made = new T(value);
    cublas_live[made] = [made] { delete made; };
    *out = made;
    emulation_count(1);
    return CUBLAS_STATUS_SUCCESS;
}

bool emulation_is_live(const void *one) {
    return one != nullptr && cublas_live.count(one) != 0;
}

template <typename T> static cublasStatus_t destroy(T *one, object_kind kind) {
    if (!is_live(one, kind)) {
        return kind == HANDLE ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_INVALID_VALUE;
    }
    emulation_count(-1);
    cublas_live.at(one)();
    cublas_live.erase(one);
    return CUBLAS_STATUS_SUCCESS;
}

void emulation_forget_cublas() {
    for (const auto &[one, release] : cublas_live) {
        release();
    }
    cublas_live.clear();
    emulation_set_split_k(0);
}

size_t cublasLtGetVersion() {
    return EMULATION_CUBLASLT_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    CUBLAS_ENTER();
    return create(handle, {HANDLE});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    CUBLAS_ENTER();
    return destroy(handle, HANDLE);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    CUBLAS_ENTER();
    return create(desc, {DESC, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N});
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    CUBLAS_ENTER();
    if (!is_live(desc, DESC) || value == nullptr || bytes != sizeof(int32_t)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    int32_t given;
    memcpy(&given, value, sizeof given);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: desc->transa = given; return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_TRANSB: desc->transb = given; return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    CUBLAS_ENTER();
    return destroy(desc, DESC);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
    CUBLAS_ENTER();
    return create(layout, {LAYOUT, type, rows, columns, leading});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    CUBLAS_ENTER();
    return destroy(layout, LAYOUT);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    CUBLAS_ENTER();
    constexpr uint32_t alignment = ALIGNMENT_BYTES;
    return create(preference, {PREFERENCE,
                               0,
                               CUBLASLT_REDUCTION_SCHEME_MASK,
                               {alignment, alignment, alignment, alignment}});
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    CUBLAS_ENTER();
    if (!is_live(preference, PREFERENCE) || value == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof(uint64_t)) {
        memcpy(&preference->workspace_bytes, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof(uint32_t)) {
        memcpy(&preference->reductions, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
        attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && bytes == sizeof(uint32_t)) {
        memcpy(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
               value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    CUBLAS_ENTER();
    return destroy(preference, PREFERENCE);
}
