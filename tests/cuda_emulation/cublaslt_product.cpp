/* cuBLASLt's products with their refusals. D[m, n] = alpha * A[k, m]^T B[k, n] + beta * C, all
 * column-major: INT8 into INT32, FP16 into f32. Narrower than the library on purpose: what this
 * takes, the manual says that every card of compute capability 8.0 and later takes; it cannot show
 * what a card refuses beyond.
 *
 * An FP16 sum is rounded at each addition, in an order that depends on how many columns D has and
 * on the algorithm, as the library's does, and is never our chain: whoever counts on either is
 * found. */
#include <cuda_fp16.h>

#include "tests/cuda_emulation/cublaslt_objects.h"

#define PADDING 16u           /* of m, k and leading dimensions */
#define WORKSPACE_BYTES 1024u /* so that a caller that gives none is found */
#define ALGORITHM 0x50AF1EE7u
#define LANES_MAX 16u /* of an FP16 sum */

/* What is in cublasLtMatmulAlgo_t::data. */
enum { ALGO_MARK, ALGO_ALIGNMENT, ALGO_SPLITS = ALGO_ALIGNMENT + 4 };

struct types {
    cublasComputeType_t compute;
    cudaDataType_t scale, in, out;
    size_t in_bytes;
};

static const types kinds[] = {
    {CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I, 1},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F, 2},
};

static int forced_splits;

void emulation_set_split_k(int parts) {
    forced_splits = parts;
}

struct product {
    const emulation_matmul *desc;
    const emulation_layout *a, *b, *c, *d;
};

/* ---------------------------------------------------------------- what it takes */

/* NULL = not a combination of types that this takes. */
static const types *types_of(const product &p) {
    for (const types &one : kinds) {
        if (p.desc->compute == one.compute && p.desc->scale == one.scale && p.a->type == one.in &&
            p.b->type == one.in && p.c->type == one.out && p.d->type == one.out) {
            return &one;
        }
    }
    return nullptr;
}

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
    if (types_of(p) == nullptr || p.desc->transa != CUBLAS_OP_T || p.desc->transb != CUBLAS_OP_N) {
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

/* ---------------------------------------------------------------- algorithms */

static void offer(const emulation_preference &preference, int splits, int wanted,
                  cublasLtMatmulHeuristicResult_t results[], int *given) {
    if (*given == wanted) {
        return;
    }
    cublasLtMatmulHeuristicResult_t &one = results[(*given)++];
    one = {};
    one.algo.data[ALGO_MARK] = ALGORITHM;
    for (int i = 0; i < 4; i++) {
        one.algo.data[ALGO_ALIGNMENT + i] = preference.alignment[i];
    }
    one.algo.data[ALGO_SPLITS] = static_cast<uint64_t>(splits);
    one.workspaceSize = WORKSPACE_BYTES;
    one.state = CUBLAS_STATUS_SUCCESS;
}

/* An FP16 product is fastest in parts, where the caller does not forbid it. */
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
    bool is_fp16 = a->type == CUDA_R_16F;
    if (is_fp16 && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0) {
        offer(*preference, 2, wanted, results, given);
    }
    offer(*preference, is_fp16 && forced_splits != 0 ? forced_splits : 1, wanted, results, given);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
    CUBLAS_ENTER();
    if (algo == nullptr || algo->data[ALGO_MARK] != ALGORITHM || value == nullptr ||
        bytes != sizeof(int32_t) || written == nullptr) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    auto splits = static_cast<int32_t>(algo->data[ALGO_SPLITS]);
    int32_t reduction =
        splits > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    memcpy(value, attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? &splits : &reduction, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---------------------------------------------------------------- sums */

/* A call, by value: it runs later. */
struct multiplication {
    emulation_layout a, b, d;
    const void *av, *bv;
    void *dv;
    uint32_t alpha, beta; /* bits of the scale type */
    uint32_t splits;
};

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

static uint32_t sum_i8(const multiplication &call, const int8_t *a, const int8_t *b) {
    uint32_t sum = 0;
    for (uint64_t k = 0; k < call.a.rows; k++) {
        sum += static_cast<uint32_t>(a[k] * b[k]);
    }
    return sum;
}

/* A matrix of halves, dense. */
static std::vector<float> widened(const void *memory, const emulation_layout &layout) {
    std::vector<float> values;
    values.reserve(layout.columns * layout.rows);
    for (uint64_t column = 0; column < layout.columns; column++) {
        const uint16_t *from =
            static_cast<const uint16_t *>(memory) + column * static_cast<size_t>(layout.leading);
        for (uint64_t row = 0; row < layout.rows; row++) {
            values.push_back(__half2float(__ushort_as_half(from[row])));
        }
    }
    return values;
}

/* In lanes, whose number the columns of D decide, folded from the last; parts of K one by one. */
static float sum_f16(const multiplication &call, const float *a, const float *b) {
    uint64_t lanes = 3u + call.d.columns % (LANES_MAX - 2u);
    uint64_t part = (call.a.rows + call.splits - 1u) / call.splits;
    float total = 0.0f;
    for (uint64_t begin = 0; begin < call.a.rows; begin += part) {
        float lane[LANES_MAX] = {}, sum = 0.0f;
        for (uint64_t k = begin; k < call.a.rows && k < begin + part; k++) {
            lane[k % lanes] = lane[k % lanes] + a[k] * b[k];
        }
        for (uint64_t i = lanes; i-- > 0;) {
            sum = sum + lane[i];
        }
        total = total + sum;
    }
    return total;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* D, whose elements have 32 bits either way, from output(m, n, what was there); alpha is 1. */
template <typename Output> static void fill(const multiplication &call, Output output) {
    for (uint64_t n = 0; n < call.d.columns; n++) {
        uint32_t *column =
            static_cast<uint32_t *>(call.dv) + n * static_cast<size_t>(call.d.leading);
        for (uint64_t m = 0; m < call.d.rows; m++) {
            column[m] = output(m, n, column[m]);
        }
        emulation_mark_known(column, call.d.rows * sizeof *column);
    }
}

static void multiply_i8(const multiplication &call) {
    const auto *a = static_cast<const int8_t *>(call.av);
    const auto *b = static_cast<const int8_t *>(call.bv);
    fill(call, [&](uint64_t m, uint64_t n, uint32_t before) {
        uint32_t sum = sum_i8(call, a + m * static_cast<size_t>(call.a.leading),
                              b + n * static_cast<size_t>(call.b.leading));
        return sum + (call.beta != 0 ? before : 0u);
    });
}

static void multiply_f16(const multiplication &call) {
    std::vector<float> a = widened(call.av, call.a), b = widened(call.bv, call.b);
    fill(call, [&](uint64_t m, uint64_t n, uint32_t) {
        return bits_of(sum_f16(call, a.data() + m * call.a.rows, b.data() + n * call.b.rows));
    });
}

static void multiply(const multiplication &call) {
    size_t element = call.a.type == CUDA_R_8I ? 1 : 2;
    if (!is_known(call.av, call.a, element) || !is_known(call.bv, call.b, element) ||
        (call.beta != 0 && !is_known(call.dv, call.d, 4))) {
        emulation_report(EMULATION_UNINITIALISED, "cublasLtMatmul reads bytes that nothing wrote");
        return;
    }
    if (call.a.type == CUDA_R_8I) {
        multiply_i8(call);
    } else {
        multiply_f16(call);
    }
}

/* As the choice of the algorithm was promised; never less than the kernels load at once. */
static bool is_aligned(const void *memory, const cublasLtMatmulAlgo_t &algo, int which) {
    uint64_t promised = algo.data[ALGO_ALIGNMENT + which];
    return reinterpret_cast<uintptr_t>(memory) % (promised > PADDING ? promised : PADDING) == 0;
}

/* D = AB, and of INT8 also D = AB + D. */
static bool takes_scales(const multiplication &call) {
    uint32_t one = call.a.type == CUDA_R_8I ? 1u : bits_of(1.0f);
    return call.alpha == one && (call.beta == 0 || (call.beta == one && one == 1u));
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
    if (alpha == nullptr || beta == nullptr || algo == nullptr ||
        algo->data[ALGO_MARK] != ALGORITHM || !emulation_is_stream(stream)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = check_product({desc, a_layout, b_layout, c_layout, d_layout});
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    multiplication call = {*a_layout, *b_layout, *d_layout,
                           a,         b,         d,
                           0,         0,         static_cast<uint32_t>(algo->data[ALGO_SPLITS])};
    memcpy(&call.alpha, alpha, sizeof call.alpha);
    memcpy(&call.beta, beta, sizeof call.beta);
    if (!takes_scales(call) || c != d || !is_aligned(a, *algo, 0) || !is_aligned(b, *algo, 1) ||
        !is_aligned(d, *algo, 3)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    size_t element = types_of({desc, a_layout, b_layout, c_layout, d_layout})->in_bytes;
    if (workspace_bytes < WORKSPACE_BYTES ||
        !emulation_holds(workspace, workspace_bytes, EMULATION_DEVICE) ||
        !emulation_holds(a, span_bytes(*a_layout, element), EMULATION_DEVICE) ||
        !emulation_holds(b, span_bytes(*b_layout, element), EMULATION_DEVICE) ||
        !emulation_holds(d, span_bytes(*d_layout, 4), EMULATION_DEVICE)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    emulation_enqueue(stream, [call] { multiply(call); });
    return CUBLAS_STATUS_SUCCESS;
}
