/* The layout inside a KV page of the CUDA back end, and 16 bytes of it in registers.
 *
 * A page holds 16 tokens of one layer. With E elements in 16 bytes (8 halves or 4 floats) it is,
 * for each KV head, its keys as [ceil(d/E), 16 tokens, E], then its values as [16/E, d, E tokens].
 * So a thread that has a key loads 16 bytes of its d at a time, a thread that has a d loads 16
 * bytes of tokens at a time, and neighbours load what lies side by side. What pads d to whole
 * vectors is never written or read. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_KV_PAGE_H
#define SOLFLEET_KERNELS_CUDA_KV_PAGE_H

#include <cuda_fp16.h>

#include "kernels/canonical.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

#define KV_VECTOR_BYTES 16u
#define KV_HEAD_DIM_MAX 256u /* a block of attention has a thread for each d */

#define KV_FN static __host__ __device__ __forceinline__

/* ---------------------------------------------------------------- elements */

/* VECTOR elements in 16 bytes; a thread has AT_ONCE such loads under way, as registers allow.
 * Conversions of halves are the hardware's: those of canonical.h are exact or half to even, too. */
struct kv_f16 {
    typedef uint16_t stored;
    static constexpr uint32_t VECTOR = 8, AT_ONCE = 4;

    static __device__ __forceinline__ float load(stored bits) {
        return __half2float(__ushort_as_half(bits));
    }
    static __device__ __forceinline__ stored store(float x) {
        return __half_as_ushort(__float2half_rn(x));
    }
    static __device__ __forceinline__ void unpack(uint4 vector, float (&out)[VECTOR]) {
        const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
        CUDA_UNROLL
        for (uint32_t i = 0; i < 4u; i++) {
            out[2u * i] = load(static_cast<stored>(words[i] & 0xFFFFu));
            out[2u * i + 1u] = load(static_cast<stored>(words[i] >> 16));
        }
    }
};

struct kv_f32 {
    typedef float stored;
    static constexpr uint32_t VECTOR = 4, AT_ONCE = 2;

    static __device__ __forceinline__ float load(stored x) {
        return x;
    }
    static __device__ __forceinline__ stored store(float x) {
        return x;
    }
    static __device__ __forceinline__ void unpack(uint4 vector, float (&out)[VECTOR]) {
        out[0] = canonical_float(vector.x);
        out[1] = canonical_float(vector.y);
        out[2] = canonical_float(vector.z);
        out[3] = canonical_float(vector.w);
    }
};

/* The 16 bytes of which `first` is the first element. */
template <typename Element>
static __device__ __forceinline__ uint4 kv_vector(const typename Element::stored *first) {
    return *reinterpret_cast<const uint4 *>(first);
}

/* ---------------------------------------------------------------- places */

KV_FN uint32_t kv_vectors(uint32_t head_dim, uint32_t vector) {
    return (head_dim + vector - 1u) / vector;
}

/* Elements of a KV head in a page: its keys, then its values. */
KV_FN size_t kv_key_elements(uint32_t head_dim, uint32_t vector) {
    return static_cast<size_t>(kv_vectors(head_dim, vector)) * vector * KV_PAGE_TOKENS;
}

KV_FN size_t kv_head_elements(uint32_t head_dim, uint32_t vector) {
    return kv_key_elements(head_dim, vector) + static_cast<size_t>(head_dim) * KV_PAGE_TOKENS;
}

/* From the first element of a KV head: key (d, token), and value (d, token). */
KV_FN size_t kv_key_at(uint32_t vector, uint32_t d, uint32_t token) {
    return (static_cast<size_t>(d / vector) * KV_PAGE_TOKENS + token) * vector + d % vector;
}

KV_FN size_t kv_value_at(uint32_t head_dim, uint32_t vector, uint32_t d, uint32_t token) {
    return kv_key_elements(head_dim, vector) +
           (static_cast<size_t>(token / vector) * head_dim + d) * vector + token % vector;
}

/* The number of the page with `position` of `slot`; device memory is read. */
static __device__ __forceinline__ int32_t kv_page_number(const kv_view &kv, int32_t slot,
                                                         uint32_t position) {
    return kv.page_table[static_cast<size_t>(slot) * kv.table_pages + position / KV_PAGE_TOKENS];
}

/* The elements of a KV head in a page. */
template <typename Element>
static __device__ __forceinline__ typename Element::stored *
kv_head_of(const kv_view &kv, int32_t page, uint32_t head) {
    char *first = static_cast<char *>(kv.base) + static_cast<size_t>(page) * kv.stride_bytes;
    return reinterpret_cast<typename Element::stored *>(first) +
           head * kv_head_elements(kv.form.head_dim, Element::VECTOR);
}

#endif
