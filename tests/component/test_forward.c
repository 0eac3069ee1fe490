/* engine/forward on a tiny random Llama: what a row gives depends on its own past only. */
#include "engine/forward.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"

enum { TOKENS = 40, SLOTS = 3, SLOT_PAGES = 4, PAGES = 1 + SLOTS * SLOT_PAGES, ROWS_MAX = 64 };

struct fixture {
    struct device *device;
    struct model *model;
    struct forward *forward;
    struct batch batch;
    uint32_t vocabulary;
};

static const uint32_t row_buckets[] = {1, 4, 16, ROWS_MAX};

static void open_fixture(struct fixture *f, enum model_policy policy, bool with_buckets) {
    char err[256] = "";
    char *path = tiny_llama_write(NULL);
    struct device_options device_options = {.spec = "cpu", .threads = 2};
    struct model_options model_options = {.path = path, .policy = policy, .max_model_len = 64};
    assert_int_equal(device_open(&device_options, &f->device, err, sizeof err), KERNELS_OK);
    device_enter_thread(f->device);
    assert_int_equal(model_open(&model_options, f->device, &f->model, err, sizeof err), MODEL_OK);
    f->vocabulary = f->model->config.vocabulary;
    struct forward_options options = {.limits = {.rows_max = ROWS_MAX,
                                                 .slots_max = SLOTS,
                                                 .sampled_max = ROWS_MAX,
                                                 .slot_pages_max = SLOT_PAGES,
                                                 .vocabulary = f->vocabulary,
                                                 .seen_max = 64},
                                      .page_count = PAGES,
                                      .row_buckets = with_buckets ? row_buckets : NULL,
                                      .row_bucket_count = with_buckets ? 4 : 0,
                                      .poison_pages = true};
    assert_int_equal(forward_open(f->model, &options, &f->forward, err, sizeof err), FORWARD_OK);
    assert_true(batch_init(&f->batch, &options.limits));
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        int32_t pages[SLOT_PAGES]; /* in no order */
        for (uint32_t i = 0; i < SLOT_PAGES; i++) {
            pages[i] = (int32_t)(1 + (i * SLOTS + slot) % (PAGES - 1));
        }
        batch_set_pages(&f->batch, slot, pages, SLOT_PAGES);
    }
    batch_clear(&f->batch);
    free(path);
}

static void close_fixture(struct fixture *f) {
    batch_deinit(&f->batch);
    forward_close(f->forward);
    model_close(f->model);
    device_close(f->device);
}

static int32_t token_at(uint32_t slot, uint32_t position) {
    return (int32_t)(TINY_LLAMA_FIRST_BYTE +
                     (position * 11 + slot * 29 + position * position) % 200);
}

static void add_rows(struct batch *batch, uint32_t slot, uint32_t first, uint32_t count) {
    int32_t tokens[TOKENS];
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = token_at(slot, first + i);
    }
    uint32_t row = batch_add_segment(batch, slot, first, tokens, count);
    for (uint32_t i = 0; i < count; i++) {
        batch_add_sampled(batch, row + i);
    }
}

static void run_logits(struct fixture *f, float *logits) {
    char err[256] = "";
    if (forward_run_logits(f->forward, &f->batch, logits, err, sizeof err) != FORWARD_OK) {
        fail_msg("%s", err);
    }
    batch_clear(&f->batch);
}

/* The logits of every position of a slot, all rows in one pass with nobody else. */
static float *logits_alone(enum model_policy policy, uint32_t slot) {
    struct fixture f = {0};
    open_fixture(&f, policy, false);
    float *logits = malloc((size_t)TOKENS * f.vocabulary * sizeof *logits);
    add_rows(&f.batch, slot, 0, TOKENS);
    run_logits(&f, logits);
    close_fixture(&f);
    return logits;
}

static void check_pieces(enum model_policy policy, bool with_buckets) {
    struct fixture f = {0};
    float *expected[] = {logits_alone(policy, 0), logits_alone(policy, 1)};
    open_fixture(&f, policy, with_buckets);
    size_t row_bytes = f.vocabulary * sizeof(float);
    float *logits = malloc(2 * TOKENS * row_bytes);
    uint32_t done[2] = {0, 0};
    for (uint32_t piece = 1; done[0] < TOKENS || done[1] < TOKENS; piece++) {
        uint32_t counts[2];
        for (uint32_t slot = 0; slot < 2; slot++) { /* 1, 2, 3 … rows and 3, 6, 9 … */
            uint32_t left = TOKENS - done[slot];
            uint32_t count = piece * (slot == 0 ? 1 : 3);
            counts[slot] = count < left ? count : left;
            if (counts[slot] > 0) {
                add_rows(&f.batch, slot, done[slot], counts[slot]);
            }
        }
        run_logits(&f, logits);
        const char *at = (const char *)logits;
        for (uint32_t slot = 0; slot < 2; slot++) {
            assert_memory_equal(at, expected[slot] + (size_t)done[slot] * f.vocabulary,
                                counts[slot] * row_bytes);
            at += counts[slot] * row_bytes;
            done[slot] += counts[slot];
        }
    }
    free(logits);
    free(expected[0]);
    free(expected[1]);
    close_fixture(&f);
}

static void gives_the_same_logits_in_pieces_beside_a_neighbour(void **state) {
    check_pieces(MODEL_POLICY_INT8, false);
    check_pieces(MODEL_POLICY_F16, false);
    check_pieces(MODEL_POLICY_F32, false);
}

static void gives_the_same_logits_with_rows_padded_to_buckets(void **state) {
    check_pieces(MODEL_POLICY_INT8, true);
    check_pieces(MODEL_POLICY_F32, true);
}

static void samples_the_highest_logit_when_greedy(void **state) {
    struct fixture f = {0};
    char err[256] = "";
    float *logits = logits_alone(MODEL_POLICY_INT8, 0);
    for (int with_buckets = 0; with_buckets < 2; with_buckets++) {
        open_fixture(&f, MODEL_POLICY_INT8, with_buckets);
        add_rows(&f.batch, 0, 0, TOKENS);
        assert_int_equal(forward_run(f.forward, &f.batch, err, sizeof err), FORWARD_OK);
        for (uint32_t row = 0; row < TOKENS; row++) {
            const float *of_row = logits + (size_t)row * f.vocabulary;
            uint32_t best = 0;
            for (uint32_t id = 1; id < f.vocabulary; id++) {
                best = of_row[id] > of_row[best] ? id : best;
            }
            assert_int_equal(f.batch.sampled_token[row], best);
            assert_int_equal(f.batch.sampled_bad[row], 0);
            assert_int_equal(f.batch.row_bad[row], 0);
        }
        close_fixture(&f);
    }
    free(logits);
}

static void runs_rows_of_which_none_is_sampled(void **state) {
    struct fixture f = {0};
    char err[256] = "";
    int32_t tokens[] = {5, 6, 7};
    open_fixture(&f, MODEL_POLICY_INT8, false);
    batch_add_segment(&f.batch, 0, 0, tokens, 3);
    assert_int_equal(forward_run(f.forward, &f.batch, err, sizeof err), FORWARD_OK);
    assert_int_equal(f.batch.row_bad[2], 0);
    close_fixture(&f);
}

static void plans_what_it_reserves_and_no_activations_per_layer(void **state) {
    struct fixture f = {0};
    struct forward_plan two, many;
    open_fixture(&f, MODEL_POLICY_INT8, false);
    struct model_config config = f.model->config;
    struct forward_options options = {.limits = f.batch.limits, .page_count = PAGES};
    forward_make_plan(&config, &f.model->kv, f.device, &options, &two);
    config.layers *= 10;
    forward_make_plan(&config, &f.model->kv, f.device, &options, &many);
    assert_int_equal(many.activation_bytes, two.activation_bytes);
    assert_int_equal(many.kv_bytes, 10 * two.kv_bytes);
    assert_true(two.total_bytes >= two.activation_bytes + two.kv_bytes + two.batch_bytes);
    close_fixture(&f);
}

TEST_MAIN(cmocka_unit_test(gives_the_same_logits_in_pieces_beside_a_neighbour),
          cmocka_unit_test(gives_the_same_logits_with_rows_padded_to_buckets),
          cmocka_unit_test(samples_the_highest_logit_when_greedy),
          cmocka_unit_test(runs_rows_of_which_none_is_sampled),
          cmocka_unit_test(plans_what_it_reserves_and_no_activations_per_layer))
