/* engine/cost_model: injected rates, and what follows from them. */
#include "engine/cost_model.h"

#include "tests/support/test.h"

#define MS 1000000LL

/* 1 ms a prompt token, 10 ms a step, 100 tokens an answer: `samples` of each. */
static struct cost_model model_of(uint32_t samples) {
    struct cost_model model = {0};
    const struct cost_model_step prefill = {.ns = 200 * MS, .prefill_rows = 200};
    const struct cost_model_step decode = {.ns = 10 * MS, .decode_rows = 4};
    for (uint32_t i = 0; i < samples; i++) {
        cost_model_note_step(&model, &prefill);
        cost_model_note_step(&model, &decode);
        cost_model_note_answer(&model, 100);
    }
    return model;
}

static int64_t least_ns(const struct cost_model *model, struct cost_model_arrival arrival) {
    arrival.places_count = arrival.places_count == 0 ? 4 : arrival.places_count;
    return cost_model_least_ns(model, &arrival);
}

static void says_nothing_before_it_has_32_samples(void **state) {
    struct cost_model model = model_of(31);
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 100000}), 0);
    model = model_of(32);
    assert_true(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 100000}) > 0);
}

static void counts_half_of_prefill_and_one_token_on_an_idle_device(void **state) {
    struct cost_model model = model_of(32);
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 490}),
                     (490 + 10) * MS / 2);
}

static void counts_the_prompts_before_it(void **state) {
    struct cost_model model = model_of(40);
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 90,
                                                                  .prompt_tokens_before = 400,
                                                                  .sequences_before = 3}),
                     (400 + 90 + 10) * MS / 2);
}

static void counts_the_answers_that_must_end_before_it(void **state) {
    struct cost_model model = model_of(40);
    /* 4 places, 4 running, 3 before it: 4 must end; together a place ends one each 1000 / 4 ms. */
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 90,
                                                                  .sequences_before = 3,
                                                                  .running = 4}),
                     (90 + 10 + 4 * 250) * MS / 2);
}

static void counts_no_answers_while_few_have_ended(void **state) {
    struct cost_model model = model_of(40);
    model.answer = (struct cost_model_rate){.total = 3100, .units = 31, .samples = 31};
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 90,
                                                                  .sequences_before = 3,
                                                                  .running = 4}),
                     (90 + 10) * MS / 2);
}

static void splits_a_step_over_its_rows_and_takes_cached_tokens_for_free(void **state) {
    struct cost_model model = {0};
    const struct cost_model_step mixed = {
        .ns = 100 * MS, .prefill_rows = 90, .decode_rows = 10, .cached_tokens = 90};
    for (uint32_t i = 0; i < 32; i++) {
        cost_model_note_step(&model, &mixed);
    }
    /* 90 ms for 180 tokens of prompts; 10 ms for the answers. */
    assert_int_equal(least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 180}),
                     (90 + 10) * MS / 2);
}

static void follows_a_rate_that_changes(void **state) {
    struct cost_model model = model_of(300);
    const struct cost_model_step faster = {.ns = 20 * MS, .prefill_rows = 200};
    for (uint32_t i = 0; i < 3000; i++) {
        cost_model_note_step(&model, &faster);
        assert_true(model.prefill.samples <= COST_MODEL_MEMORY);
    }
    int64_t ns = least_ns(&model, (struct cost_model_arrival){.prompt_tokens = 1000});
    assert_in_range(ns, 110 * MS / 2, 112 * MS / 2);
}

TEST_MAIN(cmocka_unit_test(says_nothing_before_it_has_32_samples),
          cmocka_unit_test(counts_half_of_prefill_and_one_token_on_an_idle_device),
          cmocka_unit_test(counts_the_prompts_before_it),
          cmocka_unit_test(counts_the_answers_that_must_end_before_it),
          cmocka_unit_test(counts_no_answers_while_few_have_ended),
          cmocka_unit_test(splits_a_step_over_its_rows_and_takes_cached_tokens_for_free),
          cmocka_unit_test(follows_a_rate_that_changes))
