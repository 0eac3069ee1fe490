/* Penalties, temperature, top_k, top_p, min_p, draw: all choices are made on integers. */
#include "kernels/reference/sample.h"

#include "kernels/canonical.h"
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/reference.h"

/* ---------------------------------------------------------------- sorting */

#define SAMPLE_BINS 2048u     /* of a radix pass (11 bits) and of top_k's first cut */
#define SAMPLE_SMALL_MAX 128u /* insertion sort up to here */

/* An entry has what it is ordered by in its high 32 bits. */
static void sample_sort_small(uint64_t *entry, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint64_t moving = entry[i];
        uint32_t to = i;
        while (to > 0 && entry[to - 1] > moving) {
            entry[to] = entry[to - 1];
            to--;
        }
        entry[to] = moving;
    }
}

static void sample_sort_pass(const uint64_t *from, uint64_t *to, uint32_t count, unsigned shift,
                             uint32_t *bin) {
    memset(bin, 0, SAMPLE_BINS * sizeof *bin);
    for (uint32_t i = 0; i < count; i++) {
        bin[(from[i] >> shift) % SAMPLE_BINS]++;
    }
    uint32_t next = 0;
    for (uint32_t b = 0; b < SAMPLE_BINS; b++) {
        uint32_t size = bin[b];
        bin[b] = next;
        next += size;
    }
    for (uint32_t i = 0; i < count; i++) {
        to[bin[(from[i] >> shift) % SAMPLE_BINS]++] = from[i];
    }
}

/* Sorts ascending; entries of equal high words must already stand in the order of their low words.
 * Returns where the result is: entry or spare. */
static uint64_t *sample_sort(uint64_t *entry, uint64_t *spare, uint32_t count, uint32_t *bin) {
    if (count <= SAMPLE_SMALL_MAX) {
        sample_sort_small(entry, count);
        return entry;
    }
    sample_sort_pass(entry, spare, count, 32, bin);
    sample_sort_pass(spare, entry, count, 43, bin);
    sample_sort_pass(entry, spare, count, 54, bin);
    return spare;
}

/* ---------------------------------------------------------------- kernels */

/* A row under way, in a worker's part of the workspace. */
struct sample_row {
    const float *logits;
    uint32_t vocabulary;
    float largest, inverse_temperature;
    uint64_t *entry, *spare; /* [V] each */
    uint32_t *bin;           /* [SAMPLE_BINS] */
    uint32_t count;          /* entries */
};

void reference_sample_penalize(const struct sample_params *params, uint32_t s, float *logits,
                               uint32_t vocabulary) {
    for (int32_t i = params->seen_begin[s]; i < params->seen_begin[s + 1]; i++) {
        uint32_t id = (uint32_t)params->seen_id[i];
        if (id < vocabulary) {
            logits[id] =
                canonical_penalize(logits[id], params->seen_count[i], params->repetition[s],
                                   params->presence[s], params->frequency[s]);
        }
    }
}

/* Finds the largest logit. False for a row without a distribution: a NaN, +inf, or all -inf. On bit
 * patterns, of which a maximum loses nothing and vectorises: sign-cleared ones for NaN, and ones
 * whose lower bits are flipped where negative, which then order as the floats do. */
static bool sample_largest(const float *logits, uint32_t vocabulary, float *largest) {
    int32_t magnitude = 0, most = INT32_MIN;
    for (uint32_t i = 0; i < vocabulary; i++) {
        int32_t bits = (int32_t)canonical_bits(logits[i]);
        int32_t cleared = bits & INT32_MAX;
        int32_t ordered = bits < 0 ? bits ^ INT32_MAX : bits;
        magnitude = cleared > magnitude ? cleared : magnitude;
        most = ordered > most ? ordered : most;
    }
    *largest = canonical_float((uint32_t)(most < 0 ? most ^ INT32_MAX : most));
    return magnitude <= (int32_t)CANONICAL_INF_BITS && !canonical_logit_is_bad(*largest) &&
           *largest > -canonical_float(CANONICAL_INF_BITS);
}

static int32_t sample_first(const float *logits, float largest) {
    int32_t id = 0;
    while (logits[id] != largest) {
        id++;
    }
    return id;
}

static float sample_distance(const struct sample_row *row, float logit) {
    return canonical_logit_distance(logit, row->largest, row->inverse_temperature);
}

/* Whether any of the logits of ids begin .. end - 1 has a weight. */
static bool sample_any(const struct sample_row *row, uint32_t begin, uint32_t end) {
    int32_t any = 0;
    for (uint32_t id = begin; id < end; id++) {
        any |= sample_distance(row, row->logits[id]) >= CANONICAL_WEIGHTLESS;
    }
    return any != 0;
}

#define SAMPLE_STRETCH 64u /* ids looked at together: few logits of a model have a weight */

/* Entries for every id that has a weight, ascending by id: the complement of the logit's key above
 * the id, so that ascending entries are the order of choice. What lies beyond
 * CANONICAL_WEIGHTLESS is last in that order and weighs nothing: no later step can tell. */
static void sample_collect(struct sample_row *row) {
    uint32_t count = 0;
    for (uint32_t begin = 0; begin < row->vocabulary; begin += SAMPLE_STRETCH) {
        uint32_t left = row->vocabulary - begin;
        uint32_t end = begin + (left < SAMPLE_STRETCH ? left : SAMPLE_STRETCH);
        if (!sample_any(row, begin, end)) {
            continue;
        }
        for (uint32_t id = begin; id < end; id++) {
            float logit = row->logits[id];
            row->entry[count] = (uint64_t)~canonical_logit_key(logit) << 32 | id;
            count += sample_distance(row, logit) >= CANONICAL_WEIGHTLESS;
        }
    }
    row->count = count;
}

static uint32_t sample_entry_id(uint64_t entry) {
    return (uint32_t)entry;
}

/* Coarse place in the order of choice: never descending along it. */
static uint32_t sample_entry_bin(const struct sample_row *row, uint64_t entry) {
    float distance = sample_distance(row, row->logits[sample_entry_id(entry)]);
    return (uint32_t)(int32_t)(distance * ((float)(SAMPLE_BINS - 1) / CANONICAL_WEIGHTLESS));
}

/* Drops bins that lie wholly past the first `keep` entries, so that fewer are sorted. */
static void sample_cut(struct sample_row *row, uint32_t keep) {
    memset(row->bin, 0, SAMPLE_BINS * sizeof *row->bin);
    for (uint32_t i = 0; i < row->count; i++) {
        row->bin[sample_entry_bin(row, row->entry[i])]++;
    }
    uint32_t last = 0;
    for (uint32_t sum = row->bin[0]; sum < keep; sum += row->bin[last]) {
        last++;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        uint64_t entry = row->entry[i];
        row->entry[count] = entry;
        count += sample_entry_bin(row, entry) <= last;
    }
    row->count = count;
}

static uint32_t sample_entry_weight(const struct sample_row *row, uint64_t entry) {
    return canonical_logit_weight(sample_distance(row, row->logits[sample_entry_id(entry)]));
}

/* How many of the first entries top_p keeps; at least one. */
static uint32_t sample_top_p(const struct sample_row *row, uint32_t top_p_q16) {
    uint64_t total = 0, sum = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        total += sample_entry_weight(row, row->entry[i]);
    }
    for (uint32_t i = 0; i < row->count; i++) {
        sum += sample_entry_weight(row, row->entry[i]);
        if (canonical_top_p_reached(sum, total, top_p_q16)) {
            return i + 1;
        }
    }
    return row->count;
}

/* Leaves the entries that top_k and top_p keep, then gives them as (id, weight), ascending by
 * id. */
static void sample_truncate(struct sample_row *row, uint32_t top_k, uint32_t top_p_q16) {
    bool some = top_k > 0 && top_k < row->count;
    if (some) {
        sample_cut(row, top_k);
    }
    if (some || top_p_q16 < 65536u) {
        uint64_t *sorted = sample_sort(row->entry, row->spare, row->count, row->bin);
        row->spare = sorted == row->entry ? row->spare : row->entry;
        row->entry = sorted;
        row->count = some ? top_k : row->count;
        row->count = top_p_q16 < 65536u ? sample_top_p(row, top_p_q16) : row->count;
    }
    for (uint32_t i = 0; i < row->count; i++) {
        uint64_t entry = row->entry[i];
        row->entry[i] = (uint64_t)sample_entry_id(entry) << 32 | sample_entry_weight(row, entry);
    }
    row->entry = sample_sort(row->entry, row->spare, row->count, row->bin);
}

/* Draws among the entries that weigh at least min_weight; the largest logit always does. */
static int32_t sample_draw(const struct sample_row *row, uint32_t min_weight, uint64_t random) {
    uint64_t total = 0, sum = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        uint32_t weight = (uint32_t)row->entry[i];
        total += weight >= min_weight ? weight : 0u;
    }
    uint64_t target = canonical_mulhi64(random, total);
    uint32_t i = 0;
    for (;; i++) {
        uint32_t weight = (uint32_t)row->entry[i];
        sum += weight >= min_weight ? weight : 0u;
        if (sum > target) {
            return (int32_t)(row->entry[i] >> 32);
        }
    }
}

static int32_t sample_choose(struct sample_row *row, const struct sample_params *params,
                             uint32_t s) {
    if (params->temperature[s] < 0.01f) {
        return sample_first(row->logits, row->largest);
    }
    row->inverse_temperature = 1.0f / params->temperature[s];
    sample_collect(row);
    sample_truncate(row, params->top_k[s], params->top_p_q16[s]);
    return sample_draw(row, canonical_min_p_weight(params->min_p_q16[s]),
                       canonical_random(params->seed[s], params->position[s]));
}

/* ---------------------------------------------------------------- launchers */

static size_t sample_worker_bytes(uint32_t vocabulary) {
    size_t bytes = 2 * (size_t)vocabulary * sizeof(uint64_t) + SAMPLE_BINS * sizeof(uint32_t);
    return kernels_aligned(bytes);
}

size_t reference_sample_bytes(uint32_t threads, uint32_t vocabulary) {
    return threads * sample_worker_bytes(vocabulary);
}

static void sample_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    const struct sample_args *args = context;
    char *part = (char *)args->workspace.data + worker * sample_worker_bytes(args->vocabulary);
    for (uint32_t s = begin; s < end; s++) {
        float *logits = args->logits + (size_t)s * args->vocabulary;
        struct sample_row row = {.logits = logits, .vocabulary = args->vocabulary};
        row.entry = (uint64_t *)(void *)part;
        row.spare = row.entry + args->vocabulary;
        row.bin = (uint32_t *)(void *)(row.spare + args->vocabulary);
        reference_sample_penalize(&args->params, s, logits, args->vocabulary);
        bool good = sample_largest(logits, args->vocabulary, &row.largest);
        args->bad[s] = args->bad[s] | (uint8_t)!good;
        args->token[s] = good ? sample_choose(&row, &args->params, s) : 0;
    }
}

enum kernels_status reference_sample(struct device *device, const struct sample_args *args) {
    struct pool *pool = cpu_device_pool(device);
    if (!check_sample(args) ||
        !check_workspace(&args->workspace,
                         reference_sample_bytes(pool_threads(pool), args->vocabulary))) {
        return KERNELS_INVALID;
    }
    struct sample_args job = *args;
    pool_run_ranges(pool, sample_range, &job, args->rows, args->vocabulary);
    return KERNELS_OK;
}
