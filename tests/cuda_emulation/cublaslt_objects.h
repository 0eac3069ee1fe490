/* cuBLASLt's objects as the emulation has them: its handle, descriptions, layouts and
 * preferences. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_CUBLASLT_OBJECTS_H
#define SOLFLEET_TESTS_CUDA_EMULATION_CUBLASLT_OBJECTS_H

#include <cublasLt.h>

#include "tests/cuda_emulation/internal.h"

#define EMULATION_CUBLASLT_VERSION 130100u

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
    uint32_t reductions;   /* schemes that a caller can do with */
    uint32_t alignment[4]; /* of A, B, C, D, that a caller promises */
};

bool emulation_is_live(const void *one);

template <typename T> static bool is_live(const T *one, object_kind kind) {
    return emulation_is_live(one) && one->kind == kind;
}

#define CUBLAS_ENTER()                                      \
    do {                                                    \
        if (int injected_ = emulation_injected(__func__)) { \
            return static_cast<cublasStatus_t>(injected_);  \
        }                                                   \
    } while (0)

#endif
