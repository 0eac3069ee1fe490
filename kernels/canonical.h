/* The arithmetic: every rounding that a kernel of any back end makes, written once, scalar.
 *
 * Two kernels that follow this file give the same bits, whatever their vector width, thread count
 * or device. Nothing here may be contracted, reassociated or flushed: host code is built with
 * -ffp-contract=off, CUDA with --fmad=false -ftz=false -prec-div=true -prec-sqrt=true, every host
 * thread runs with MXCSR 0x1F80. Only correctly rounded operations are used (+ - * / fmaf sqrtf
 * rintf and conversions). NaN payloads are unspecified. A change here bumps `numerics`.
 *
 * Pure functions over values and rows; no memory, no thread, no size checks. Compiles as C11, C++17
 * and CUDA C++. Loops are shaped for compilers to vectorise: that never changes a result, for no
 * sum is reordered. */
#ifndef SOLFLEET_KERNELS_CANONICAL_H
#define SOLFLEET_KERNELS_CANONICAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KERNELS_DEVICE_FN static __host__ __device__ __forceinline__
#else
#define KERNELS_DEVICE_FN static inline
#endif

#define CANONICAL_LANES 16u
#define CANONICAL_SEGMENT 256u /* elements of a row that are summed before their sum is added */

/* ---------------------------------------------------------------- bits */

KERNELS_DEVICE_FN uint32_t canonical_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

KERNELS_DEVICE_FN float canonical_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* f16 to f32, exact; a NaN stays a NaN. */
KERNELS_DEVICE_FN float canonical_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7FFFu;
    uint32_t normal = (magnitude << 13) + 0x38000000u; /* exponent bias 15 -> 127 */
    uint32_t special = (magnitude << 13) | 0x7F800000u;
    uint32_t small = canonical_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude < 0x0400u ? small : normal;
    bits = magnitude >= 0x7C00u ? special : bits;
    return canonical_float(sign | bits);
}

/* f32 to f16, round half to even; overflow gives inf, NaN a quiet NaN. */
KERNELS_DEVICE_FN uint16_t canonical_f32_to_f16(float x) {
    uint32_t bits = canonical_bits(x);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t normal = (magnitude + 0x0FFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    /* Below 2^-14 halves are multiples of 2^-24, which is the spacing of floats in [0.5, 1). */
    float tiny = canonical_float(magnitude < 0x38800000u ? magnitude : 0u);
    uint32_t small = canonical_bits(tiny + 0.5f) - 0x3F000000u;
    uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x477FF000u ? 0x7C00u : half; /* rounds to 2^16 or more */
    half = magnitude > 0x7F800000u ? 0x7E00u : half;
    return (uint16_t)(sign | half);
}

/* ---------------------------------------------------------------- exp and what is made of it */

/* e^x within 1 ulp (0.975 at most seen); exp(0) = 1 exactly; x < -80 gives +0, x > 88.7 gives +inf,
 * NaN gives NaN. x = n ln2 + r, |r| <= ln2/2; e^r = 1 + r + r^2 q(r), q minimax of degree 4. Adding
 * 1.5 * 2^23 leaves n in the low bits, from where a shift takes it to the exponent. */
KERNELS_DEVICE_FN float canonical_exp(float x) {
    float in = x > -80.0f ? x : -80.0f; /* also for NaN: whatever comes out is replaced below */
    in = in < 88.7f ? in : 88.7f;
    float shifted = fmaf(in, 0x1.715476p+0f, 0x1.8p+23f);
    float n = shifted - 0x1.8p+23f;
    float r = fmaf(n, -0x1.62ep-1f, in);
    r = fmaf(n, -0x1.0bfbe8p-15f, r);
    float q = fmaf(0x1.6bda9p-10f, r, 0x1.123ed6p-7f);
    q = fmaf(q, r, 0x1.5557dcp-5f);
    q = fmaf(q, r, 0x1.55548cp-3f);
    q = fmaf(q, r, 0x1.fffffcp-2f);
    float power = 1.0f + fmaf(q, r * r, r);
    float y = canonical_float(canonical_bits(power) + (canonical_bits(shifted) << 23));
    y = x < -80.0f ? 0.0f : y;
    y = x > 88.7f ? canonical_float(0x7F800000u) : y;
    return x != x ? x : y;
}

KERNELS_DEVICE_FN float canonical_silu_mul(float gate, float up) {
    return (gate / (1.0f + canonical_exp(-gate))) * up;
}

/* GELU, tanh form: x * (1 + tanh(z/2)) / 2 = x / (1 + e^-z), z = 2 sqrt(2/pi) (x + 0.044715
 * x^3). */
KERNELS_DEVICE_FN float canonical_gelu(float x) {
    float z = x * fmaf(0.0713548162726f, x * x, 1.5957691216057f);
    return x / (1.0f + canonical_exp(-z));
}

/* ---------------------------------------------------------------- sums over a row */

/* Folds 16 lanes: lane i += lane i+8, then +4, +2, +1. Destroys lane. */
KERNELS_DEVICE_FN float canonical_fold(float lane[CANONICAL_LANES]) {
    for (uint32_t half = CANONICAL_LANES / 2u; half > 0u; half /= 2u) {
        for (uint32_t i = 0; i < half; i++) {
            lane[i] = lane[i] + lane[i + half];
        }
    }
    return lane[0];
}

/* Sum of one segment of at most 256 elements: element i goes to lane i mod 16, ascending. */
KERNELS_DEVICE_FN float canonical_segment_sum(const float *x, uint32_t count) {
    float lane[CANONICAL_LANES] = {0};
    uint32_t whole = count & ~(CANONICAL_LANES - 1u);
    for (uint32_t i = 0; i < whole; i += CANONICAL_LANES) {
        for (uint32_t l = 0; l < CANONICAL_LANES; l++) {
            lane[l] = lane[l] + x[i + l];
        }
    }
    for (uint32_t i = whole; i < count; i++) {
        lane[i - whole] = lane[i - whole] + x[i];
    }
    return canonical_fold(lane);
}

/* The same of (x - mean)^2, each square added by one fmaf. */
KERNELS_DEVICE_FN float canonical_segment_squares(const float *x, float mean, uint32_t count) {
    float lane[CANONICAL_LANES] = {0};
    uint32_t whole = count & ~(CANONICAL_LANES - 1u);
    for (uint32_t i = 0; i < whole; i += CANONICAL_LANES) {
        for (uint32_t l = 0; l < CANONICAL_LANES; l++) {
            float c = x[i + l] - mean;
            lane[l] = fmaf(c, c, lane[l]);
        }
    }
    for (uint32_t i = whole; i < count; i++) {
        float c = x[i] - mean;
        lane[i - whole] = fmaf(c, c, lane[i - whole]);
    }
    return canonical_fold(lane);
}

/* Segment sums are added in ascending order. */
KERNELS_DEVICE_FN float canonical_sum(const float *x, uint32_t count) {
    float total = 0.0f;
    for (uint32_t begin = 0; begin < count; begin += CANONICAL_SEGMENT) {
        uint32_t left = count - begin;
        total = total + canonical_segment_sum(x + begin,
                                              left < CANONICAL_SEGMENT ? left : CANONICAL_SEGMENT);
    }
    return total;
}

KERNELS_DEVICE_FN float canonical_sum_squares(const float *x, float mean, uint32_t count) {
    float total = 0.0f;
    for (uint32_t begin = 0; begin < count; begin += CANONICAL_SEGMENT) {
        uint32_t left = count - begin;
        total = total + canonical_segment_squares(
                            x + begin, mean, left < CANONICAL_SEGMENT ? left : CANONICAL_SEGMENT);
    }
    return total;
}

/* ---------------------------------------------------------------- norms */

/* The factor of a norm: y = (x * factor) * w. sum_squares is of x (RMS) or of x - mean (Layer). */
KERNELS_DEVICE_FN float canonical_norm_factor(float sum_squares, uint32_t dim, float eps) {
    return 1.0f / sqrtf(sum_squares / (float)dim + eps);
}

/* RMSNorm's squares: subtracting a mean of +0 changes no square. */
KERNELS_DEVICE_FN float canonical_rms_factor(const float *x, uint32_t dim, float eps) {
    return canonical_norm_factor(canonical_sum_squares(x, 0.0f, dim), dim, eps);
}

/* ---------------------------------------------------------------- INT8 */

#define CANONICAL_INF_BITS 0x7F800000u /* sign-cleared bits >= this: an infinity or a NaN */
#define CANONICAL_TINY 0x1p-100f       /* a row whose amax (or range) is below counts as zero */

/* Largest sign-cleared bit pattern: unlike a float max it cannot lose a NaN. */
KERNELS_DEVICE_FN uint32_t canonical_amax_bits(const float *x, uint32_t count) {
    int32_t largest =
        0; /* sign-cleared patterns order as signed integers, too: cheaper to vectorise */
    for (uint32_t i = 0; i < count; i++) {
        int32_t bits = (int32_t)(canonical_bits(x[i]) & 0x7FFFFFFFu);
        largest = bits > largest ? bits : largest;
    }
    return (uint32_t)largest;
}

/* How a row is quantised. All zero (q = 0, scale = 0) for a bad row and for one that counts as
 * zero. */
struct canonical_quantizer {
    float scale;        /* x ~ (q - zero_point) * scale */
    float factor;       /* symmetric: q = rint(x * factor) */
    int32_t zero_point; /* asymmetric and static: q = clamp(rint(x / scale) + zero_point) */
    bool bad;
};

KERNELS_DEVICE_FN struct canonical_quantizer canonical_quantize_symmetric(uint32_t amax_bits) {
    struct canonical_quantizer quantizer = {0.0f, 0.0f, 0, amax_bits >= CANONICAL_INF_BITS};
    float amax = canonical_float(amax_bits);
    if (!quantizer.bad && amax >= CANONICAL_TINY) {
        quantizer.scale = amax / 127.0f;
        quantizer.factor = 127.0f / amax;
    }
    return quantizer;
}

/* lo = min(0, row), hi = max(0, row); amax_bits tells NaN and infinity. A finite row whose range
 * overflows is bad, too. */
KERNELS_DEVICE_FN struct canonical_quantizer canonical_quantize_asymmetric(uint32_t amax_bits,
                                                                           float lo, float hi) {
    float range = hi - lo;
    struct canonical_quantizer quantizer = {0.0f, 0.0f, 0, amax_bits >= CANONICAL_INF_BITS};
    quantizer.bad = quantizer.bad || canonical_bits(range) >= CANONICAL_INF_BITS;
    if (!quantizer.bad && range >= CANONICAL_TINY) {
        quantizer.scale = range / 255.0f;
        quantizer.zero_point = (int32_t)rintf(-128.0f - lo / quantizer.scale);
    }
    return quantizer;
}

KERNELS_DEVICE_FN int8_t canonical_q_symmetric(float x, float factor) {
    return (int8_t)(int32_t)rintf(x * factor); /* |x * factor| <= 127 (1 + 2^-23) */
}

/* For scale > 0 and finite x. The first clamp keeps the conversion to an integer defined. */
KERNELS_DEVICE_FN int8_t canonical_q_affine(float x, float scale, int32_t zero_point) {
    float steps = rintf(x / scale);
    steps = steps > -65536.0f ? steps : -65536.0f;
    steps = steps < 65536.0f ? steps : 65536.0f;
    int32_t q = (int32_t)steps + zero_point;
    q = q > -128 ? q : -128;
    return (int8_t)(q < 127 ? q : 127);
}

/* Epilogue of an INT8 sum with one group; scale = sx * sw; bias NULL = none. */
KERNELS_DEVICE_FN float canonical_dequantize(int32_t value, float scale, const float *bias) {
    return bias != NULL ? fmaf((float)value, scale, *bias) : (float)value * scale;
}

/* ---------------------------------------------------------------- rotary embedding */

/* Rotates the half-split pair (x0, x1) by the angle whose cosine and sine are given. */
KERNELS_DEVICE_FN void canonical_rotate(float *x0, float *x1, float cosine, float sine) {
    float first = *x0, second = *x1;
    *x0 = fmaf(first, cosine, -(second * sine));
    *x1 = fmaf(second, cosine, first * sine);
}

/* ---------------------------------------------------------------- attention
 *
 * Block b holds positions 256b .. 256b + 255, for prefill and decode alike. A score is an FMA chain
 * over ascending d from +0, then times scale. Over the keys of a block that a row may see: m_b is
 * the largest score, p_j = exp(s_j - m_b), l_b = canonical_segment_sum of p (index j - 256b),
 * o_b[d] an FMA chain of p_j and v_j[d] over ascending j from +0. Keys beyond the row's position
 * are left out, never multiplied with zero. Blocks are merged in ascending order; the output is o *
 * (1.0f / l). Keys and values are read from pages only, after rounding to the stored type. */

/* scale of the scores, multiplied after the FMA chain over d. */
KERNELS_DEVICE_FN float canonical_attention_scale(uint32_t head_dim) {
    return 1.0f / sqrtf((float)head_dim);
}

/* A NaN is passed over here: it still reaches the row through its own exp(s - m). */
KERNELS_DEVICE_FN float canonical_max(float a, float b) {
    return b > a ? b : a;
}

/* How block b (m_b, l_b, o_b) joins the blocks before it:
 * l = fmaf(l, before, l_b * block), o = fmaf(o, before, o_b * block), m = m'. Block 0 is copied. */
struct canonical_merge {
    float max, before, block;
};

KERNELS_DEVICE_FN struct canonical_merge canonical_attention_merge(float max, float block_max) {
    struct canonical_merge merge;
    merge.max = canonical_max(max, block_max);
    merge.before = canonical_exp(max - merge.max);
    merge.block = canonical_exp(block_max - merge.max);
    return merge;
}

/* ---------------------------------------------------------------- random numbers */

/* High 64 bits of the 128-bit product. */
KERNELS_DEVICE_FN uint64_t canonical_mulhi64(uint64_t a, uint64_t b) {
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t cross = a_high * b_low + ((a_low * b_low) >> 32); /* cannot overflow */
    uint64_t middle = a_low * b_high + (uint32_t)cross;
    return a_high * b_high + (cross >> 32) + (middle >> 32);
}

/* Philox4x32-10 (Salmon et al. 2011): counter is replaced by its random block. */
KERNELS_DEVICE_FN void canonical_philox(uint32_t counter[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * counter[0];
        uint64_t product1 = (uint64_t)0xCD9E8D57u * counter[2];
        counter[0] = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        counter[2] = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[1] = (uint32_t)product1;
        counter[3] = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* The 64 random bits of a drawn token: key = seed, counter = its absolute position. */
KERNELS_DEVICE_FN uint64_t canonical_random(uint64_t seed, uint64_t position) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0u, 0u};
    canonical_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return (uint64_t)counter[1] << 32 | counter[0];
}

/* ---------------------------------------------------------------- sampling
 *
 * Penalties, temperature, top_k, top_p, min_p, draw. Ids are ordered by logit descending, then id
 * ascending. A temperature below 0.01 takes the first. Else weights are integers: top_k keeps the
 * first k (0 = all); top_p the shortest prefix that reaches its part of what top_k kept; min_p
 * drops small weights of that prefix. The draw takes, in ascending id, the first whose running sum
 * exceeds mulhi64(random, sum of the kept). A row with a NaN, a +inf or nothing but -inf has no
 * distribution. */

/* Penalties of one id: repetition counts the prompt, presence and frequency only the answer. */
KERNELS_DEVICE_FN float canonical_penalize(float logit, int32_t answer_count, float repetition,
                                           float presence, float frequency) {
    logit = logit > 0.0f ? logit / repetition : logit * repetition;
    if (answer_count > 0) {
        logit = logit - presence;
        logit = fmaf(-(float)answer_count, frequency, logit);
    }
    return logit;
}

/* A key that orders logits as unsigned integers, larger = more likely; -0 = +0. */
KERNELS_DEVICE_FN uint32_t canonical_logit_key(float logit) {
    uint32_t bits = canonical_bits(logit + 0.0f); /* -0 + 0 = +0 */
    return bits ^ ((bits >> 31) != 0u ? 0xFFFFFFFFu : 0x80000000u);
}

/* NaN and +inf have no place in a distribution. */
KERNELS_DEVICE_FN bool canonical_logit_is_bad(float logit) {
    return !(logit < canonical_float(CANONICAL_INF_BITS));
}

/* Below this scaled distance from the largest logit every weight is 0, as e^-22 * 2^30 < 0.3. */
#define CANONICAL_WEIGHTLESS (-22.0f)

/* Distance from the largest logit after temperature, <= 0. */
KERNELS_DEVICE_FN float canonical_logit_distance(float logit, float largest,
                                                 float inverse_temperature) {
    return (logit - largest) * inverse_temperature;
}

/* Weight in units of 2^-30; 2^30 at the largest logit. */
KERNELS_DEVICE_FN uint32_t canonical_logit_weight(float distance) {
    return (uint32_t)(int32_t)rintf(canonical_exp(distance) * 0x1p+30f);
}

/* Whether a prefix of weight `sum` reaches top_p (in 1/65536) of `total`: sum << 16 >= p * total in
 * 128 bits, since vocabularies beyond 2^18 pass 64. */
KERNELS_DEVICE_FN bool canonical_top_p_reached(uint64_t sum, uint64_t total, uint32_t top_p_q16) {
    uint64_t sum_high = sum >> 48, part_high = canonical_mulhi64(total, top_p_q16);
    return sum_high != part_high ? sum_high > part_high
                                 : (uint64_t)(sum << 16) >= (uint64_t)(total * top_p_q16);
}

/* Weights below this are dropped by min_p (the first never is). */
KERNELS_DEVICE_FN uint32_t canonical_min_p_weight(uint32_t min_p_q16) {
    return min_p_q16 << 14;
}

#endif
