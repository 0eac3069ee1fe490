/* SmolLM2-135M-Instruct against transformers in float32: see make_smollm2.py for the goldens. */
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/compare.h"
#include "engine/score.h"
#include "tests/support/test_file.h"

#define MODEL_PATH "models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define GOLDEN "tests/golden/smollm2/"

/* Largest difference of a logit that is let pass. Logits reach about 40; the two sides sum in f32
 * over 30 layers in different orders. Measured: 1.07e-4, on every machine, for our logits are the
 * same bits on all of them. */
static const double logit_difference_max = 2e-4;
static const double perplexity_difference_max = 1e-6; /* relative; 3.2e-7 measured */
/* Measured: +3.01 %. */
static const double int8_loss_percent_max = 4.5;

enum { PROMPT_TOKENS_MAX = 2048, STEPS_MAX = 64 };

static struct device *device;

static int open_device(void **state) {
    char err[256];
    const struct device_options options = {.spec = "cpu"};
    return device_open(&options, &device, err, sizeof err) == KERNELS_OK ? 0 : -1;
}

static int close_device(void **state) {
    device_close(device);
    return 0;
}

/* ---------------------------------------------------------------- greedy steps */

struct golden {
    uint8_t *bytes;
    size_t size;
    const uint8_t *at;
    uint32_t prompts, steps, top;
};

static void take(struct golden *golden, void *out, size_t bytes) {
    assert_true(bytes <= (size_t)(golden->bytes + golden->size - golden->at));
    memcpy(out, golden->at, bytes);
    golden->at += bytes;
}

/* What the steps of one prompt showed. */
struct comparison {
    double difference_max;
    uint32_t steps, same, close; /* close: the two highest too near to tell */
};

/* One row: the goldens' highest logits against ours, and the choice. */
static void compare_row(struct comparison *seen, const float *logits, uint32_t vocabulary,
                        const uint32_t *ids, const float *values, uint32_t top) {
    uint32_t choice = 0;
    for (uint32_t v = 1; v < vocabulary; v++) {
        choice = logits[v] > logits[choice] ? v : choice;
    }
    for (uint32_t i = 0; i < top; i++) {
        double difference = fabs((double)logits[ids[i]] - (double)values[i]);
        seen->difference_max = fmax(seen->difference_max, difference);
    }
    bool is_close = (double)values[0] - (double)values[1] <= 2 * logit_difference_max;
    seen->steps++;
    seen->same += choice == ids[0];
    seen->close += is_close;
    if (choice != ids[0] && !is_close) {
        fail_msg("step %u chooses %u, not %u", seen->steps - 1, choice, ids[0]);
    }
}

/* Runs prompt and golden tokens; row prompt_count - 1 + s is the golden's step s. */
static void compare_prompt(struct golden *golden, struct score *score, uint32_t vocabulary,
                           struct comparison *seen) {
    static uint32_t ids[PROMPT_TOKENS_MAX + STEPS_MAX], top_ids[STEPS_MAX * 64];
    static float top_values[STEPS_MAX * 64];
    uint32_t count, at = 0;
    char err[256];
    take(golden, &count, sizeof count);
    assert_in_range(count, 1, PROMPT_TOKENS_MAX);
    take(golden, ids, count * sizeof *ids);
    take(golden, ids + count, golden->steps * sizeof *ids);
    take(golden, top_ids, (size_t)golden->steps * golden->top * sizeof *top_ids);
    take(golden, top_values, (size_t)golden->steps * golden->top * sizeof *top_values);
    uint32_t rows = count + golden->steps - 1;
    score_restart(score);
    while (at < rows) {
        uint32_t step = rows - at < SCORE_ROWS_MAX ? rows - at : SCORE_ROWS_MAX;
        const float *logits;
        if (score_push(score, ids + at, step, &logits, err, sizeof err) != SCORE_OK) {
            fail_msg("%s", err);
        }
        for (uint32_t i = 0; i < step; i++) {
            if (at + i + 1 >= count) {
                size_t s = at + i + 1 - count;
                compare_row(seen, logits + (size_t)i * vocabulary, vocabulary,
                            top_ids + s * golden->top, top_values + s * golden->top, golden->top);
            }
        }
        at += step;
    }
}

static void gives_the_logits_and_choices_of_transformers(void **state) {
    char err[512];
    struct model *model;
    struct score *score;
    struct golden golden;
    struct comparison seen = {0};
    const struct model_options options = {.path = MODEL_PATH, .policy = MODEL_POLICY_F32};
    golden.bytes = test_file_read(GOLDEN "steps.bin", &golden.size);
    golden.at = golden.bytes;
    take(&golden, &golden.prompts, sizeof golden.prompts);
    take(&golden, &golden.steps, sizeof golden.steps);
    take(&golden, &golden.top, sizeof golden.top);
    assert_true(golden.prompts == 10 && golden.steps == STEPS_MAX && golden.top == 32);
    if (model_open(&options, device, &model, err, sizeof err) != MODEL_OK ||
        score_open(model, &score, err, sizeof err) != SCORE_OK) {
        fail_msg("%s", err);
    }
    for (uint32_t i = 0; i < golden.prompts; i++) {
        compare_prompt(&golden, score, model->config.vocabulary, &seen);
    }
    assert_ptr_equal(golden.at, golden.bytes + golden.size);
    fprintf(stderr, "largest difference of a logit %.2e; %u of %u choices the same, %u too close\n",
            seen.difference_max, seen.same, seen.steps, seen.close);
    assert_true(seen.difference_max > 0 && seen.difference_max <= logit_difference_max);
    assert_true(seen.close < seen.steps / 20); /* else the choices would prove nothing */
    score_close(score);
    model_close(model);
    free(golden.bytes);
}

/* ---------------------------------------------------------------- perplexity */

/* The ids of perplexity.txt as transformers has them, and its mean loss. */
static double check_text(const char *text, size_t text_bytes) {
    char err[512];
    struct model *model;
    size_t size;
    uint32_t count;
    double mean;
    const struct model_options options = {.path = MODEL_PATH, .policy = MODEL_POLICY_INT8};
    uint8_t *golden = test_file_read(GOLDEN "perplexity.bin", &size);
    memcpy(&count, golden, sizeof count);
    assert_in_range(count, 1024, 2048);
    assert_int_equal(size, sizeof count + count * sizeof(uint32_t) + sizeof mean);
    memcpy(&mean, golden + size - sizeof mean, sizeof mean);
    if (model_open(&options, device, &model, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    uint32_t *ids = malloc((text_bytes + 1) * sizeof *ids);
    struct token_buffer buffer = {.ids = ids, .capacity = text_bytes};
    assert_int_equal(tokenizer_encode(model->tokenizer, text, text_bytes, &buffer), TEXT_OK);
    assert_int_equal(buffer.count, count);
    assert_memory_equal(ids, golden + sizeof count, count * sizeof *ids);
    free(ids);
    free(golden);
    model_close(model);
    return mean;
}

static void loses_little_perplexity_in_int8(void **state) {
    char err[512];
    struct compare_report report;
    size_t text_bytes;
    char *text = (char *)test_file_read(GOLDEN "perplexity.txt", &text_bytes);
    double expected = exp(check_text(text, text_bytes));
    const struct compare_options options = {.path = MODEL_PATH,
                                            .policies = {MODEL_POLICY_F32, MODEL_POLICY_INT8},
                                            .text = text,
                                            .text_bytes = text_bytes};
    if (compare_run(&options, device, &report, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    fprintf(stderr,
            "perplexity of %llu tokens: transformers %.5f, f32 %.5f, int8 %.5f (%+.2f %%), "
            "%.1f %% of the choices the same\n",
            (unsigned long long)report.tokens, expected, report.perplexity[0], report.perplexity[1],
            report.perplexity_loss_percent, report.same_choice_percent);
    assert_true(fabs(report.perplexity[0] / expected - 1) < perplexity_difference_max);
    assert_true(report.perplexity_loss_percent <= int8_loss_percent_max);
    assert_true(report.perplexity_loss_percent > 0.1); /* nothing lost: nothing was quantised */
    assert_true(report.int8_share_percent[1] == 100);
    free(text);
}

TEST_MAIN_WITH(open_device, close_device,
               cmocka_unit_test(gives_the_logits_and_choices_of_transformers),
               cmocka_unit_test(loses_little_perplexity_in_int8))
