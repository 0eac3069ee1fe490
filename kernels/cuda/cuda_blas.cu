/* Products by cuBLASLt. Parallelisation and tiles are the library's; bytes moved: w and x once from
 * memory, sums once to it. Bound expected: tensor cores from some hundred rows on, memory below;
 * not yet measured on a card. */
#include "kernels/cuda/cuda_blas.h"

#include <stdio.h>
#include <stdlib.h>

/* What NVIDIA asks for on Hopper. The emulation's library needs little, and each byte of its memory
 * is watched. */
#if defined(__CUDACC__)
#define CUDA_BLAS_WORKSPACE_BYTES (32u << 20)
#else
#define CUDA_BLAS_WORKSPACE_BYTES 2048u
#endif

#define CUDA_BLAS_CHOICES 16 /* of an FP16 product, to look for one that does not split K */

struct cuda_blas_types {
    cublasComputeType_t compute;
    cudaDataType_t scale, in, out;
};

static const struct cuda_blas_types cuda_blas_types[CUDA_BLAS_KINDS] = {
    {CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
};

/* What plans of a kind have in common. */
struct cuda_blas_product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
};

struct cuda_blas_plan {
    enum cuda_blas_kind kind;
    uint32_t n, k, rows;
    uint32_t users;
    cublasLtMatrixLayout_t w, x, sum;
    cublasLtMatmulAlgo_t algorithm;
    cuda_blas_plan *next;
};

struct cuda_blas {
    const struct cublaslt_api *api; /* borrowed */
    cublasLtHandle_t handle;
    struct cuda_blas_product products[CUDA_BLAS_KINDS];
    cuda_blas_plan *plans;
};

/* ---------------------------------------------------------------- statuses */

static enum kernels_status cuda_blas_status(cublasStatus_t status, const char *call, char *err,
                                            size_t err_bytes) {
    if (status == CUBLAS_STATUS_SUCCESS) {
        return KERNELS_OK;
    }
    snprintf(err, err_bytes, "%s: cuBLASLt status %d", call, static_cast<int>(status));
    return status == CUBLAS_STATUS_ALLOC_FAILED    ? KERNELS_NO_MEMORY
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? KERNELS_UNSUPPORTED
                                                   : KERNELS_FAILED;
}

/* ---------------------------------------------------------------- open and close */

static enum kernels_status cuda_blas_set_desc(struct cuda_blas *blas, enum cuda_blas_kind kind,
                                              char *err, size_t err_bytes) {
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    const struct cuda_blas_types *types = &cuda_blas_types[kind];
    cublasLtMatmulDesc_t *desc = &blas->products[kind].desc;
    cublasStatus_t status = blas->api->MatmulDescCreate(desc, types->compute, types->scale);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = blas->api->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                   sizeof transposed);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = blas->api->MatmulDescSetAttribute(*desc, CUBLASLT_MATMUL_DESC_TRANSB, &plain,
                                                   sizeof plain);
    }
    return cuda_blas_status(status, "cublasLtMatmulDescCreate", err, err_bytes);
}

/* Unless told, the library takes every address for a multiple of 256 bytes. Only INT8 sums may be
 * taken apart: theirs are exact in any order. */
static enum kernels_status cuda_blas_set_preference(struct cuda_blas *blas,
                                                    enum cuda_blas_kind kind, char *err,
                                                    size_t err_bytes) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace_bytes = CUDA_BLAS_WORKSPACE_BYTES;
    const uint32_t alignment_bytes = CUDA_BLAS_PADDING;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulPreference_t *preference = &blas->products[kind].preference;
    cublasStatus_t status = blas->api->MatmulPreferenceCreate(preference);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = blas->api->MatmulPreferenceSetAttribute(*preference,
                                                         CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace_bytes, sizeof workspace_bytes);
    }
    if (status == CUBLAS_STATUS_SUCCESS && kind == CUDA_BLAS_F16) {
        status = blas->api->MatmulPreferenceSetAttribute(*preference,
                                                         CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                         &reductions, sizeof reductions);
    }
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        if (status == CUBLAS_STATUS_SUCCESS) {
            status = blas->api->MatmulPreferenceSetAttribute(
                *preference, alignments[i], &alignment_bytes, sizeof alignment_bytes);
        }
    }
    return cuda_blas_status(status, "cublasLtMatmulPreferenceCreate", err, err_bytes);
}

static enum kernels_status cuda_blas_start(struct cuda_blas *blas, char *err, size_t err_bytes) {
    enum kernels_status status =
        cuda_blas_status(blas->api->Create(&blas->handle), "cublasLtCreate", err, err_bytes);
    for (unsigned i = 0; i < CUDA_BLAS_KINDS && status == KERNELS_OK; i++) {
        auto kind = static_cast<enum cuda_blas_kind>(i);
        status = cuda_blas_set_desc(blas, kind, err, err_bytes);
        if (status == KERNELS_OK) {
            status = cuda_blas_set_preference(blas, kind, err, err_bytes);
        }
    }
    return status;
}

enum kernels_status cuda_blas_open(const struct cublaslt_api *api, struct cuda_blas **out,
                                   char *err, size_t err_bytes) {
    *out = NULL;
    struct cuda_blas *blas = static_cast<struct cuda_blas *>(calloc(1, sizeof *blas));
    if (blas == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return KERNELS_NO_MEMORY;
    }
    blas->api = api;
    enum kernels_status status = cuda_blas_start(blas, err, err_bytes);
    if (status != KERNELS_OK) {
        cuda_blas_close(blas);
        return status == KERNELS_UNSUPPORTED ? KERNELS_FAILED : status;
    }
    *out = blas;
    return KERNELS_OK;
}

void cuda_blas_close(struct cuda_blas *blas) {
    if (blas == NULL) {
        return;
    }
    /* A failed destroy leaves nothing to be done: the context goes next. */
    for (const struct cuda_blas_product &product : blas->products) {
        if (product.preference != NULL) {
            (void)blas->api->MatmulPreferenceDestroy(product.preference);
        }
        if (product.desc != NULL) {
            (void)blas->api->MatmulDescDestroy(product.desc);
        }
    }
    if (blas->handle != NULL) {
        (void)blas->api->Destroy(blas->handle);
    }
    free(blas);
}

size_t cuda_blas_workspace_bytes(void) {
    return CUDA_BLAS_WORKSPACE_BYTES;
}

size_t cuda_blas_version(const struct cuda_blas *blas) {
    return blas->api->GetVersion();
}

/* ---------------------------------------------------------------- plans */

static void cuda_blas_plan_free(const struct cuda_blas *blas, struct cuda_blas_plan *plan) {
    const cublasLtMatrixLayout_t layouts[] = {plan->w, plan->x, plan->sum};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i] != NULL) {
            (void)blas->api->MatrixLayoutDestroy(layouts[i]);
        }
    }
    free(plan);
}

static cublasStatus_t cuda_blas_plan_layouts(const struct cuda_blas *blas,
                                             struct cuda_blas_plan *plan) {
    const struct cuda_blas_types *types = &cuda_blas_types[plan->kind];
    cublasStatus_t status =
        blas->api->MatrixLayoutCreate(&plan->w, types->in, plan->k, plan->n, plan->k);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = blas->api->MatrixLayoutCreate(&plan->x, types->in, plan->k, plan->rows, plan->k);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            blas->api->MatrixLayoutCreate(&plan->sum, types->out, plan->n, plan->rows, plan->n);
    }
    return status;
}

/* Whether an algorithm sums each output in one piece, whatever was asked for. */
static bool cuda_blas_is_whole(const struct cuda_blas *blas,
                               const cublasLtMatmulAlgo_t *algorithm) {
    int32_t splits = 0;
    uint32_t reduction = 0;
    size_t written = 0;
    return blas->api->MatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                   &splits, sizeof splits,
                                                   &written) == CUBLAS_STATUS_SUCCESS &&
           blas->api->MatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                   &reduction, sizeof reduction,
                                                   &written) == CUBLAS_STATUS_SUCCESS &&
           splits == 1 && reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
}

/* The first of the library's choices that will do; of INT8 products, any. */
static enum kernels_status cuda_blas_plan_take(const struct cuda_blas *blas,
                                               struct cuda_blas_plan *plan,
                                               const cublasLtMatmulHeuristicResult_t *found,
                                               int count, char *err, size_t err_bytes) {
    for (int i = 0; i < count; i++) {
        if (found[i].state == CUBLAS_STATUS_SUCCESS &&
            (plan->kind == CUDA_BLAS_I8 || cuda_blas_is_whole(blas, &found[i].algo))) {
            plan->algorithm = found[i].algo;
            return KERNELS_OK;
        }
    }
    snprintf(err, err_bytes, "cublasLtMatmulAlgoGetHeuristic: nothing that does not split K");
    return KERNELS_UNSUPPORTED;
}

static enum kernels_status cuda_blas_plan_choose(struct cuda_blas *blas,
                                                 struct cuda_blas_plan *plan, char *err,
                                                 size_t err_bytes) {
    const struct cuda_blas_product *product = &blas->products[plan->kind];
    cublasLtMatmulHeuristicResult_t found[CUDA_BLAS_CHOICES] = {};
    int count = 0, wanted = plan->kind == CUDA_BLAS_I8 ? 1 : CUDA_BLAS_CHOICES;
    cublasStatus_t status = cuda_blas_plan_layouts(blas, plan);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return cuda_blas_status(status, "cublasLtMatrixLayoutCreate", err, err_bytes);
    }
    status =
        blas->api->MatmulAlgoGetHeuristic(blas->handle, product->desc, plan->w, plan->x, plan->sum,
                                          plan->sum, product->preference, wanted, found, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count == 0) {
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (status == CUBLAS_STATUS_SUCCESS && wanted == 1) {
        status = found[0].state;
    }
    return status == CUBLAS_STATUS_SUCCESS
               ? cuda_blas_plan_take(blas, plan, found, count, err, err_bytes)
               : cuda_blas_status(status, "cublasLtMatmulAlgoGetHeuristic", err, err_bytes);
}

enum kernels_status cuda_blas_plan_open(struct cuda_blas *blas, enum cuda_blas_kind kind,
                                        uint32_t n, uint32_t k, uint32_t rows,
                                        struct cuda_blas_plan **out, char *err, size_t err_bytes) {
    *out = NULL;
    for (cuda_blas_plan *plan = blas->plans; plan != NULL; plan = plan->next) {
        if (plan->kind == kind && plan->n == n && plan->k == k && plan->rows == rows) {
            plan->users++;
            *out = plan;
            return KERNELS_OK;
        }
    }
    struct cuda_blas_plan *plan = static_cast<struct cuda_blas_plan *>(calloc(1, sizeof *plan));
    if (plan == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return KERNELS_NO_MEMORY;
    }
    plan->kind = kind, plan->n = n, plan->k = k, plan->rows = rows, plan->users = 1;
    enum kernels_status status = cuda_blas_plan_choose(blas, plan, err, err_bytes);
    if (status != KERNELS_OK) {
        cuda_blas_plan_free(blas, plan);
        return status;
    }
    plan->next = blas->plans;
    blas->plans = plan;
    *out = plan;
    return KERNELS_OK;
}

void cuda_blas_plan_close(struct cuda_blas *blas, struct cuda_blas_plan *plan) {
    if (plan == NULL || --plan->users > 0) {
        return;
    }
    cuda_blas_plan **link = &blas->plans;
    while (*link != plan) {
        link = &(*link)->next;
    }
    *link = plan->next;
    cuda_blas_plan_free(blas, plan);
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_blas_multiply(struct cuda_blas *blas, const struct cuda_blas_plan *plan,
                                       const void *w, const void *x, void *sum, void *workspace,
                                       cudaStream_t stream) {
    static const int32_t one = 1, zero = 0;
    static const float one_f32 = 1.0f, zero_f32 = 0.0f;
    bool is_i8 = plan->kind == CUDA_BLAS_I8;
    const void *alpha = is_i8 ? static_cast<const void *>(&one) : &one_f32;
    const void *beta = is_i8 ? static_cast<const void *>(&zero) : &zero_f32;
    cublasStatus_t status = blas->api->Matmul(
        blas->handle, blas->products[plan->kind].desc, alpha, w, plan->w, x, plan->x, beta, sum,
        plan->sum, sum, plan->sum, &plan->algorithm, workspace, CUDA_BLAS_WORKSPACE_BYTES, stream);
    return status == CUBLAS_STATUS_SUCCESS ? KERNELS_OK : KERNELS_FAILED;
}
