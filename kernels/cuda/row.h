/* What a block of threads does to a row: sums in the canonical order, ranges, INT8 rows.
 *
 * A row is given as a function of the element's index, `value(i)`, so that a fused op needs no
 * array between its parts; it may be asked twice for an element, and each time gives the same bits.
 * Functions named block_* are called by all ROW_THREADS threads of a block; those that sum may be
 * called again only after a barrier. Private to kernels/cuda. */
#ifndef SOLFLEET_KERNELS_CUDA_ROW_H
#define SOLFLEET_KERNELS_CUDA_ROW_H

#include "kernels/canonical.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

#define ROW_THREADS 256u
#define WARP_THREADS 32u
#define ROW_WARPS (ROW_THREADS / WARP_THREADS)
#define FULL_MASK 0xFFFFFFFFu

#define ROW_SEGMENTS_AT_ONCE (ROW_THREADS / CANONICAL_LANES)
#define ROW_SEGMENTS_MAX (KERNELS_K_MAX / CANONICAL_SEGMENT)

#define ROW_FN static __device__ __forceinline__

/* ---------------------------------------------------------------- canonical sums */

/* Folds the lanes of 16 neighbouring threads, for each of them: as addition commutes, both threads
 * of a pair have what canonical_fold leaves in the lower one. Whole warps call it. */
ROW_FN float fold_lanes(float lane) {
    for (uint32_t half = CANONICAL_LANES / 2u; half > 0u; half /= 2u) {
        lane = lane + __shfl_xor_sync(FULL_MASK, lane, half);
    }
    return lane;
}

/* Lane `lane` of the segment at `begin`: add(sum, element) over its elements, ascending. */
template <typename Value, typename Add>
ROW_FN float lane_sum(uint32_t begin, uint32_t lane, uint32_t dim, Value value, Add add) {
    uint32_t left = begin < dim ? dim - begin : 0u;
    uint32_t count = left < CANONICAL_SEGMENT ? left : CANONICAL_SEGMENT;
    float sum = 0.0f;
    for (uint32_t i = lane; i < count; i += CANONICAL_LANES) {
        sum = add(sum, value(begin + i));
    }
    return sum;
}

/* Canonical sum of the row, for every thread: 16 threads take a segment of 256 elements. */
template <typename Value, typename Add>
ROW_FN float block_canonical_sum(uint32_t dim, Value value, Add add) {
    CUDA_SHARED(float, segment_sum, [ROW_SEGMENTS_MAX]);
    uint32_t group = threadIdx.x / CANONICAL_LANES, lane = threadIdx.x % CANONICAL_LANES;
    uint32_t segments = (dim + CANONICAL_SEGMENT - 1u) / CANONICAL_SEGMENT;
    for (uint32_t first = 0; first < segments; first += ROW_SEGMENTS_AT_ONCE) {
        uint32_t segment = first + group;
        float sum = fold_lanes(lane_sum(segment * CANONICAL_SEGMENT, lane, dim, value, add));
        if (lane == 0 && segment < segments) {
            segment_sum[segment] = sum;
        }
    }
    __syncthreads();
    float total = 0.0f;
    for (uint32_t segment = 0; segment < segments; segment++) {
        total = total + segment_sum[segment];
    }
    return total;
}

/* The squares of canonical_segment_squares, of elements less a mean. */
template <typename Value> ROW_FN float block_squares(uint32_t dim, float mean, Value value) {
    return block_canonical_sum(dim, value, [mean](float sum, float x) {
        float c = x - mean;
        return fmaf(c, c, sum);
    });
}

/* ---------------------------------------------------------------- INT8 rows */

/* What the choice of a quantiser needs of a row. */
struct row_range {
    int amax_bits;
    float lo, hi;
};

ROW_FN row_range wider(row_range a, int amax_bits, float lo, float hi) {
    a.amax_bits = amax_bits > a.amax_bits ? amax_bits : a.amax_bits;
    a.lo = lo < a.lo ? lo : a.lo;
    a.hi = hi > a.hi ? hi : a.hi;
    return a;
}

ROW_FN row_range warp_range(row_range range) {
    for (uint32_t distance = WARP_THREADS / 2u; distance > 0u; distance /= 2u) {
        int amax_bits = __shfl_xor_sync(FULL_MASK, range.amax_bits, distance);
        float lo = __shfl_xor_sync(FULL_MASK, range.lo, distance);
        float hi = __shfl_xor_sync(FULL_MASK, range.hi, distance);
        range = wider(range, amax_bits, lo, hi);
    }
    return range;
}

ROW_FN row_range block_range(row_range range) {
    CUDA_SHARED(int, warp_amax, [ROW_WARPS]);
    CUDA_SHARED(float, warp_lo, [ROW_WARPS]);
    CUDA_SHARED(float, warp_hi, [ROW_WARPS]);
    range = warp_range(range);
    if (threadIdx.x % WARP_THREADS == 0) {
        warp_amax[threadIdx.x / WARP_THREADS] = range.amax_bits;
        warp_lo[threadIdx.x / WARP_THREADS] = range.lo;
        warp_hi[threadIdx.x / WARP_THREADS] = range.hi;
    }
    __syncthreads();
    for (uint32_t warp = 0; warp < ROW_WARPS; warp++) {
        range = wider(range, warp_amax[warp], warp_lo[warp], warp_hi[warp]);
    }
    return range;
}

ROW_FN int block_integer_sum(int sum) {
    CUDA_SHARED(int, warp_sum, [ROW_WARPS]);
    for (uint32_t distance = WARP_THREADS / 2u; distance > 0u; distance /= 2u) {
        sum += __shfl_xor_sync(FULL_MASK, sum, distance);
    }
    if (threadIdx.x % WARP_THREADS == 0) {
        warp_sum[threadIdx.x / WARP_THREADS] = sum;
    }
    __syncthreads();
    int total = 0;
    for (uint32_t warp = 0; warp < ROW_WARPS; warp++) {
        total += warp_sum[warp];
    }
    return total;
}

ROW_FN canonical_quantizer choose_quantizer(const quantize_args &args, row_range range) {
    uint32_t amax_bits = static_cast<uint32_t>(range.amax_bits);
    if (args.static_scale != NULL) {
        canonical_quantizer by = {0.0f, 0.0f, 0, amax_bits >= CANONICAL_INF_BITS};
        if (!by.bad) {
            by.scale = *args.static_scale;
            by.zero_point = args.static_zero_point != NULL ? *args.static_zero_point : 0;
        }
        return by;
    }
    return args.out.zero_point != NULL
               ? canonical_quantize_asymmetric(amax_bits, range.lo, range.hi)
               : canonical_quantize_symmetric(amax_bits);
}

ROW_FN int8_t quantized_value(float y, const canonical_quantizer &by, bool affine) {
    if (by.scale == 0.0f) {
        return 0;
    }
    return affine ? canonical_q_affine(y, by.scale, by.zero_point)
                  : canonical_q_symmetric(y, by.factor);
}

/* Row t of the INT8 output, from a row of floats. Called once by a block. */
template <typename Value>
ROW_FN void block_quantize(const quantize_args &args, uint32_t t, uint32_t dim, Value value) {
    row_range range = {0, 0.0f, 0.0f};
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        float y = value(i);
        range = wider(range, static_cast<int>(canonical_bits(y) & 0x7FFFFFFFu), y, y);
    }
    canonical_quantizer by = choose_quantizer(args, block_range(range));
    bool affine = args.static_scale != NULL || args.out.zero_point != NULL;
    int8_t *q = args.out.q + static_cast<size_t>(t) * dim;
    int sum = 0;
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        int8_t element = quantized_value(value(i), by, affine);
        q[i] = element;
        sum += element;
    }
    if (args.out.sum != NULL) {
        sum = block_integer_sum(sum);
    }
    if (threadIdx.x != 0) {
        return;
    }
    args.out.scale[t] = by.scale;
    if (args.out.zero_point != NULL) {
        args.out.zero_point[t] = by.zero_point;
    }
    if (args.out.sum != NULL) {
        args.out.sum[t] = sum;
    }
    args.bad[t] = static_cast<uint8_t>(args.bad[t] | (by.bad ? 1 : 0));
}

/* The row that row t of a norm reads. */
ROW_FN const float *norm_input(const norm_args &args, uint32_t t) {
    size_t row = args.row_index != NULL ? static_cast<size_t>(args.row_index[t]) : t;
    return args.x + row * args.dim;
}

#endif
