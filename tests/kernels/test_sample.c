/* Sampling against the order of the contract written out over a full sort of the vocabulary. */
#include "tests/support/kernel_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/canonical.h"

#define ROWS 5u
#define SEEN_MAX 64u

struct problem {
    uint32_t vocabulary, rows;
    float *logits; /* [rows, V] */
    float temperature[ROWS], repetition[ROWS], presence[ROWS], frequency[ROWS];
    uint32_t top_k[ROWS], top_p[ROWS], min_p[ROWS];
    uint64_t seed[ROWS], position[ROWS];
    int32_t seen_begin[ROWS + 1], seen_id[ROWS * SEEN_MAX], seen_count[ROWS * SEEN_MAX];
    int32_t token[ROWS];
    uint8_t bad[ROWS];
};

/* ---------------------------------------------------------------- the obvious way */

struct candidate {
    float logit;
    uint32_t id;
    uint64_t weight;
};

static int by_choice(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

static uint64_t random_bits(uint64_t seed, uint64_t position) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
    canonical_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
    return counter[0] | (uint64_t)counter[1] << 32;
}

static uint32_t truncated(const struct problem *p, uint32_t s, struct candidate *all,
                          uint32_t count) {
    if (p->top_k[s] > 0 && p->top_k[s] < count) {
        count = p->top_k[s];
    }
    if (p->top_p[s] < 65536u) {
        unsigned __int128 total = 0, sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            total += all[i].weight;
        }
        for (uint32_t i = 0; i < count; i++) {
            sum += all[i].weight;
            if (sum << 16 >= p->top_p[s] * total) {
                count = i + 1;
                break;
            }
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        if (all[i].weight < (uint64_t)p->min_p[s] << 14) {
            all[i].weight = 0; /* dropped: cannot be drawn */
        }
    }
    return count;
}

/* Applies penalties in place; -1 marks a row without a distribution. */
static int32_t obvious(const struct problem *p, uint32_t s, float *logits) {
    for (int32_t i = p->seen_begin[s]; i < p->seen_begin[s + 1]; i++) {
        float *l = &logits[p->seen_id[i]];
        *l = *l > 0 ? *l / p->repetition[s] : *l * p->repetition[s];
        if (p->seen_count[i] > 0) {
            *l -= p->presence[s];
            *l = fmaf(-(float)p->seen_count[i], p->frequency[s], *l);
        }
    }
    struct candidate *all = calloc(p->vocabulary, sizeof *all);
    assert_non_null(all);
    for (uint32_t id = 0; id < p->vocabulary; id++) {
        if (isnan(logits[id]) || (isinf(logits[id]) && logits[id] > 0)) {
            free(all);
            return -1;
        }
        all[id] = (struct candidate){logits[id], id, 0};
    }
    qsort(all, p->vocabulary, sizeof *all, by_choice);
    int32_t token = isinf(all[0].logit) ? -1 : (int32_t)all[0].id;
    if (token >= 0 && p->temperature[s] >= 0.01f) {
        float inverse = 1.0f / p->temperature[s], largest = all[0].logit;
        for (uint32_t i = 0; i < p->vocabulary; i++) {
            float e = canonical_exp((all[i].logit - largest) * inverse);
            all[i].weight = (uint64_t)rintf(e * 0x1p30f);
        }
        uint32_t count = truncated(p, s, all, p->vocabulary);
        qsort(all, count, sizeof *all, by_id);
        unsigned __int128 total = 0, sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            total += all[i].weight;
        }
        total = random_bits(p->seed[s], p->position[s]) * total >> 64;
        for (uint32_t i = 0; i < count; i++) {
            sum += all[i].weight;
            if (sum > total) {
                token = (int32_t)all[i].id;
                break;
            }
        }
    }
    free(all);
    return token;
}

/* ---------------------------------------------------------------- problems */

static void pose(struct problem *p, uint32_t vocabulary, float spread, uint64_t *random) {
    *p = (struct problem){.vocabulary = vocabulary, .rows = ROWS};
    p->logits = kernel_test_alloc((size_t)ROWS * vocabulary * sizeof(float));
    for (size_t i = 0; i < (size_t)ROWS * vocabulary; i++) {
        p->logits[i] = kernel_test_float(random, -spread, spread);
    }
    for (uint32_t s = 0; s < ROWS; s++) {
        p->temperature[s] = 0.7f;
        p->repetition[s] = 1.0f;
        p->top_p[s] = 65536u;
        p->seed[s] = test_random(random);
        p->position[s] = test_random(random) % 4096u;
    }
}

/* Runs and compares; frees. */
static void check(const struct kernel_test *test, struct problem *p) {
    int32_t wanted[ROWS];
    for (uint32_t s = 0; s < p->rows; s++) {
        float *copy = kernel_test_alloc(p->vocabulary * sizeof(float));
        memcpy(copy, p->logits + (size_t)s * p->vocabulary, p->vocabulary * sizeof(float));
        wanted[s] = obvious(p, s, copy);
        kernel_test_free(copy);
    }
    const struct kernels_shape shape = {.sampled_max = ROWS, .vocabulary = p->vocabulary};
    const struct sample_args args = {
        .logits = p->logits,
        .vocabulary = p->vocabulary,
        .params = {p->temperature, p->top_k, p->top_p, p->min_p, p->repetition, p->presence,
                   p->frequency, p->seed, p->position, p->seen_begin, p->seen_id, p->seen_count},
        .token = p->token,
        .bad = p->bad,
        .workspace = kernel_test_workspace(test, KERNEL_OP_sample, &shape),
        .rows = p->rows,
    };
    assert_int_equal(test->ops->sample(test->device, &args), KERNELS_OK);
    for (uint32_t s = 0; s < p->rows; s++) {
        if (p->bad[s] != (wanted[s] < 0) || p->token[s] != (wanted[s] < 0 ? 0 : wanted[s])) {
            fail_msg("%s: row %u (T %g, k %u, p %u, min_p %u, V %u): token %d bad %d, wanted %d",
                     test->label, s, (double)p->temperature[s], p->top_k[s], p->top_p[s],
                     p->min_p[s], p->vocabulary, p->token[s], p->bad[s], wanted[s]);
        }
    }
    kernel_test_free(args.workspace.data);
    kernel_test_free(p->logits);
}

static void body_random(const struct kernel_test *test) {
    static const float temperatures[] = {0.0f, 0.0099f, 0.01f, 0.3f, 0.7f, 1.0f, 2.0f};
    uint64_t random = test_seed();
    for (uint32_t i = 0; i < 60; i++) {
        struct problem p;
        float spread = i % 3 == 0 ? 2.0f : i % 3 == 1 ? 12.0f : 40.0f;
        pose(&p, kernel_test_between(&random, 1, i % 5 == 0 ? 5000 : 300), spread, &random);
        for (uint32_t s = 0; s < ROWS; s++) {
            p.temperature[s] = temperatures[test_random(&random) % 7u];
            p.top_k[s] = test_random(&random) % 2 ? kernel_test_between(&random, 1, 80) : 0;
            p.top_p[s] = test_random(&random) % 2 ? kernel_test_between(&random, 0, 65535) : 65536;
            p.min_p[s] = test_random(&random) % 2 ? kernel_test_between(&random, 0, 65536) : 0;
        }
        check(test, &p);
    }
}

static void draws_as_the_contract_written_out(void **state) {
    kernel_test_each(body_random);
}

static void body_ties(const struct kernel_test *test) {
    uint64_t random = test_seed() + 1;
    for (uint32_t i = 0; i < 30; i++) {
        struct problem p;
        pose(&p, kernel_test_between(&random, 2, 700), 1.0f, &random);
        for (size_t j = 0; j < (size_t)ROWS * p.vocabulary; j++) {
            p.logits[j] = (float)(test_random(&random) % 3u) * (test_random(&random) % 2 ? 1 : -1);
        }
        for (uint32_t s = 0; s < ROWS; s++) {
            p.temperature[s] = s == 0 ? 0.0f : 1.0f;
            p.top_k[s] = kernel_test_between(&random, 0, p.vocabulary);
            p.top_p[s] = kernel_test_between(&random, 0, 65536);
        }
        check(test, &p);
    }
}

static void breaks_ties_by_id_and_takes_both_zeros_as_one(void **state) {
    kernel_test_each(body_ties);
}

static void body_penalties(const struct kernel_test *test) {
    uint64_t random = test_seed() + 2;
    for (uint32_t i = 0; i < 30; i++) {
        struct problem p;
        pose(&p, 200, 8.0f, &random);
        int32_t at = 0;
        for (uint32_t s = 0; s < ROWS; s++) {
            p.repetition[s] = kernel_test_float(&random, 0.5f, 2.0f);
            p.presence[s] = kernel_test_float(&random, -2.0f, 2.0f);
            p.frequency[s] = kernel_test_float(&random, -2.0f, 2.0f);
            p.top_k[s] = s * 10;
            p.temperature[s] = s % 2 ? 0.0f : 0.8f;
            for (int32_t id = 0; id < 200; id += 1 + (int32_t)kernel_test_between(&random, 2, 30)) {
                p.seen_id[at] = id;
                p.seen_count[at++] = (int32_t)kernel_test_between(&random, 0, 3);
            }
            p.seen_begin[s + 1] = at;
        }
        check(test, &p);
    }
}

static void applies_penalties_before_anything_else(void **state) {
    kernel_test_each(body_penalties);
}

static void body_bad(const struct kernel_test *test) {
    uint64_t random = test_seed() + 3;
    struct problem p;
    pose(&p, 400, 5.0f, &random);
    p.logits[0 * 400 + 399] = NAN;
    p.logits[1 * 400 + 0] = INFINITY;
    for (uint32_t i = 0; i < 400; i++) {
        p.logits[2 * 400 + i] = -INFINITY;
        p.logits[3 * 400 + i] = i == 77 ? -3.0f : -INFINITY; /* masked but for one */
    }
    p.temperature[1] = 0.0f;
    check(test, &p);
    assert_true(p.bad[0] && p.bad[1] && p.bad[2] && !p.bad[3] && !p.bad[4]);
    assert_int_equal(p.token[3], 77);
}

static void marks_a_row_without_a_distribution_and_spares_its_neighbours(void **state) {
    kernel_test_each(body_bad);
}

static void body_flat(const struct kernel_test *test) {
    uint64_t random = test_seed() + 4;
    struct problem p;
    pose(&p, 300000, 0.0f, &random); /* sums of weights pass 2^48: the comparison needs 128 bits */
    for (uint32_t s = 0; s < ROWS; s++) {
        p.top_p[s] = 65535u - s * 16000u;
    }
    p.rows = 2;
    check(test, &p);
}

static void keeps_exact_sums_over_a_large_flat_vocabulary(void **state) {
    kernel_test_each(body_flat);
}

static void body_frequencies(const struct kernel_test *test) {
    (void)test;
    enum { DRAWS = 4000 };
    const float logits[4] = {0.0f, 1.0f, 2.0f, -1.0f};
    double total = 0, chi = 0;
    uint32_t count[4] = {0};
    for (uint64_t i = 0; i < DRAWS; i += ROWS) {
        struct problem p;
        uint64_t random = i;
        pose(&p, 4, 1.0f, &random);
        for (uint32_t s = 0; s < ROWS; s++) {
            memcpy(p.logits + s * 4u, logits, sizeof logits);
            p.temperature[s] = 1.0f;
            p.seed[s] = 1234;
            p.position[s] = i + s;
        }
        check(test, &p);
        for (uint32_t s = 0; s < ROWS; s++) {
            count[p.token[s]]++;
        }
    }
    for (int i = 0; i < 4; i++) {
        total += exp((double)logits[i]);
    }
    for (int i = 0; i < 4; i++) {
        double expected = DRAWS * exp((double)logits[i]) / total;
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    }
    assert_true(chi < 16.3); /* chi-square, 3 degrees of freedom, 1 in 1000; the seed is fixed */
}

static void draws_as_often_as_the_softmax_says(void **state) {
    kernel_test_each(body_frequencies);
}

static void body_arguments(const struct kernel_test *test) {
    uint64_t random = 1;
    struct problem p;
    pose(&p, 16, 1.0f, &random);
    const struct kernels_shape shape = {.sampled_max = ROWS, .vocabulary = 16};
    struct kernels_workspace workspace = kernel_test_workspace(test, KERNEL_OP_sample, &shape);
    const struct sample_args good = {
        .logits = p.logits,
        .vocabulary = 16,
        .params = {p.temperature, p.top_k, p.top_p, p.min_p, p.repetition, p.presence, p.frequency,
                   p.seed, p.position, p.seen_begin, p.seen_id, p.seen_count},
        .token = p.token,
        .bad = p.bad,
        .workspace = workspace,
        .rows = ROWS,
    };
    struct sample_args bad[5] = {good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].workspace.bytes--;
    bad[2].vocabulary = 0;
    bad[3].params.seed = NULL;
    bad[4].bad = NULL;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(test->ops->sample(test->device, &bad[i]), KERNELS_INVALID);
    }
    kernel_test_free(workspace.data);
    kernel_test_free(p.logits);
}

static void refuses_arguments_that_break_the_contract(void **state) {
    kernel_test_each(body_arguments);
}

TEST_MAIN(cmocka_unit_test(draws_as_the_contract_written_out),
          cmocka_unit_test(breaks_ties_by_id_and_takes_both_zeros_as_one),
          cmocka_unit_test(applies_penalties_before_anything_else),
          cmocka_unit_test(marks_a_row_without_a_distribution_and_spares_its_neighbours),
          cmocka_unit_test(keeps_exact_sums_over_a_large_flat_vocabulary),
          cmocka_unit_test(draws_as_often_as_the_softmax_says),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
