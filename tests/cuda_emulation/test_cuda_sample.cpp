/* Sampling of the CUDA back end equals `reference`, tokens, marks and penalised logits, on the
 * emulation. */
#include <cmath>

#include "kernels/canonical.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda_emulation/twin.h"

#define ROWS 5u

struct sampling {
    uint32_t vocabulary;
    std::vector<float> logits, temperature, repetition, presence, frequency;
    std::vector<uint32_t> top_k, top_p, min_p;
    std::vector<uint64_t> seed, position;
    std::vector<int32_t> seen_begin, seen_id, seen_count;

    sampling(uint32_t vocabulary_, float spread, uint64_t *random)
        : vocabulary(vocabulary_), logits(size_t{ROWS} * vocabulary), temperature(ROWS, 0.7f),
          repetition(ROWS, 1.0f), presence(ROWS), frequency(ROWS), top_k(ROWS), top_p(ROWS, 65536),
          min_p(ROWS), seed(ROWS), position(ROWS), seen_begin(ROWS + 1), seen_id(1), seen_count(1) {
        for (float &logit : logits) {
            logit = kernel_test_float(random, -spread, spread);
        }
        for (uint32_t s = 0; s < ROWS; s++) {
            seed[s] = test_random(random);
            position[s] = test_random(random) % 4096u;
        }
    }
    float *row(uint32_t s) {
        return logits.data() + size_t{s} * vocabulary;
    }
};

/* Runs both and compares; `bad` of row 1 was set before. */
static void check(const rig &rig, const reference_device &reference, const sampling &p,
                  const char *label) {
    twin<float> logits(rig, p.logits), temperature(rig, p.temperature);
    twin<float> repetition(rig, p.repetition), presence(rig, p.presence);
    twin<float> frequency(rig, p.frequency);
    twin<uint32_t> top_k(rig, p.top_k), top_p(rig, p.top_p), min_p(rig, p.min_p);
    twin<uint64_t> seed(rig, p.seed), position(rig, p.position);
    twin<int32_t> seen_begin(rig, p.seen_begin), seen_id(rig, p.seen_id);
    twin<int32_t> seen_count(rig, p.seen_count), token(rig, std::vector<int32_t>(ROWS, -1));
    twin<uint8_t> bad(rig, {0, 1, 0, 0, 0});
    kernels_shape shape = {};
    shape.sampled_max = ROWS;
    shape.vocabulary = p.vocabulary;
    size_t bytes = reference.ops().workspace_bytes(reference.device(), KERNEL_OP_sample, &shape);
    void *workspace = kernel_test_alloc(bytes);
    auto args = [&](side where) {
        sample_params params = {};
        params.temperature = temperature.at(where);
        params.top_k = top_k.at(where);
        params.top_p_q16 = top_p.at(where);
        params.min_p_q16 = min_p.at(where);
        params.repetition = repetition.at(where);
        params.presence = presence.at(where);
        params.frequency = frequency.at(where);
        params.seed = seed.at(where);
        params.position = position.at(where);
        params.seen_begin = seen_begin.at(where);
        params.seen_id = seen_id.at(where);
        params.seen_count = seen_count.at(where);
        return sample_args{logits.at(where), p.vocabulary,       params, token.at(where),
                           bad.at(where),    {workspace, bytes}, ROWS};
    };
    RUN_TWINS(rig, reference, sample, args);
    token.same(label);
    bad.same(label);
    logits.same(label);
    kernel_test_free(workspace);
}

static uint32_t either(uint64_t *random, uint32_t low, uint32_t high, uint32_t off) {
    uint32_t value = kernel_test_between(random, low, high);
    return test_random(random) % 2u != 0 ? value : off;
}

static void draws_as_reference(void **state) {
    static const float temperatures[] = {0.0f, 0.0099f, 0.01f, 0.3f, 0.7f, 1.0f, 2.0f};
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed();
        reference_device reference;
        for (uint32_t i = 0; i < 12; i++) {
            float spread = i % 3 == 0 ? 2.0f : i % 3 == 1 ? 12.0f : 40.0f;
            sampling p(kernel_test_between(&random, 1, i % 5 == 0 ? 3000 : 300), spread, &random);
            for (uint32_t s = 0; s < ROWS; s++) {
                p.temperature[s] = temperatures[test_random(&random) % 7u];
                p.top_k[s] = either(&random, 1, 80, 0);
                p.top_p[s] = either(&random, 0, 65535, 65536);
                p.min_p[s] = either(&random, 0, 65536, 0);
            }
            check(rig, reference, p, "random");
        }
    });
}

/* Few different logits, zeros of both signs: ties at every edge. */
static void breaks_ties_by_id_and_takes_both_zeros_as_one(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 1;
        reference_device reference;
        for (uint32_t i = 0; i < 6; i++) {
            sampling p(kernel_test_between(&random, 2, 700), 1.0f, &random);
            for (float &logit : p.logits) {
                float size = static_cast<float>(test_random(&random) % (i % 3 + 1));
                logit = test_random(&random) % 2u != 0 ? size : -size;
            }
            for (uint32_t s = 0; s < ROWS; s++) {
                p.temperature[s] = s == 0 ? 0.0f : 1.0f;
                p.top_k[s] = kernel_test_between(&random, 0, p.vocabulary);
                p.top_p[s] = kernel_test_between(&random, 0, 65536);
            }
            check(rig, reference, p, "ties");
        }
    });
}

static void keeps_what_top_k_top_p_and_min_p_say_at_their_edges(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 2;
        reference_device reference;
        static const uint32_t top_k[] = {0, 1, 2, 199, 200, 201};
        static const uint32_t top_p[] = {0, 1, 32768, 65535, 65536};
        static const uint32_t min_p[] = {0, 1, 6554, 65535, 65536};
        for (uint32_t i = 0; i < 6; i++) {
            sampling p(200, 3.0f, &random);
            for (uint32_t s = 0; s < ROWS; s++) {
                p.top_k[s] = top_k[i];
                p.top_p[s] = top_p[s];
                p.min_p[s] = min_p[test_random(&random) % 5u];
            }
            check(rig, reference, p, "edges");
        }
    });
}

/* The first weighs 2^30, top_p asks for 2^30 and a fraction: the second is kept, and drawn. */
static void keeps_one_more_where_top_p_ends_in_a_fraction(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 6;
        reference_device reference;
        const uint32_t second = 16385; /* (2^30 + 16385) * 65535 / 65536 = 2^30 + 0.75 */
        float logit = -11.0f;
        while (canonical_logit_weight(logit) > second) {
            logit = nextafterf(logit, -12.0f);
        }
        assert_int_equal(canonical_logit_weight(logit), second);
        sampling p(2, 1.0f, &random);
        for (uint32_t s = 0; s < ROWS; s++) {
            p.row(s)[0] = 0.0f;
            p.row(s)[1] = logit;
            p.temperature[s] = 1.0f;
            p.top_p[s] = 65535;
            while (canonical_mulhi64(canonical_random(p.seed[s], p.position[s]),
                                     (uint64_t{1} << 30) + second) < uint64_t{1} << 30) {
                p.position[s]++;
            }
        }
        check(rig, reference, p, "a fraction");
    });
}

static void applies_penalties_before_anything_else(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 3;
        reference_device reference;
        for (uint32_t i = 0; i < 6; i++) {
            sampling p(200, 8.0f, &random);
            p.seen_id.clear();
            p.seen_count.clear();
            for (uint32_t s = 0; s < ROWS; s++) {
                p.repetition[s] = kernel_test_float(&random, 0.5f, 2.0f);
                p.presence[s] = kernel_test_float(&random, -2.0f, 2.0f);
                p.frequency[s] = kernel_test_float(&random, -2.0f, 2.0f);
                p.top_k[s] = s * 10;
                p.temperature[s] = s % 2 != 0 ? 0.0f : 0.8f;
                for (uint32_t id = 0; id < 230; id += kernel_test_between(&random, 1, 9)) {
                    p.seen_id.push_back(static_cast<int32_t>(id)); /* beyond it, too */
                    p.seen_count.push_back(static_cast<int32_t>(test_random(&random) % 4u));
                }
                p.seen_begin[s + 1] = static_cast<int32_t>(p.seen_id.size());
            }
            check(rig, reference, p, "penalties");
        }
    });
}

static void marks_a_row_without_a_distribution_and_spares_its_neighbours(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 4;
        reference_device reference;
        sampling p(400, 5.0f, &random);
        p.row(0)[399] = NAN;
        p.row(1)[0] = INFINITY;
        for (uint32_t i = 0; i < 400; i++) {
            p.row(2)[i] = -INFINITY;
            p.row(3)[i] = i == 77 ? -3.0f : -INFINITY; /* masked but for one */
        }
        p.temperature[1] = 0.0f;
        check(rig, reference, p, "bad rows");
        p.row(0)[399] = -NAN;
        p.temperature.assign(ROWS, 0.0f);
        check(rig, reference, p, "bad rows, greedy");
    });
}

/* More ids than the list holds, so that every step looks at all of them; equal ones, and not. */
static void goes_over_a_flat_vocabulary_that_the_list_does_not_hold(void **state) {
    rig_each_seed([](rig &rig) {
        uint64_t random = test_seed() + 5;
        reference_device reference;
        for (float spread : {0.0f, 0.5f}) {
            sampling p(5003, spread, &random);
            p.top_k = {0, 4097, 5000, 0, 17};
            p.top_p = {65535, 60000, 65536, 65536, 30000};
            check(rig, reference, p, "flat");
        }
    });
}

static void refuses_arguments_that_break_the_contract(void **state) {
    rig_each_seed([](rig &rig) {
        sample_args args = {};
        assert_int_equal(cuda_sample(rig.stream, &args), KERNELS_INVALID);
    });
}

TEST_MAIN(cmocka_unit_test(draws_as_reference),
          cmocka_unit_test(breaks_ties_by_id_and_takes_both_zeros_as_one),
          cmocka_unit_test(keeps_what_top_k_top_p_and_min_p_say_at_their_edges),
          cmocka_unit_test(keeps_one_more_where_top_p_ends_in_a_fraction),
          cmocka_unit_test(applies_penalties_before_anything_else),
          cmocka_unit_test(marks_a_row_without_a_distribution_and_spares_its_neighbours),
          cmocka_unit_test(goes_over_a_flat_vocabulary_that_the_list_does_not_hold),
          cmocka_unit_test(refuses_arguments_that_break_the_contract))
