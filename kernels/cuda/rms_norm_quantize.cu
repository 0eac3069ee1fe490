/* RMSNorm, then INT8 rows.
 *
 * Parallelisation: a block of 256 threads a row. For the sum of squares 16 threads take a segment
 * of 256 elements, thread l its lane l, and fold by shuffles: the order of canonical.h. Then each
 * thread strides over the row twice, for the largest value and for the quantised bytes.
 * Bytes moved: x once from memory and twice from cache, q once. Bound expected: memory; not yet
 * measured on a card. */
#include "kernels/canonical.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/check.h"

#define ROW_THREADS 256u
#define WARP_THREADS 32u
#define ROW_WARPS (ROW_THREADS / WARP_THREADS)
#define SEGMENTS_AT_ONCE (ROW_THREADS / CANONICAL_LANES)
#define SEGMENTS_MAX (KERNELS_K_MAX / CANONICAL_SEGMENT)
#define FULL_MASK 0xFFFFFFFFu

/* ---------------------------------------------------------------- kernels */

/* Lane l of a segment: its elements l, l + 16, ... in ascending order. */
static __device__ float lane_squares(const float *x, uint32_t begin, uint32_t lane, uint32_t dim) {
    float sum = 0.0f;
    for (uint32_t i = lane; i < CANONICAL_SEGMENT && begin + i < dim; i += CANONICAL_LANES) {
        sum = fmaf(x[begin + i], x[begin + i], sum);
    }
    return sum;
}

/* Sum of squares of the row, for every thread. Lanes past a segment's own hold what is not read. */
static __device__ float row_squares(const float *x, uint32_t dim) {
    CUDA_SHARED(float, segment_sum, [SEGMENTS_MAX]);
    uint32_t group = threadIdx.x / CANONICAL_LANES, lane = threadIdx.x % CANONICAL_LANES;
    uint32_t segments = (dim + CANONICAL_SEGMENT - 1u) / CANONICAL_SEGMENT;
    for (uint32_t first = 0; first < segments; first += SEGMENTS_AT_ONCE) {
        uint32_t segment = first + group;
        float sum = lane_squares(x, segment * CANONICAL_SEGMENT, lane, dim);
        for (uint32_t half = CANONICAL_LANES / 2u; half > 0u; half /= 2u) {
            sum = sum + __shfl_down_sync(FULL_MASK, sum, half);
        }
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

/* What the choice of a quantiser needs of a row. */
struct row_range {
    int amax_bits;
    float lo, hi;
};

static __device__ row_range wider(row_range a, int amax_bits, float lo, float hi) {
    a.amax_bits = amax_bits > a.amax_bits ? amax_bits : a.amax_bits;
    a.lo = lo < a.lo ? lo : a.lo;
    a.hi = hi > a.hi ? hi : a.hi;
    return a;
}

static __device__ row_range warp_range(row_range range) {
    for (uint32_t distance = WARP_THREADS / 2u; distance > 0u; distance /= 2u) {
        int amax_bits = __shfl_xor_sync(FULL_MASK, range.amax_bits, distance);
        float lo = __shfl_xor_sync(FULL_MASK, range.lo, distance);
        float hi = __shfl_xor_sync(FULL_MASK, range.hi, distance);
        range = wider(range, amax_bits, lo, hi);
    }
    return range;
}

static __device__ row_range block_range(row_range range) {
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

static __device__ int block_sum(int sum) {
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

static __device__ canonical_quantizer choose(const quantize_args &args, row_range range) {
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

static __device__ int8_t quantized_value(float y, const canonical_quantizer &by, bool affine) {
    if (by.scale == 0.0f) {
        return 0;
    }
    return affine ? canonical_q_affine(y, by.scale, by.zero_point)
                  : canonical_q_symmetric(y, by.factor);
}

static __global__ void __launch_bounds__(ROW_THREADS)
    rms_norm_quantize(norm_args norm, quantize_args args) {
    uint32_t t = blockIdx.x, dim = norm.dim;
    size_t row = norm.row_index != NULL ? static_cast<size_t>(norm.row_index[t]) : t;
    const float *x = norm.x + row * dim;
    float r = canonical_norm_factor(row_squares(x, dim), dim, norm.eps);
    row_range range = {0, 0.0f, 0.0f};
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        float y = (x[i] * r) * norm.weight[i];
        range = wider(range, static_cast<int>(canonical_bits(y) & 0x7FFFFFFFu), y, y);
    }
    canonical_quantizer by = choose(args, block_range(range));
    bool affine = args.static_scale != NULL || args.out.zero_point != NULL;
    int8_t *q = args.out.q + static_cast<size_t>(t) * dim;
    int sum = 0;
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS) {
        int8_t value = quantized_value((x[i] * r) * norm.weight[i], by, affine);
        q[i] = value;
        sum += value;
    }
    sum = block_sum(sum);
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

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_rms_norm_quantize(cudaStream_t stream,
                                           const struct norm_quantize_args *args) {
    if (!check_norm(&args->norm) || !check_quantize(&args->quantize)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(rms_norm_quantize, args->norm.rows, ROW_THREADS, 0, stream, args->norm,
                args->quantize);
    return cudaGetLastError() == cudaSuccess ? KERNELS_OK : KERNELS_FAILED;
}
