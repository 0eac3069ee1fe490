/* cuBLASLt's INT8 product with its refusals. D[m, n] = alpha * A[k, m]^T B[k, n] + beta * C, all
 * column-major. Narrower than the library on purpose: what this takes, the manual says that every
 * card of compute capability 8.0 and later takes; it cannot show what a card refuses beyond. */
#include <functional>
#include <map>

#include <cublasLt.h>

#include "tests/cuda_emulation/internal.h"

#define PADDING 16u           /* of m, k and leading dimensions */
#define WORKSPACE_BYTES 1024u /* so that a caller that gives none is found */
#define ALGORITHM 0x50AF1EE7u
#define ALIGNMENT_BYTES 256u /* that the library counts on unless told less */

enum object_kind { HANDLE, DESC, LAYOUT, PREFERENCE };
struct emulation_cublas {
    object_kind kind;
};
struct emulation_matmul {
    object_kind kind;
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transa, transb;
};
struct emulation_layout {
    object_kind kind;
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t leading;
};
struct emulation_preference {
    object_kind kind;
    uint64_t workspace_bytes;
    uint32_t alignment[4]; /* of A, B, C, D, that a caller promises */
};

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

template <typename T> static bool is_live(const T *one, object_kind kind) {
    return one != nullptr && cublas_live.count(one) != 0 && one->kind == kind;
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
}

#define CUBLAS_ENTER()                                      \
    do {                                                    \
        if (int injected_ = emulation_injected(__func__)) { \
            return static_cast<cublasStatus_t>(injected_);  \
        }                                                   \
    } while (0)

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
    return create(preference, {PREFERENCE, 0, {alignment, alignment, alignment, alignment}});
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

/* ---------------------------------------------------------------- the product */

struct product {
    const emulation_matmul *desc;
    const emulation_layout *a, *b, *c, *d;
};

/* Shapes that do not fit together are the caller's bug; those that do may still be refused. */
static cublasStatus_t check_product(const product &p) {
    if (!is_live(p.desc, DESC) || !is_live(p.a, LAYOUT) || !is_live(p.b, LAYOUT) ||
        !is_live(p.c, LAYOUT) || !is_live(p.d, LAYOUT)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const emulation_layout *all[] = {p.a, p.b, p.c, p.d};
    for (const emulation_layout *one : all) {
        if (one->rows == 0 || one->columns == 0 || one->leading < static_cast<int64_t>(one->rows)) {
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    }
    if (p.desc->compute != CUBLAS_COMPUTE_32I || p.desc->scale != CUDA_R_32I ||
        p.a->type != CUDA_R_8I || p.b->type != CUDA_R_8I || p.c->type != CUDA_R_32I ||
        p.d->type != CUDA_R_32I || p.desc->transa != CUBLAS_OP_T || p.desc->transb != CUBLAS_OP_N) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (p.a->rows != p.b->rows || p.a->columns != p.d->rows || p.b->columns != p.d->columns ||
        p.c->rows != p.d->rows || p.c->columns != p.d->columns) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    for (const emulation_layout *one : all) {
        if (one->rows % PADDING != 0 || one->leading % PADDING != 0) {
            return CUBLAS_STATUS_NOT_SUPPORTED;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *given) {
    CUBLAS_ENTER();
    if (!is_live(handle, HANDLE)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (!is_live(preference, PREFERENCE) || wanted < 1 || results == nullptr || given == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *given = 0;
    cublasStatus_t status = check_product({desc, a, b, c, d});
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (preference->workspace_bytes < WORKSPACE_BYTES) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    results[0] = {};
    results[0].algo.data[0] = ALGORITHM;
    for (int i = 0; i < 4; i++) {
        results[0].algo.data[1 + i] = preference->alignment[i];
    }
    results[0].workspaceSize = WORKSPACE_BYTES;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *given = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static size_t span_bytes(const emulation_layout &one, size_t element) {
    return (static_cast<size_t>(one.leading) * (one.columns - 1) + one.rows) * element;
}

/* Whether every byte that is read has been written. */
static bool is_known(const void *memory, const emulation_layout &layout, size_t element) {
    const emulation_allocation *one = emulation_find(memory);
    auto first = static_cast<size_t>(static_cast<const unsigned char *>(memory) - one->data);
    for (uint64_t column = 0; column < layout.columns; column++) {
        size_t at = first + column * static_cast<size_t>(layout.leading) * element;
        for (size_t i = 0; i < layout.rows * element; i++) {
            if (!one->watch[at + i].is_known) {
                return false;
            }
        }
    }
    return true;
}

static void multiply(emulation_layout a, emulation_layout b, emulation_layout d, const int8_t *av,
                     const int8_t *bv, int32_t *dv, int32_t alpha, int32_t beta) {
    if (!is_known(av, a, 1) || !is_known(bv, b, 1) || (beta != 0 && !is_known(dv, d, 4))) {
        emulation_report(EMULATION_UNINITIALISED, "cublasLtMatmul reads bytes that nothing wrote");
        return;
    }
    for (uint64_t n = 0; n < d.columns; n++) {
        int32_t *column = dv + n * static_cast<size_t>(d.leading);
        for (uint64_t m = 0; m < d.rows; m++) {
            uint32_t sum = 0;
            for (uint64_t k = 0; k < a.rows; k++) {
                sum += static_cast<uint32_t>(av[m * static_cast<size_t>(a.leading) + k] *
                                             bv[n * static_cast<size_t>(b.leading) + k]);
            }
            uint32_t before = beta != 0 ? static_cast<uint32_t>(column[m]) : 0u;
            column[m] = static_cast<int32_t>(static_cast<uint32_t>(alpha) * sum +
                                             static_cast<uint32_t>(beta) * before);
        }
        emulation_mark_known(column, d.rows * sizeof *column);
    }
}

/* As the choice of the algorithm was promised; never less than the kernels load at once. */
static bool is_aligned(const void *memory, const cublasLtMatmulAlgo_t &algo, int which) {
    uint64_t promised = algo.data[1 + which];
    return reinterpret_cast<uintptr_t>(memory) % (promised > PADDING ? promised : PADDING) == 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    CUBLAS_ENTER();
    if (!is_live(handle, HANDLE)) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (emulation_has_fault()) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    /* Without an algorithm the library searches at every call: not part of the subset. */
    if (alpha == nullptr || beta == nullptr || algo == nullptr || algo->data[0] != ALGORITHM ||
        !emulation_is_stream(stream)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = check_product({desc, a_layout, b_layout, c_layout, d_layout});
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    int32_t scale, add;
    memcpy(&scale, alpha, sizeof scale);
    memcpy(&add, beta, sizeof add);
    if (scale != 1 || (add != 0 && add != 1) || c != d || !is_aligned(a, *algo, 0) ||
        !is_aligned(b, *algo, 1) || !is_aligned(d, *algo, 3)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (workspace_bytes < WORKSPACE_BYTES ||
        !emulation_holds(workspace, workspace_bytes, EMULATION_DEVICE) ||
        !emulation_holds(a, span_bytes(*a_layout, 1), EMULATION_DEVICE) ||
        !emulation_holds(b, span_bytes(*b_layout, 1), EMULATION_DEVICE) ||
        !emulation_holds(d, span_bytes(*d_layout, 4), EMULATION_DEVICE)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    emulation_layout la = *a_layout, lb = *b_layout, ld = *d_layout;
    emulation_enqueue(stream, [=] {
        multiply(la, lb, ld, static_cast<const int8_t *>(a), static_cast<const int8_t *>(b),
                 static_cast<int32_t *>(d), scale, add);
    });
    return CUBLAS_STATUS_SUCCESS;
}
