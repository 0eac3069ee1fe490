/* Penalties, temperature, top_k, top_p, min_p, draw: all choices are made on integers.
 *
 * Parallelisation: a block of 1024 threads a row of logits. Ids that weigh anything are listed in
 * shared memory, ascending, while they fit; else every step goes over the whole row. top_k and
 * top_p are one radix selection over the logits' keys, 8 bits at a time, by count or by weight: the
 * bin in which a running sum passes a target. Which ids of equal logits stay, and the draw, are the
 * same question asked of stretches of ids.
 * Bytes moved: the logits four times, once from memory, then from cache; a flat row, whose ids do
 * not fit the list, about twenty times. Bound expected: latency of one block, tens of microseconds
 * a row, all rows side by side; not yet measured on a card. */
#include "kernels/canonical.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/reference/check.h"

#define SAMPLE_THREADS 1024u
#define WARP_THREADS 32u
#define SAMPLE_WARPS (SAMPLE_THREADS / WARP_THREADS)
#define LISTED_MAX 4096u /* ids */
#define DIGIT_BITS 8u
#define DIGITS (1u << DIGIT_BITS)
#define FULL_MASK 0xFFFFFFFFu

#define SAMPLE_FN static __device__ __forceinline__

/* CUDA's 64-bit atomics are of this type. */
typedef unsigned long long sum64;

/* ---------------------------------------------------------------- running sums */

/* Where a running sum over the threads, in ascending order, passes a target. */
struct crossing {
    uint32_t thread;
    sum64 rest; /* of the target, past the threads before */
};

/* Inclusive sum from the thread to the end of its warp. */
SAMPLE_FN sum64 warp_suffix(sum64 mine) {
    uint32_t lane = threadIdx.x % WARP_THREADS;
    for (uint32_t distance = 1; distance < WARP_THREADS; distance *= 2u) {
        sum64 other = __shfl_down_sync(FULL_MASK, mine, distance);
        mine += lane + distance < WARP_THREADS ? other : 0u;
    }
    return mine;
}

/* The sum of the threads before, and of all. Begins and ends with a barrier. */
SAMPLE_FN sum64 block_before(sum64 mine, sum64 *total) {
    CUDA_SHARED(sum64, warp_sum, [SAMPLE_WARPS]);
    __syncthreads();
    sum64 suffix = warp_suffix(mine);
    if (threadIdx.x % WARP_THREADS == 0) {
        warp_sum[threadIdx.x / WARP_THREADS] = suffix;
    }
    __syncthreads();
    sum64 before = warp_sum[threadIdx.x / WARP_THREADS] - suffix;
    sum64 sum = 0;
    for (uint32_t warp = 0; warp < SAMPLE_WARPS; warp++) {
        before += warp < threadIdx.x / WARP_THREADS ? warp_sum[warp] : 0u;
        sum += warp_sum[warp];
    }
    *total = sum;
    __syncthreads();
    return before;
}

/* The first thread with which the running sum exceeds target, which is below the sum of all. */
SAMPLE_FN crossing block_cross(sum64 mine, sum64 target) {
    CUDA_SHARED(crossing, found, [1]);
    sum64 total;
    sum64 before = block_before(mine, &total);
    if (before <= target && target - before < mine) {
        found[0].thread = threadIdx.x;
        found[0].rest = target - before;
    }
    __syncthreads();
    return {found[0].thread, found[0].rest};
}

/* ---------------------------------------------------------------- the row */

struct sample_row {
    float *logits;
    uint32_t vocabulary;
    float largest, inverse_temperature;
    const uint32_t *list; /* shared; NULL = all ids are looked at */
    uint32_t count;       /* of the list, or the vocabulary */
    uint32_t key, last;   /* kept are ids with larger keys, and of this key those up to `last` */
};

SAMPLE_FN float distance_of(const sample_row &row, float logit) {
    return canonical_logit_distance(logit, row.largest, row.inverse_temperature);
}

/* One id that may be chosen. */
struct candidate {
    uint32_t id, key, weight;
};

/* Candidate i of the row; false for an id that weighs nothing, or was not kept. */
SAMPLE_FN bool candidate_at(const sample_row &row, uint32_t i, candidate *one) {
    uint32_t id = row.list != NULL ? row.list[i] : i;
    float logit = row.logits[id], distance = distance_of(row, logit);
    one->id = id;
    one->key = canonical_logit_key(logit);
    if (distance < CANONICAL_WEIGHTLESS || one->key < row.key ||
        (one->key == row.key && id > row.last)) {
        return false;
    }
    one->weight = canonical_logit_weight(distance);
    return true;
}

/* The thread's stretch of candidates: neighbours, so that a running sum over the threads ascends by
 * id. */
struct stretch {
    uint32_t begin, end;
};

SAMPLE_FN stretch stretch_of(uint32_t count) {
    uint32_t length = (count + SAMPLE_THREADS - 1u) / SAMPLE_THREADS;
    uint32_t begin = threadIdx.x * length;
    begin = begin < count ? begin : count;
    return {begin, count - begin < length ? count : begin + length};
}

/* ---------------------------------------------------------------- penalties, the largest logit */

SAMPLE_FN void penalize(const sample_params &params, uint32_t s, const sample_row &row) {
    int32_t end = params.seen_begin[s + 1u];
    for (int32_t i = params.seen_begin[s] + static_cast<int32_t>(threadIdx.x); i < end;
         i += static_cast<int32_t>(SAMPLE_THREADS)) {
        uint32_t id = static_cast<uint32_t>(params.seen_id[i]);
        if (id < row.vocabulary) {
            row.logits[id] =
                canonical_penalize(row.logits[id], params.seen_count[i], params.repetition[s],
                                   params.presence[s], params.frequency[s]);
        }
    }
    __syncthreads();
}

/* Maximum over the threads; a call has its own place. */
SAMPLE_FN int32_t block_max(int32_t mine, int *place) {
    for (uint32_t distance = WARP_THREADS / 2u; distance > 0u; distance /= 2u) {
        int32_t other = __shfl_xor_sync(FULL_MASK, mine, distance);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x == 0) {
        *place = mine;
    }
    __syncthreads();
    if (threadIdx.x % WARP_THREADS == 0) {
        atomicMax(place, mine);
    }
    __syncthreads();
    return *place;
}

/* Finds the largest logit, on bit patterns: sign-cleared ones keep a NaN, and ones whose lower bits
 * are flipped where negative order as floats do. False for a row without a distribution. */
SAMPLE_FN bool find_largest(sample_row *row) {
    CUDA_SHARED(int, place, [2]);
    int32_t magnitude = 0, most = INT32_MIN;
    for (uint32_t i = threadIdx.x; i < row->vocabulary; i += SAMPLE_THREADS) {
        int32_t bits = static_cast<int32_t>(canonical_bits(row->logits[i]));
        int32_t cleared = bits & INT32_MAX, ordered = bits < 0 ? bits ^ INT32_MAX : bits;
        magnitude = cleared > magnitude ? cleared : magnitude;
        most = ordered > most ? ordered : most;
    }
    magnitude = block_max(magnitude, &place[0]);
    most = block_max(most, &place[1]);
    row->largest = canonical_float(static_cast<uint32_t>(most < 0 ? most ^ INT32_MAX : most));
    return magnitude <= static_cast<int32_t>(CANONICAL_INF_BITS) &&
           !canonical_logit_is_bad(row->largest) &&
           row->largest > -canonical_float(CANONICAL_INF_BITS);
}

/* The first id with the largest logit. */
SAMPLE_FN uint32_t first_largest(const sample_row &row) {
    CUDA_SHARED(int, place, [1]);
    int32_t first = INT32_MAX;
    for (uint32_t i = threadIdx.x; i < row.vocabulary && first == INT32_MAX; i += SAMPLE_THREADS) {
        first = row.logits[i] == row.largest ? static_cast<int32_t>(i) : first;
    }
    return static_cast<uint32_t>(-block_max(-first, place));
}

/* ---------------------------------------------------------------- the list */

/* Lists the ids that weigh anything, if they fit; returns how many there are. */
SAMPLE_FN uint32_t list_candidates(sample_row *row, uint32_t *list) {
    stretch mine = stretch_of(row->vocabulary);
    candidate one;
    uint32_t count = 0;
    for (uint32_t i = mine.begin; i < mine.end; i++) {
        count += candidate_at(*row, i, &one) ? 1u : 0u;
    }
    sum64 total;
    uint32_t next = static_cast<uint32_t>(block_before(count, &total));
    if (total > LISTED_MAX) {
        return static_cast<uint32_t>(total);
    }
    for (uint32_t i = mine.begin; i < mine.end; i++) {
        if (candidate_at(*row, i, &one)) {
            list[next++] = i;
        }
    }
    __syncthreads();
    row->list = list;
    row->count = static_cast<uint32_t>(total);
    return row->count;
}

/* ---------------------------------------------------------------- selection */

/* Sum of amount(candidate) over each bin of the digit at `shift`, of the candidates whose key has
 * `prefix` above it. */
template <typename Amount>
SAMPLE_FN void fill_bins(const sample_row &row, uint32_t shift, uint32_t prefix, sum64 *bin,
                         Amount amount) {
    if (threadIdx.x < DIGITS) {
        bin[threadIdx.x] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < row.count; i += SAMPLE_THREADS) {
        candidate one;
        /* 64 bits, for at the first digit nothing is above it. */
        if (candidate_at(row, i, &one) &&
            (static_cast<uint64_t>(one.key) >> (shift + DIGIT_BITS)) == prefix) {
            atomicAdd(&bin[(one.key >> shift) % DIGITS], static_cast<sum64>(amount(one)));
        }
    }
    __syncthreads();
}

/* In the order of choice, the key of the first candidate with which the running sum of amount
 * exceeds *target; leaves in it what is left for the candidates of that key. */
template <typename Amount>
SAMPLE_FN uint32_t select_key(const sample_row &row, sum64 *target, Amount amount) {
    CUDA_SHARED(sum64, bin, [DIGITS]);
    uint32_t prefix = 0;
    for (uint32_t shift = 32u - DIGIT_BITS;; shift -= DIGIT_BITS) {
        fill_bins(row, shift, prefix, bin, amount);
        sum64 mine = threadIdx.x < DIGITS ? bin[DIGITS - 1u - threadIdx.x] : 0u;
        crossing found = block_cross(mine, *target);
        *target = found.rest;
        prefix = prefix << DIGIT_BITS | (DIGITS - 1u - found.thread);
        if (shift == 0) {
            return prefix;
        }
    }
}

/* In ascending order of ids, the candidate with which the running sum of amount exceeds target. */
template <typename Amount>
SAMPLE_FN uint32_t select_id(const sample_row &row, sum64 target, Amount amount) {
    CUDA_SHARED(uint32_t, chosen, [1]);
    stretch stretch = stretch_of(row.count);
    candidate one;
    sum64 mine = 0;
    for (uint32_t i = stretch.begin; i < stretch.end; i++) {
        mine += candidate_at(row, i, &one) ? amount(one) : 0u;
    }
    crossing found = block_cross(mine, target);
    if (threadIdx.x == found.thread) {
        sum64 sum = 0;
        uint32_t i = stretch.begin;
        for (; sum <= found.rest; i++) {
            sum += candidate_at(row, i, &one) ? amount(one) : 0u;
        }
        chosen[0] = one.id;
    }
    __syncthreads();
    return chosen[0];
}

/* Keeps the candidates up to the one of `key` that has `ties` of its key before it. */
SAMPLE_FN void cut(sample_row *row, uint32_t key, sum64 ties) {
    row->last = select_id(*row, ties, [key](const candidate &one) {
        return static_cast<uint32_t>(one.key == key ? 1u : 0u);
    });
    row->key = key;
}

SAMPLE_FN void keep_top_k(sample_row *row, uint32_t top_k) {
    sum64 target = top_k - 1u;
    uint32_t key =
        select_key(*row, &target, [](const candidate &) { return static_cast<uint32_t>(1u); });
    cut(row, key, target);
}

/* Sum of amount over the candidates. */
template <typename Amount> SAMPLE_FN sum64 sum_of(const sample_row &row, Amount amount) {
    sum64 mine = 0, total;
    for (uint32_t i = threadIdx.x; i < row.count; i += SAMPLE_THREADS) {
        candidate one;
        mine += candidate_at(row, i, &one) ? amount(one) : 0u;
    }
    block_before(mine, &total);
    return total;
}

/* The least sum for which canonical_top_p_reached holds: total * top_p / 2^16, rounded up. At least
 * 1, for the first is always kept, and weighs more than that. */
SAMPLE_FN sum64 top_p_sum(sum64 total, uint32_t top_p_q16) {
    sum64 sum = (total >> 16) * top_p_q16 + (((total & 0xFFFFu) * top_p_q16 + 0xFFFFu) >> 16);
    return sum > 0u ? sum : 1u;
}

SAMPLE_FN void keep_top_p(sample_row *row, uint32_t top_p_q16) {
    auto weight = [](const candidate &one) { return one.weight; };
    sum64 target = top_p_sum(sum_of(*row, weight), top_p_q16) - 1u;
    uint32_t key = select_key(*row, &target, weight);
    /* Of equal logits each weighs the same. */
    float logit = canonical_float(key ^ ((key >> 31) != 0u ? 0x80000000u : 0xFFFFFFFFu));
    cut(row, key, target / canonical_logit_weight(distance_of(*row, logit)));
}

/* Draws among what is kept and weighs enough; the largest logit always does. */
SAMPLE_FN uint32_t draw(const sample_row &row, uint32_t min_weight, uint64_t random) {
    auto weight = [min_weight](const candidate &one) {
        return one.weight >= min_weight ? one.weight : 0u;
    };
    sum64 total = sum_of(row, weight);
    return select_id(row, canonical_mulhi64(random, total), weight);
}

/* ---------------------------------------------------------------- kernels */

SAMPLE_FN uint32_t choose(const sample_params &params, uint32_t s, sample_row *row) {
    CUDA_SHARED(uint32_t, list, [LISTED_MAX]);
    if (params.temperature[s] < 0.01f) {
        return first_largest(*row);
    }
    row->inverse_temperature = 1.0f / params.temperature[s];
    uint32_t count = list_candidates(row, list);
    if (params.top_k[s] > 0u && params.top_k[s] < count) {
        keep_top_k(row, params.top_k[s]);
    }
    if (params.top_p_q16[s] < 65536u) {
        keep_top_p(row, params.top_p_q16[s]);
    }
    return draw(*row, canonical_min_p_weight(params.min_p_q16[s]),
                canonical_random(params.seed[s], params.position[s]));
}

static __global__ void __launch_bounds__(SAMPLE_THREADS, 1) sample(sample_args args) {
    uint32_t s = blockIdx.x;
    sample_row row = {args.logits + static_cast<size_t>(s) * args.vocabulary,
                      args.vocabulary,
                      0.0f,
                      0.0f,
                      NULL,
                      args.vocabulary,
                      0,
                      FULL_MASK};
    penalize(args.params, s, row);
    bool good = find_largest(&row);
    uint32_t token = good ? choose(args.params, s, &row) : 0u;
    if (threadIdx.x == 0) {
        args.token[s] = static_cast<int32_t>(token);
        args.bad[s] = static_cast<uint8_t>(args.bad[s] | (good ? 0 : 1));
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_sample(cudaStream_t stream, const struct sample_args *args) {
    if (!check_sample(args)) {
        return KERNELS_INVALID;
    }
    CUDA_LAUNCH(sample, args->rows, SAMPLE_THREADS, 0, stream, *args);
    return cuda_launch_status();
}
