/* The INT8 matrix product: exact sums, so their order is free (int8_product.cu says which kernel
 * makes them). */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/int8.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_gemm_i8(struct cuda_blas *blas, cudaStream_t stream,
                                 const struct gemm_i8_args *args) {
    if (!check_gemm_i8(args)) {
        return KERNELS_INVALID;
    }
    struct int8_call call = {
        args->weight->form, cuda_weight_view(args->weight), args->x, args->sum, NULL, NULL,
        args->rows};
    return cuda_int8_product(blas, stream, args->weight, &call, &args->workspace);
}
