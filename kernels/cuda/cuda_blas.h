/* cuBLASLt's products: a handle, and a plan for each shape that the card takes.
 *
 * sum[t, n] = sum over k of x[t, k] * w[n, k]. Row-major here is column-major there: A = w [k, n]
 * transposed, B = x [k, rows], D = sum [n, rows], all leading dimensions dense. Whether a card
 * takes a shape is asked once, when its plan is made, and never on the way.
 *   CUDA_BLAS_I8    i8 times i8 into i32: exact
 *   CUDA_BLAS_F16   f16 times f16, exact products summed in f32 in an order that a plan fixes, by
 *                   an algorithm that does not split K
 *
 * Threads: one at a time. Memory: plans are shared by weights of one shape and counted; the
 * workspace is the caller's. Refuses to know weights. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_CUDA_BLAS_H
#define SOLFLEET_KERNELS_CUDA_CUDA_BLAS_H

#include "kernels/cuda/cublaslt_api.h"
#include "kernels/view.h"

struct cuda_blas;
struct cuda_blas_plan;

#define CUDA_BLAS_PADDING 16u /* n, k and addresses are multiples of it (bytes, for addresses) */

enum cuda_blas_kind { CUDA_BLAS_I8, CUDA_BLAS_F16, CUDA_BLAS_KINDS };

static inline bool cuda_blas_is_aligned(const void *memory) {
    return reinterpret_cast<uintptr_t>(memory) % CUDA_BLAS_PADDING == 0;
}

/* Borrows `api`, which is open, until cuda_blas_close. KERNELS_NO_MEMORY or KERNELS_FAILED with the
 * reason. It serves the device that the calling thread has set. */
enum kernels_status cuda_blas_open(const struct cublaslt_api *api, struct cuda_blas **out,
                                   char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
/* Accepts NULL. Every plan must have been closed. */
void cuda_blas_close(struct cuda_blas *blas);

/* Bytes of workspace of every product. */
size_t cuda_blas_workspace_bytes(void);

/* What the library says of its version: 130100 for 13.1.0. */
size_t cuda_blas_version(const struct cuda_blas *blas);

/* KERNELS_UNSUPPORTED when the card takes no such shape: *out is NULL then, err says why, and
 * another kernel must do it. KERNELS_NO_MEMORY or KERNELS_FAILED with the reason. */
enum kernels_status cuda_blas_plan_open(struct cuda_blas *blas, enum cuda_blas_kind kind,
                                        uint32_t n, uint32_t k, uint32_t rows,
                                        struct cuda_blas_plan **out, char *err,
                                        size_t err_bytes) KERNELS_CHECK_RESULT;
void cuda_blas_plan_close(struct cuda_blas *blas, struct cuda_blas_plan *plan); /* accepts NULL */

/* Enqueues the product.  in w [n, k], x [rows, k], out sum [rows, n], of the plan's kind; workspace
 * of cuda_blas_workspace_bytes. KERNELS_FAILED when the library refuses what it promised. */
enum kernels_status cuda_blas_multiply(struct cuda_blas *blas, const struct cuda_blas_plan *plan,
                                       const void *w, const void *x, void *sum, void *workspace,
                                       cudaStream_t stream) KERNELS_CHECK_RESULT;

#endif
