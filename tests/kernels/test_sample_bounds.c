/* Sampling at the bounds of every parameter, against the contract read as sets: an id is kept if so
 * many others go before it, if those before it weigh too little, if it weighs enough itself.
 * Nothing is sorted, everything is an integer, and Philox is written out once more. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <string.h>

#include "kernels/canonical.h"

enum { ROWS = 16, VOCABULARY_MAX = 1 << 16, SEEN_MAX = 32 };

struct row {
    float logits[64]; /* as posed; larger vocabularies are flat */
    float temperature, repetition, presence, frequency;
    uint32_t top_k, top_p, min_p;
    uint64_t seed, position;
    int32_t seen_count; /* ids 0 .. seen_count - 1, */
    int32_t times;      /* each so many times in the answer */
};

static struct row plain_row(void) {
    return (struct row){.temperature = 1.0f, .repetition = 1.0f, .top_p = 65536};
}

/* ---------------------------------------------------------------- the contract as sets */

static uint64_t philox(uint64_t seed, uint64_t position) {
    uint64_t left = position & UINT32_MAX, left_high = position >> 32, right = 0, right_high = 0;
    uint64_t key = seed & UINT32_MAX, key_high = seed >> 32;
    for (int round = 0; round < 10; round++) {
        uint64_t a = left * 0xD2511F53u, b = right * 0xCD9E8D57u;
        left = (b >> 32) ^ left_high ^ key;
        right = (a >> 32) ^ right_high ^ key_high;
        left_high = b & UINT32_MAX;
        right_high = a & UINT32_MAX;
        key = (key + 0x9E3779B9u) & UINT32_MAX;
        key_high = (key_high + 0xBB67AE85u) & UINT32_MAX;
    }
    return left_high << 32 | left;
}

static bool goes_before(const float *logits, uint32_t a, uint32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* Weights of all ids after top_k, top_p and min_p; gives the first id. */
static uint32_t weigh(const struct row *row, const float *logits, uint32_t vocabulary,
                      uint64_t *weight) {
    uint64_t before[64] = {0}, all = 0;
    uint32_t rank[64] = {0}, first = 0;
    for (uint32_t id = 1; id < vocabulary; id++) {
        first = goes_before(logits, id, first) ? id : first;
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        float distance = (logits[id] - logits[first]) * (1.0f / row->temperature);
        weight[id] = (uint64_t)rintf(canonical_exp(distance) * 0x1p30f);
        for (uint32_t other = 0; other < vocabulary; other++) {
            rank[id] += goes_before(logits, other, id);
        }
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        weight[id] = row->top_k == 0 || rank[id] < row->top_k ? weight[id] : 0;
        all += weight[id];
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        for (uint32_t other = 0; other < vocabulary; other++) {
            before[id] += rank[other] < rank[id] ? weight[other] : 0;
        }
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        bool is_past = row->top_p < 65536u &&
                       (unsigned __int128)before[id] << 16 >= (unsigned __int128)all * row->top_p;
        bool is_small = weight[id] < (uint64_t)row->min_p << 14;
        weight[id] = id != first && (is_past || is_small) ? 0 : weight[id];
    }
    return first;
}

static int32_t choose(const struct row *row, const float *logits, uint32_t vocabulary) {
    uint64_t weight[64], total = 0, sum = 0;
    struct row weighed = *row;
    weighed.temperature = row->temperature < 0.01f ? 1.0f : row->temperature;
    uint32_t first = weigh(&weighed, logits, vocabulary, weight);
    if (row->temperature < 0.01f) {
        return (int32_t)first;
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        total += weight[id];
    }
    uint64_t target = (uint64_t)((unsigned __int128)philox(row->seed, row->position) * total >> 64);
    for (uint32_t id = 0;; id++) {
        sum += weight[id];
        if (sum > target) {
            return (int32_t)id;
        }
    }
}

/* ---------------------------------------------------------------- the op */

/* Samples all rows in one call; `logits` [count, vocabulary] are changed by penalties. */
static void sample(const struct kernel_test *test, const struct row *rows, uint32_t count,
                   float *logits, uint32_t vocabulary, int32_t *token) {
    float temperature[ROWS], repetition[ROWS], presence[ROWS], frequency[ROWS];
    uint32_t top_k[ROWS], top_p[ROWS], min_p[ROWS];
    uint64_t seed[ROWS], position[ROWS];
    int32_t begin[ROWS + 1] = {0}, id[ROWS * SEEN_MAX], times[ROWS * SEEN_MAX];
    uint8_t bad[ROWS] = {0};
    for (uint32_t s = 0; s < count; s++) {
        temperature[s] = rows[s].temperature;
        repetition[s] = rows[s].repetition;
        presence[s] = rows[s].presence;
        frequency[s] = rows[s].frequency;
        top_k[s] = rows[s].top_k;
        top_p[s] = rows[s].top_p;
        min_p[s] = rows[s].min_p;
        seed[s] = rows[s].seed;
        position[s] = rows[s].position;
        begin[s + 1] = begin[s] + rows[s].seen_count;
        for (int32_t i = 0; i < rows[s].seen_count; i++) {
            id[begin[s] + i] = i;
            times[begin[s] + i] = rows[s].times;
        }
    }
    const struct kernels_shape shape = {.sampled_max = count, .vocabulary = vocabulary};
    const struct sample_args args = {
        .logits = logits,
        .vocabulary = vocabulary,
        .params = {temperature, top_k, top_p, min_p, repetition, presence, frequency, seed,
                   position, begin, id, times},
        .token = token,
        .bad = bad,
        .workspace = kernel_test_workspace(test, KERNEL_OP_sample, &shape),
        .rows = count,
    };
    assert_int_equal(test->ops->sample(test->device, &args), KERNELS_OK);
    for (uint32_t s = 0; s < count; s++) {
        assert_int_equal(bad[s], 0);
    }
    kernel_test_free(args.workspace.data);
}

static void check(const struct kernel_test *test, const struct row *rows, uint32_t count,
                  uint32_t vocabulary) {
    float *logits = kernel_test_alloc(ROWS * 64 * sizeof *logits);
    int32_t token[ROWS];
    for (uint32_t s = 0; s < count; s++) {
        memcpy(logits + s * vocabulary, rows[s].logits, vocabulary * sizeof *logits);
    }
    sample(test, rows, count, logits, vocabulary, token);
    for (uint32_t s = 0; s < count; s++) {
        const struct row *row = &rows[s];
        int32_t wanted = choose(row, row->logits, vocabulary);
        if (token[s] != wanted) {
            fail_msg("%s: row %u (T %g, k %u, p %u, min_p %u, V %u): %d, wanted %d", test->label, s,
                     (double)row->temperature, row->top_k, row->top_p, row->min_p, vocabulary,
                     token[s], wanted);
        }
    }
    kernel_test_free(logits);
}

/* ---------------------------------------------------------------- bounds */

/* Random; all equal; of two values; one peak; falling by a constant; all but one masked. */
static void pose_logits(float *logits, uint32_t vocabulary, uint32_t kind, uint64_t *random) {
    for (uint32_t i = 0; i < vocabulary; i++) {
        switch (kind) {
        case 0: logits[i] = kernel_test_float(random, -4.0f, 4.0f); break;
        case 1: logits[i] = -3.25f; break;
        case 2: logits[i] = test_random(random) % 2 ? 1.5f : 1.0f; break;
        case 3: logits[i] = i == vocabulary / 2 ? 30.0f : -1.0f; break;
        case 4: logits[i] = -0.5f * (float)i; break;
        default: logits[i] = i == vocabulary - 1 ? -7.0f : -INFINITY; break;
        }
    }
}

static void body_bounds(const struct kernel_test *test) {
    static const float temperatures[] = {0.0f, 0.00999f, 0.01f, 0.5f, 2.0f};
    static const uint32_t vocabularies[] = {1, 3, 40};
    static const uint32_t parts[] = {0, 1, 32768, 65535, 65536};
    uint64_t random = test_seed();
    struct row rows[ROWS];
    for (uint32_t v = 0; v < 3; v++) {
        uint32_t vocabulary = vocabularies[v], count = 0;
        const uint32_t tops[] = {0, 1, 2, vocabulary - 1, vocabulary, vocabulary + 1, 1000000};
        for (uint32_t i = 0; i < 5 * 7 * 5 * 5 * 2; i++) {
            rows[count] = plain_row();
            rows[count].temperature = temperatures[i % 5];
            rows[count].top_k = tops[i / 5 % 7];
            rows[count].top_p = parts[i / 35 % 5];
            rows[count].min_p = parts[i / 175 % 5];
            rows[count].seed = test_random(&random) >> 11;
            rows[count].position = test_random(&random) % 5000u;
            pose_logits(rows[count].logits, vocabulary, (uint32_t)(test_random(&random) % 6u),
                        &random);
            if (++count == ROWS) {
                check(test, rows, ROWS, vocabulary);
                count = 0;
            }
        }
        if (count > 0) {
            check(test, rows, count, vocabulary);
        }
    }
}

static void keeps_the_contract_at_every_combination_of_bounds(void **state) {
    kernel_test_each(body_bounds);
}

/* Values whose products and sums are exact in a double, so that plain arithmetic is the truth. */
static float penalized(const struct row *row, float logit) {
    double l = logit > 0 ? (double)logit / (double)row->repetition
                         : (double)logit * (double)row->repetition;
    if (row->times > 0) {
        l = (double)(float)l - (double)row->presence;
        l = (double)(float)l - (double)row->times * (double)row->frequency;
    }
    return (float)l;
}

static void body_penalties(const struct kernel_test *test) {
    static const float repetitions[] = {0.0078125f, 0.5f, 1.0f, 2.0f},
                       added[] = {-2.0f, 0.0f, 2.0f};
    static const int32_t times[] = {0, 1, 3, 2048};
    enum { VOCABULARY = 24, SEEN = 12 };
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 4 * 3 * 3 * 4; i++) {
        struct row row = plain_row();
        float logits[VOCABULARY], after[VOCABULARY];
        int32_t token;
        row.repetition = repetitions[i % 4];
        row.presence = added[i / 4 % 3];
        row.frequency = added[i / 12 % 3];
        row.times = times[i / 36 % 4];
        row.seen_count = SEEN;
        row.seed = i;
        for (uint32_t id = 0; id < VOCABULARY; id++) {
            logits[id] = (float)(int)(test_random(&random) % 65u) * 0.25f - 8.0f;
            logits[id] = id == 3 ? -0.0f : logits[id];
            after[id] = id < SEEN ? penalized(&row, logits[id]) : logits[id];
        }
        int32_t wanted = choose(&row, after, VOCABULARY);
        sample(test, &row, 1, logits, VOCABULARY, &token);
        assert_int_equal(token, wanted);
        for (uint32_t id = 0; id < VOCABULARY; id++) {
            assert_true(logits[id] == after[id]); /* the op leaves the penalised logits */
        }
    }
}

static void applies_penalties_at_their_bounds_to_what_was_seen_alone(void **state) {
    kernel_test_each(body_penalties);
}

/* ---------------------------------------------------------------- draws */

/* All weights are equal, so the token is the top 16 of the random bits. */
static void body_flat(const struct kernel_test *test) {
    static const uint64_t edges[] = {0,          1,          2,          UINT32_MAX,
                                     1ull << 32, 1ull << 33, 1ull << 52, (1ull << 53) - 1};
    float *logits = kernel_test_alloc((size_t)ROWS * VOCABULARY_MAX * sizeof *logits);
    struct row rows[ROWS];
    int32_t token[ROWS];
    for (uint32_t turn = 0; turn < 4; turn++) {
        for (uint32_t s = 0; s < ROWS; s++) {
            rows[s] = plain_row();
            rows[s].seed = edges[turn < 2 ? s % 8 : 3];
            rows[s].position = turn < 2 ? s / 8 + turn : edges[s % 8] + s / 8;
        }
        sample(test, rows, ROWS, logits, VOCABULARY_MAX, token);
        for (uint32_t s = 0; s < ROWS; s++) {
            assert_int_equal(token[s], philox(rows[s].seed, rows[s].position) >> 48);
        }
    }
    kernel_test_free(logits);
}

static void draws_from_every_bit_of_seed_and_position(void **state) {
    kernel_test_each(body_flat);
}

static void body_neighbours(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t round = 0; round < 50; round++) {
        struct row rows[ROWS];
        for (uint32_t s = 0; s < ROWS; s++) {
            rows[s] = plain_row();
            rows[s].temperature = (float)(test_random(&random) % 4u) * 0.5f;
            rows[s].top_k = (uint32_t)(test_random(&random) % 9u);
            rows[s].top_p = (uint32_t)(test_random(&random) % 65537u);
            rows[s].seed = test_random(&random);
            pose_logits(rows[s].logits, 33, 0, &random);
        }
        check(test, rows, ROWS, 33);
        check(test, rows + 7, 1, 33); /* alone */
        check(test, rows + 3, 9, 33);
    }
}

static void gives_a_row_the_same_token_whatever_stands_beside_it(void **state) {
    kernel_test_each(body_neighbours);
}

/* Counts draws over seeds, and compares with the exact weights of what is kept. */
static void check_frequencies(const struct kernel_test *test, struct row row, uint32_t vocabulary,
                              double chi_max) {
    enum { DRAWS = 8000 };
    uint64_t weight[64], total = 0;
    uint32_t count[64] = {0};
    double chi = 0;
    float *logits = kernel_test_alloc(ROWS * 64 * sizeof *logits);
    weigh(&row, row.logits, vocabulary, weight);
    for (uint32_t i = 0; i < DRAWS; i += ROWS) {
        struct row rows[ROWS];
        int32_t token[ROWS];
        for (uint32_t s = 0; s < ROWS; s++) {
            rows[s] = row;
            rows[s].seed = (uint64_t)(i + s) * 0x9E3779B97F4A7C15u >> 11;
            rows[s].position = 77;
            memcpy(logits + s * vocabulary, row.logits, vocabulary * sizeof *logits);
        }
        sample(test, rows, ROWS, logits, vocabulary, token);
        for (uint32_t s = 0; s < ROWS; s++) {
            count[token[s]]++;
        }
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        total += weight[id];
    }
    for (uint32_t id = 0; id < vocabulary; id++) {
        double expected = (double)DRAWS * (double)weight[id] / (double)total;
        assert_true(weight[id] > 0 || count[id] == 0);
        chi += weight[id] > 0 ? (count[id] - expected) * (count[id] - expected) / expected : 0;
    }
    kernel_test_free(logits);
    if (chi > chi_max) {
        fail_msg("%s: chi-square %g, at most %g", test->label, chi, chi_max);
    }
}

/* The seeds are fixed; bounds are the 0.999 quantiles for the ids that each rule keeps. */
static void body_frequencies(const struct kernel_test *test) {
    struct row row = plain_row();
    pose_logits(row.logits, 12, 4, NULL);
    row.temperature = 2.0f;
    check_frequencies(test, row, 12, 31.3); /* 12 ids */
    row.top_k = 5;
    check_frequencies(test, row, 12, 18.5);
    row.top_k = 0;
    row.top_p = 45875; /* 0.7: four ids and the fifth that reaches it */
    check_frequencies(test, row, 12, 18.5);
    row.top_p = 65536;
    row.min_p = 32768; /* 0.5: as much as e^-0.5, but not e^-0.75 */
    check_frequencies(test, row, 12, 13.9);
    pose_logits(row.logits, 12, 1, NULL);
    row.min_p = 65536;
    check_frequencies(test, row, 12, 31.3); /* equals of the first all stay */
    row.top_p = 1;
    row.min_p = 0;
    check_frequencies(test, row, 12, 0.0); /* one id: the smallest */
}

static void draws_over_seeds_as_often_as_the_kept_weights_say(void **state) {
    kernel_test_each(body_frequencies);
}

TEST_MAIN(cmocka_unit_test(keeps_the_contract_at_every_combination_of_bounds),
          cmocka_unit_test(applies_penalties_at_their_bounds_to_what_was_seen_alone),
          cmocka_unit_test(draws_from_every_bit_of_seed_and_position),
          cmocka_unit_test(gives_a_row_the_same_token_whatever_stands_beside_it),
          cmocka_unit_test(draws_over_seeds_as_often_as_the_kept_weights_say))
