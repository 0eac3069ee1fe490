/* The INT8 product of any shape: rows padded, cut into slices, and given to cuBLASLt or __dp4a.
 *
 * The one kernel here pads rows of activations whose width or address is no multiple of 16.
 * Parallelisation: a thread for 4 bytes. Bytes moved: q twice. Bound expected: memory; models with
 * such widths are rare. */
#include "kernels/cuda/int8.h"
#include "kernels/reference/check.h"

#define PAD_THREADS 128u
#define WORD_BYTES 4u

/* ---------------------------------------------------------------- kernels */

static __global__ void __launch_bounds__(PAD_THREADS)
    pad_rows(const int8_t *q, int *padded, uint32_t k, uint32_t words) {
    uint32_t word = blockIdx.y * PAD_THREADS + threadIdx.x, begin = word * WORD_BYTES;
    if (word >= words) {
        return;
    }
    const int8_t *row = q + static_cast<size_t>(blockIdx.x) * k;
    uint32_t value = 0;
    for (uint32_t i = 0; i < WORD_BYTES; i++) {
        uint32_t byte = begin + i < k ? static_cast<uint8_t>(row[begin + i]) : 0u;
        value |= byte << (8u * i);
    }
    padded[static_cast<size_t>(blockIdx.x) * words + word] = static_cast<int>(value);
}

/* ---------------------------------------------------------------- launchers */

/* Where the parts of the workspace begin, in bytes; the padded rows are first. */
struct product_layout {
    size_t sums, blas, bytes;
};

static struct product_layout product_layout_of(uint32_t rows, uint32_t n, uint32_t k) {
    size_t slice = rows < WEIGHT_SLICE_ROWS ? rows : WEIGHT_SLICE_ROWS;
    struct product_layout layout;
    layout.sums = kernels_aligned(slice * weight_padded(k));
    layout.blas = layout.sums + kernels_aligned(slice * weight_padded(n) * sizeof(int32_t));
    layout.bytes = layout.blas + kernels_aligned(cuda_blas_workspace_bytes());
    return layout;
}

size_t cuda_int8_product_bytes(uint32_t rows, uint32_t n, uint32_t k) {
    return product_layout_of(rows, n, k).bytes;
}

/* Leaves rows as the kernels read them in call->x.q. */
static enum kernels_status pad_call(cudaStream_t stream, struct int8_call *call, void *padded) {
    uint32_t k_bytes = weight_padded(call->form.k), words = k_bytes / WORD_BYTES;
    if (k_bytes == call->form.k && cuda_blas_is_aligned(call->x.q)) {
        return KERNELS_OK;
    }
    CUDA_LAUNCH(pad_rows, dim3(call->rows, (words - 1u) / PAD_THREADS + 1u), PAD_THREADS, 0, stream,
                call->x.q, static_cast<int *>(padded), call->form.k, words);
    call->x.q = static_cast<int8_t *>(padded);
    return cuda_launch_status();
}

static enum kernels_status run_slice(struct cuda_blas *blas, cudaStream_t stream,
                                     const struct cuda_blas_plan *plan, struct int8_call call,
                                     const struct product_layout *layout, char *workspace) {
    enum kernels_status status = pad_call(stream, &call, workspace);
    if (status != KERNELS_OK || plan == NULL) {
        return status != KERNELS_OK ? status : cuda_int8_dp4a(stream, &call);
    }
    uint32_t stride = weight_padded(call.form.n);
    bool is_direct = call.sum != NULL && stride == call.form.n && cuda_blas_is_aligned(call.sum);
    int32_t *sums = is_direct ? call.sum : reinterpret_cast<int32_t *>(workspace + layout->sums);
    status = cuda_blas_multiply(blas, plan, call.weight.values, call.x.q, sums,
                                workspace + layout->blas, stream);
    if (status != KERNELS_OK || is_direct) {
        return status;
    }
    return cuda_dequantize_sums(stream, &call, sums, stride);
}

/* Rows t .. t + rows - 1 of a call. */
static struct int8_call slice_of(const struct int8_call &whole, uint32_t t, uint32_t rows) {
    struct int8_call call = whole;
    size_t outputs = static_cast<size_t>(t) * call.form.n;
    call.x.q += static_cast<size_t>(t) * call.form.k;
    call.x.scale = call.x.scale != NULL ? call.x.scale + t : NULL;
    call.x.zero_point = call.x.zero_point != NULL ? call.x.zero_point + t : NULL;
    call.x.sum = call.x.sum != NULL ? call.x.sum + t : NULL;
    call.sum = call.sum != NULL ? call.sum + outputs * call.weight.groups : NULL;
    call.residual = call.residual != NULL ? call.residual + outputs : NULL;
    call.y = call.y != NULL ? call.y + outputs : NULL;
    call.rows = rows;
    return call;
}

enum kernels_status cuda_int8_product(struct cuda_blas *blas, cudaStream_t stream,
                                      const struct weight *weight, const struct int8_call *call,
                                      const struct kernels_workspace *workspace) {
    struct product_layout layout = product_layout_of(call->rows, call->form.n, call->form.k);
    if (!check_workspace(workspace, layout.bytes)) {
        return KERNELS_INVALID;
    }
    enum kernels_status status = KERNELS_OK;
    for (uint32_t t = 0, rows; t < call->rows && status == KERNELS_OK; t += rows) {
        uint32_t left = call->rows - t;
        rows = left < WEIGHT_SLICE_ROWS ? left : WEIGHT_SLICE_ROWS;
        status = run_slice(blas, stream, cuda_weight_plan(weight, rows), slice_of(*call, t, rows),
                           &layout, static_cast<char *>(workspace->data));
    }
    return status;
}
