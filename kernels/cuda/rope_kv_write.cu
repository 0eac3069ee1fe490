/* Rotary embedding of q and k (Su et al. 2021), then k and v to their pages.
 *
 * Parallelisation: a block of 256 threads a row; a thread strides over the pairs of q, then over
 * the pairs and elements of k, then of v. Bytes moved: qkv once, q back, k and v to pages: a value
 * lies 16 bytes from its neighbour, so its store touches a sector of 32 bytes, which is little
 * beside what attention reads later. Bound expected: memory; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/kv_page.h"
#include "kernels/cuda/row.h"
#include "kernels/reference/check.h"

/* ---------------------------------------------------------------- kernels */

/* The row under way. */
struct rope_row {
    float *q, *k, *v;
    const float *cosine, *sine; /* of its position */
    uint32_t half;              /* pairs of a head */
    int32_t page;
    uint32_t token; /* in its page */
};

static __device__ __forceinline__ rope_row row_of(const rope_kv_write_args &args, uint32_t t) {
    const kv_form &form = args.kv.form;
    uint32_t position = static_cast<uint32_t>(args.rows.position[t]);
    size_t q_width = static_cast<size_t>(args.heads) * form.head_dim;
    size_t kv_width = static_cast<size_t>(form.kv_heads) * form.head_dim;
    rope_row row;
    row.q = args.qkv + t * (q_width + 2u * kv_width);
    row.k = row.q + q_width;
    row.v = row.k + kv_width;
    row.half = args.rotary_dims / 2u;
    size_t angle = static_cast<size_t>(position) * row.half;
    row.cosine = row.half > 0 ? args.cos_table + angle : NULL;
    row.sine = row.half > 0 ? args.sin_table + angle : NULL;
    row.page = kv_page_number(args.kv, args.rows.slot[t], position);
    row.token = position % KV_PAGE_TOKENS;
    return row;
}

/* Rows of padding share one place of the scratch page: only the last of neighbours writes there. */
static __device__ __forceinline__ bool writes_page(const rope_kv_write_args &args,
                                                   const rope_row &row, uint32_t t) {
    if (t + 1u == args.rows.rows) {
        return true;
    }
    uint32_t next = static_cast<uint32_t>(args.rows.position[t + 1u]);
    return next % KV_PAGE_TOKENS != row.token ||
           kv_page_number(args.kv, args.rows.slot[t + 1u], next) != row.page;
}

static __device__ __forceinline__ void rotate_queries(const rope_row &row, uint32_t heads,
                                                      uint32_t head_dim) {
    for (uint32_t i = threadIdx.x; i < heads * row.half; i += ROW_THREADS) {
        uint32_t pair = i % row.half;
        float *x = row.q + static_cast<size_t>(i / row.half) * head_dim + pair;
        canonical_rotate(&x[0], &x[row.half], row.cosine[pair], row.sine[pair]);
    }
}

/* Key element d of a head, or both of the pair whose first it is. */
template <typename Element>
static __device__ __forceinline__ void write_key(const rope_row &row, const float *k, uint32_t d,
                                                 typename Element::stored *head) {
    const uint32_t vector = Element::VECTOR;
    if (d < row.half) {
        float x0 = k[d], x1 = k[d + row.half];
        canonical_rotate(&x0, &x1, row.cosine[d], row.sine[d]);
        head[kv_key_at(vector, d, row.token)] = Element::store(x0);
        head[kv_key_at(vector, d + row.half, row.token)] = Element::store(x1);
    } else if (d >= 2u * row.half) {
        head[kv_key_at(vector, d, row.token)] = Element::store(k[d]);
    }
}

template <typename Element>
static __device__ __forceinline__ void write_page(const rope_kv_write_args &args,
                                                  const rope_row &row) {
    const uint32_t vector = Element::VECTOR, head_dim = args.kv.form.head_dim;
    for (uint32_t i = threadIdx.x; i < args.kv.form.kv_heads * head_dim; i += ROW_THREADS) {
        uint32_t head = i / head_dim, d = i % head_dim;
        auto *page = kv_head_of<Element>(args.kv, row.page, head);
        write_key<Element>(row, row.k + static_cast<size_t>(head) * head_dim, d, page);
        page[kv_value_at(head_dim, vector, d, row.token)] = Element::store(row.v[i]);
    }
}

template <typename Element>
static __global__ void __launch_bounds__(ROW_THREADS) rope_kv_write(rope_kv_write_args args) {
    rope_row row = row_of(args, blockIdx.x);
    rotate_queries(row, args.heads, args.kv.form.head_dim);
    if (writes_page(args, row, blockIdx.x)) {
        write_page<Element>(args, row);
    }
}

/* ---------------------------------------------------------------- launchers */

size_t cuda_page_bytes(const struct kv_form *form) {
    bool valid = (form->type == ELEMENT_F32 || form->type == ELEMENT_F16) && form->kv_heads >= 1 &&
                 form->head_dim >= 1 && form->head_dim <= KV_HEAD_DIM_MAX;
    if (!valid) {
        return 0;
    }
    uint32_t vector = form->type == ELEMENT_F32 ? kv_f32::VECTOR : kv_f16::VECTOR;
    size_t bytes =
        form->kv_heads * kv_head_elements(form->head_dim, vector) * element_bytes(form->type);
    return kernels_aligned(bytes);
}

enum kernels_status cuda_rope_kv_write(cudaStream_t stream, const struct rope_kv_write_args *args) {
    const struct kv_form *form = &args->kv.form;
    if (!check_rope_kv_write(args, cuda_page_bytes(form))) {
        return KERNELS_INVALID;
    }
    if (form->type == ELEMENT_F32) {
        CUDA_LAUNCH(rope_kv_write<kv_f32>, args->rows.rows, ROW_THREADS, 0, stream, *args);
    } else {
        CUDA_LAUNCH(rope_kv_write<kv_f16>, args->rows.rows, ROW_THREADS, 0, stream, *args);
    }
    return cuda_launch_status();
}
