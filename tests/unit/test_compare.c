#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/compare.h"
#include "engine/model_plan.h"
#include "engine/score.h"
#include "tests/support/tiny_llama.h"

static struct device *device;

static int open_device(void **state) {
    char err[256];
    const struct device_options options = {.spec = "cpu", .threads = 1};
    return device_open(&options, &device, err, sizeof err) == KERNELS_OK ? 0 : -1;
}

static int close_device(void **state) {
    device_close(device);
    return 0;
}

static const char text[] =
    "A ledger holds the offsets that were delivered and are not yet settled. It answers one "
    "question: what is the first offset that still needs work? That number is safe to store.\n\n"
    "def first_open(offsets, settled):\n    return min(o for o in offsets if o not in settled)\n";

static struct model *open_tiny(const char *path, enum model_policy policy) {
    char err[512];
    struct model *model;
    const struct model_options options = {.path = path, .policy = policy};
    if (model_open(&options, device, &model, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    return model;
}

static size_t encode(const struct model *model, uint32_t *ids, size_t capacity) {
    struct token_buffer buffer = {.ids = ids, .capacity = capacity};
    assert_int_equal(tokenizer_encode(model->tokenizer, text, sizeof text - 1, &buffer), TEXT_OK);
    assert_true(buffer.count > 2 * SCORE_ROWS_MAX);
    return buffer.count;
}

/* All logits of a text, pushed `step` tokens at a time; the caller frees. */
static float *score_all(const struct model *model, const uint32_t *ids, size_t count,
                        uint32_t step) {
    char err[512];
    struct score *score;
    uint32_t vocabulary = model->config.vocabulary;
    float *all = malloc(count * vocabulary * sizeof *all);
    if (score_open(model, &score, err, sizeof err) != SCORE_OK) {
        fail_msg("%s", err);
    }
    for (size_t at = 0; at < count;) {
        uint32_t rows = count - at < step ? (uint32_t)(count - at) : step;
        const float *logits;
        assert_int_equal(score_push(score, ids + at, rows, &logits, err, sizeof err), SCORE_OK);
        memcpy(all + at * vocabulary, logits, (size_t)rows * vocabulary * sizeof *all);
        at += rows;
    }
    score_close(score);
    return all;
}

static void scores_by_the_same_bits_however_the_text_is_cut(void **state) {
    char *path = tiny_llama_write(NULL);
    for (enum model_policy policy = 0; policy < MODEL_POLICY_COUNT; policy++) {
        if (!model_plan_has_policy(device_ops(device), policy)) {
            continue;
        }
        struct model *model = open_tiny(path, policy);
        uint32_t ids[512];
        size_t count = encode(model, ids, 512);
        float *whole = score_all(model, ids, count, SCORE_ROWS_MAX);
        float *single = score_all(model, ids, count, 1);
        float *uneven = score_all(model, ids, count, 7);
        size_t bytes = count * model->config.vocabulary * sizeof *whole;
        assert_memory_equal(whole, single, bytes);
        assert_memory_equal(whole, uneven, bytes);
        free(whole);
        free(single);
        free(uneven);
        model_close(model);
    }
    free(path);
}

static void starts_anew_after_a_restart(void **state) {
    char *path = tiny_llama_write(NULL), err[512];
    struct model *model = open_tiny(path, MODEL_POLICY_INT8);
    struct score *score;
    const uint32_t first[] = {20, 30, 40}, second[] = {50, 60};
    const float *logits;
    size_t bytes = 2 * model->config.vocabulary * sizeof *logits;
    float *fresh = malloc(bytes);
    assert_int_equal(score_open(model, &score, err, sizeof err), SCORE_OK);
    assert_int_equal(score_push(score, second, 2, &logits, err, sizeof err), SCORE_OK);
    memcpy(fresh, logits, bytes);
    score_restart(score);
    assert_int_equal(score_push(score, first, 3, &logits, err, sizeof err), SCORE_OK);
    assert_int_equal(score_push(score, second, 2, &logits, err, sizeof err), SCORE_OK);
    assert_memory_not_equal(fresh, logits, bytes); /* what came before matters */
    score_restart(score);
    assert_int_equal(score_push(score, second, 2, &logits, err, sizeof err), SCORE_OK);
    assert_memory_equal(fresh, logits, bytes);
    free(fresh);
    score_close(score);
    model_close(model);
    free(path);
}

/* exp of the mean loss in windows of `length`, computed the plain way. */
static double plain_perplexity(const struct model *model, const uint32_t *ids, size_t count,
                               size_t length) {
    uint32_t vocabulary = model->config.vocabulary;
    double loss = 0;
    size_t scored = 0;
    for (size_t at = 0; at < count; at += length) {
        size_t size = count - at < length ? count - at : length;
        float *logits = score_all(model, ids + at, size, SCORE_ROWS_MAX);
        for (size_t i = 0; i + 1 < size; i++) {
            double sum = 0;
            for (uint32_t v = 0; v < vocabulary; v++) {
                sum += exp((double)logits[i * vocabulary + v]);
            }
            loss -= log(exp((double)logits[i * vocabulary + ids[at + i + 1]]) / sum);
            scored++;
        }
        free(logits);
    }
    return exp(loss / (double)scored);
}

static void reports_the_perplexity_of_the_text_in_windows(void **state) {
    char *path = tiny_llama_write(NULL), err[512];
    struct model *model = open_tiny(path, MODEL_POLICY_F32);
    uint32_t ids[512];
    size_t count = encode(model, ids, 512);
    const uint32_t lengths[] = {0, 33, 50};
    for (size_t i = 0; i < 3; i++) {
        const struct compare_options options = {.path = path,
                                                .policies = {MODEL_POLICY_F32, MODEL_POLICY_INT8},
                                                .text = text,
                                                .text_bytes = sizeof text - 1,
                                                .max_model_len = lengths[i]};
        struct compare_report report;
        assert_int_equal(compare_run(&options, device, &report, err, sizeof err), MODEL_OK);
        size_t length = lengths[i] ? lengths[i] : 1024;
        double expected = plain_perplexity(model, ids, count, length);
        assert_true(fabs(report.perplexity[0] / expected - 1) < 1e-9);
        assert_int_equal(report.windows, (count + length - 1) / length);
        assert_int_equal(report.tokens, count - report.windows);
        double loss = 100 * (report.perplexity[1] / report.perplexity[0] - 1);
        assert_true(fabs(report.perplexity_loss_percent - loss) < 1e-9);
        assert_true(report.perplexity[1] != report.perplexity[0]);
        assert_true(report.int8_share_percent[0] == 0 && report.int8_share_percent[1] == 100);
        assert_true(report.logit_difference_rms > 0);
        assert_true(report.logit_difference_max > report.logit_difference_rms);
        assert_true(report.same_choice_percent > 60 && report.same_choice_percent <= 100);
    }
    model_close(model);
    free(path);
}

static void finds_no_difference_between_a_policy_and_itself(void **state) {
    char *path = tiny_llama_write(NULL), err[512];
    const struct compare_options options = {.path = path,
                                            .policies = {MODEL_POLICY_INT8, MODEL_POLICY_INT8},
                                            .text = text,
                                            .text_bytes = sizeof text - 1};
    struct compare_report report;
    assert_int_equal(compare_run(&options, device, &report, err, sizeof err), MODEL_OK);
    assert_true(report.perplexity[0] == report.perplexity[1]);
    assert_true(report.perplexity_loss_percent == 0 && report.logit_difference_max == 0);
    assert_true(report.logit_difference_rms == 0 && report.same_choice_percent == 100);
    free(path);
}

static void refuses_a_text_too_short_to_score(void **state) {
    char *path = tiny_llama_write(NULL), err[512];
    struct compare_report report;
    struct compare_options options = {.path = path, .text = "x", .text_bytes = 1};
    assert_int_equal(compare_run(&options, device, &report, err, sizeof err), MODEL_BAD_OPTION);
    assert_non_null(strstr(err, "the text has 1 tokens"));
    options.path = "/nonexistent";
    assert_int_equal(compare_run(&options, device, &report, err, sizeof err), MODEL_BAD_FILE);
    free(path);
}

static void measures_a_loss_without_overflow(void **state) {
    const float even[4] = {0, 0, 0, 0}, far[3] = {1000, 1000, -1000};
    assert_true(fabs(compare_loss(even, 4, 2) - log(4)) < 1e-15);
    assert_true(fabs(compare_loss(far, 3, 1) - log(2)) < 1e-12);
    assert_true(fabs(compare_loss(far, 3, 2) - (2000 + log(2))) < 1e-9);
}

TEST_MAIN_WITH(open_device, close_device,
               cmocka_unit_test(scores_by_the_same_bits_however_the_text_is_cut),
               cmocka_unit_test(starts_anew_after_a_restart),
               cmocka_unit_test(reports_the_perplexity_of_the_text_in_windows),
               cmocka_unit_test(finds_no_difference_between_a_policy_and_itself),
               cmocka_unit_test(refuses_a_text_too_short_to_score),
               cmocka_unit_test(measures_a_loss_without_overflow))
