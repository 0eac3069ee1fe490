#include "engine/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/score.h"

enum { SIDES = 2 };

struct compare {
    const struct compare_options *options;
    struct model *models[SIDES];
    struct score *scores[SIDES];
    uint32_t *ids; /* owned: [id_count] of the text */
    size_t id_count;
    uint32_t *window; /* owned: [max_model_len] tokens of the current one */
    uint32_t bos_id;

    double loss[SIDES]; /* sums over scored tokens */
    double square_sum;  /* of differences of logits */
    double difference_max;
    uint64_t tokens, same_choices;
    uint32_t windows;

    char *err;
    size_t err_bytes;
};

/* ---------------------------------------------------------------- rows */

/* Nothing here reaches a logit, so libm's exp and log may be used. */
double compare_loss(const float *logits, uint32_t vocabulary, uint32_t token) {
    double largest = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < vocabulary; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    for (uint32_t i = 0; i < vocabulary; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return largest + log(sum) - (double)logits[token];
}

static uint32_t compare_choice(const float *logits, uint32_t vocabulary) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocabulary; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static void compare_row(struct compare *compare, const float *a, const float *b, uint32_t token) {
    uint32_t vocabulary = compare->models[0]->config.vocabulary;
    compare->loss[0] += compare_loss(a, vocabulary, token);
    compare->loss[1] += compare_loss(b, vocabulary, token);
    compare->same_choices += compare_choice(a, vocabulary) == compare_choice(b, vocabulary);
    for (uint32_t i = 0; i < vocabulary; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        compare->square_sum += difference * difference;
        compare->difference_max = fmax(compare->difference_max, difference);
    }
    compare->tokens++;
}

/* ---------------------------------------------------------------- windows */

/* Scores tokens 1..count-1 of the window by the rows before them. */
static enum model_status compare_window(struct compare *compare, uint32_t count) {
    uint32_t vocabulary = compare->models[0]->config.vocabulary;
    for (unsigned side = 0; side < SIDES; side++) {
        score_restart(compare->scores[side]);
    }
    for (uint32_t at = 0; at + 1 < count;) {
        uint32_t left = count - 1 - at, rows = left < SCORE_ROWS_MAX ? left : SCORE_ROWS_MAX;
        const float *logits[SIDES];
        for (unsigned side = 0; side < SIDES; side++) {
            if (score_push(compare->scores[side], compare->window + at, rows, &logits[side],
                           compare->err, compare->err_bytes) != SCORE_OK) {
                return MODEL_FAILED;
            }
        }
        for (uint32_t i = 0; i < rows; i++) {
            compare_row(compare, logits[0] + (size_t)i * vocabulary,
                        logits[1] + (size_t)i * vocabulary, compare->window[at + i + 1]);
        }
        if (!isfinite(compare->loss[0]) || !isfinite(compare->loss[1])) {
            snprintf(compare->err, compare->err_bytes,
                     "window %u, positions %u to %u: a logit is NaN or infinite", compare->windows,
                     at, at + rows - 1);
            return MODEL_FAILED;
        }
        at += rows;
        if (compare->options->progress != NULL) {
            compare->options->progress(compare->options->progress_context,
                                       (double)compare->tokens / (double)compare->id_count);
        }
    }
    compare->windows++;
    return MODEL_OK;
}

/* Cuts the text into windows, each beginning with the model's BOS if it wants one. */
static enum model_status compare_windows(struct compare *compare) {
    uint32_t length = compare->models[0]->max_model_len;
    uint32_t head = compare->bos_id == TOKENIZER_NO_ID ? 0 : 1;
    enum model_status status = MODEL_OK;
    for (size_t at = 0; at < compare->id_count && status == MODEL_OK;) {
        uint32_t count = head;
        compare->window[0] = compare->bos_id;
        while (count < length && at < compare->id_count) {
            compare->window[count++] = compare->ids[at++];
        }
        status = count >= 2 ? compare_window(compare, count) : MODEL_OK;
    }
    return status;
}

/* ---------------------------------------------------------------- set up */

static enum model_status compare_open(struct compare *compare, struct device *device) {
    for (unsigned side = 0; side < SIDES; side++) {
        struct model_options options = {.path = compare->options->path,
                                        .policy = compare->options->policies[side],
                                        .max_model_len = compare->options->max_model_len};
        enum model_status status =
            model_open(&options, device, &compare->models[side], compare->err, compare->err_bytes);
        if (status != MODEL_OK) {
            return status;
        }
        if (score_open(compare->models[side], &compare->scores[side], compare->err,
                       compare->err_bytes) != SCORE_OK) {
            return MODEL_DOES_NOT_FIT;
        }
    }
    return MODEL_OK;
}

static enum model_status compare_tokenise(struct compare *compare) {
    const struct tokenizer *tokenizer = compare->models[0]->tokenizer;
    size_t bytes = compare->options->text_bytes; /* a token stands for one byte or more */
    uint32_t length = compare->models[0]->max_model_len;
    compare->ids = malloc((bytes + 1) * sizeof *compare->ids);
    compare->window = malloc(((size_t)length + 1) * sizeof *compare->window);
    struct token_buffer buffer = {.ids = compare->ids, .capacity = bytes + 1};
    enum text_status status =
        compare->ids == NULL || compare->window == NULL
            ? TEXT_NO_MEMORY
            : tokenizer_encode(tokenizer, compare->options->text, bytes, &buffer);
    if (status != TEXT_OK) {
        snprintf(compare->err, compare->err_bytes, "%s",
                 status == TEXT_TOO_LONG ? "the text is too long" : "out of memory for the text");
        return status == TEXT_TOO_LONG ? MODEL_BAD_OPTION : MODEL_NO_MEMORY;
    }
    compare->id_count = buffer.count;
    compare->bos_id = tokenizer_bos_id(tokenizer);
    if (buffer.count < 2 || length < 2) {
        snprintf(compare->err, compare->err_bytes,
                 "the text has %zu tokens, the context %u: two are needed to score one",
                 buffer.count, length);
        return MODEL_BAD_OPTION;
    }
    return MODEL_OK;
}

static void compare_report(const struct compare *compare, struct compare_report *report) {
    double tokens = (double)compare->tokens;
    double logits = tokens * (double)compare->models[0]->config.vocabulary;
    *report = (struct compare_report){.tokens = compare->tokens, .windows = compare->windows};
    for (unsigned side = 0; side < SIDES; side++) {
        report->perplexity[side] = exp(compare->loss[side] / tokens);
        report->int8_share_percent[side] = model_int8_share_percent(compare->models[side]);
    }
    report->perplexity_loss_percent = 100.0 * (report->perplexity[1] / report->perplexity[0] - 1.0);
    report->logit_difference_max = compare->difference_max;
    report->logit_difference_rms = sqrt(compare->square_sum / logits);
    report->same_choice_percent = 100.0 * (double)compare->same_choices / tokens;
}

enum model_status compare_run(const struct compare_options *options, struct device *device,
                              struct compare_report *report, char *err, size_t err_bytes) {
    struct compare compare = {.options = options, .err = err, .err_bytes = err_bytes};
    enum model_status status = compare_open(&compare, device);
    if (status == MODEL_OK) {
        status = compare_tokenise(&compare);
    }
    if (status == MODEL_OK) {
        status = compare_windows(&compare);
    }
    if (status == MODEL_OK) {
        compare_report(&compare, report);
    }
    for (unsigned side = 0; side < SIDES; side++) {
        score_close(compare.scores[side]);
        model_close(compare.models[side]);
    }
    free(compare.ids);
    free(compare.window);
    return status;
}
