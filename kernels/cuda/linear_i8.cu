/* The INT8 product with its epilogue. __dp4a kernels apply it to their sums in registers; those of
 * cuBLASLt pass a workspace of at most WEIGHT_SLICE_ROWS rows, which mostly stays in cache. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/int8.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- launchers */

size_t cuda_linear_i8_workspace_bytes(const struct kernels_shape *shape) {
    return cuda_int8_product_bytes(shape->rows_max, shape->n_max, shape->k_max);
}

enum kernels_status cuda_linear_i8(struct cuda_blas *blas, cudaStream_t stream,
                                   const struct linear_i8_args *args) {
    if (!check_linear_i8(args)) {
        return KERNELS_INVALID;
    }
    struct int8_call call = {
        args->weight->form, cuda_weight_view(args->weight), args->x, NULL, args->residual, args->y,
        args->rows};
    return cuda_int8_product(blas, stream, args->weight, &call, &args->workspace);
}
