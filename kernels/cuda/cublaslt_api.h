/* The entry points of cuBLASLt, opened at run time: one program serves machines with the library
 * and without, and does not carry its 550 MB.
 *
 * All that depends on the toolkit's version stands here: the types come from the toolkit that a
 * program is built with, so only a library of the same major version is opened; 12 and 13 are the
 * same in what is used. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUBLASLT_API_H
#define SOLFLEET_KERNELS_CUDA_CUBLASLT_API_H

#include <cublasLt.h>

#include <stddef.h>

#if defined(CUDART_VERSION)
static_assert(CUDART_VERSION >= 12000, "CUDA 12 or 13");
#endif

/* X(name), without the prefix cublasLt. */
#define CUBLASLT_API_CALLS(X)       \
    X(Create)                       \
    X(Destroy)                      \
    X(GetVersion)                   \
    X(MatmulDescCreate)             \
    X(MatmulDescSetAttribute)       \
    X(MatmulDescDestroy)            \
    X(MatrixLayoutCreate)           \
    X(MatrixLayoutDestroy)          \
    X(MatmulPreferenceCreate)       \
    X(MatmulPreferenceSetAttribute) \
    X(MatmulPreferenceDestroy)      \
    X(MatmulAlgoGetHeuristic)       \
    X(MatmulAlgoConfigGetAttribute) \
    X(Matmul)

struct cublaslt_api {
    void *library; /* of dlopen; NULL under the emulation */
#define CUBLASLT_API_MEMBER(name) decltype(&cublasLt##name) name;
    CUBLASLT_API_CALLS(CUBLASLT_API_MEMBER)
#undef CUBLASLT_API_MEMBER
};

/* From the file `path`, or where the loader finds it for NULL or "". False: err says what is
 * missing and how to name the file; nothing is open. */
bool cublaslt_api_open(struct cublaslt_api *api, const char *path, char *err, size_t err_bytes);
void cublaslt_api_close(struct cublaslt_api *api); /* accepts zeroed */

#endif
