/* A comparison: one checkpoint under two policies, judged by the same text.
 *
 * Teacher-forced: both models are given the text in windows of the context's length, and every
 * token but a window's first is scored by the probability that the model gave it. Both models are
 * on the device at the same time. One thread, that of the device; everything is freed before
 * compare_run returns. Refuses to know command lines and JSON. */
#ifndef SOLFLEET_ENGINE_COMPARE_H
#define SOLFLEET_ENGINE_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/model.h"

enum { COMPARE_TEXT_BYTES_MAX = 16 << 20 };

struct compare_options {
    const char *path;
    enum model_policy policies[2]; /* A, the measure, and B */
    const char *text;              /* UTF-8; as a raw prompt, not as a chat */
    size_t text_bytes;
    uint32_t max_model_len; /* length of a window; 0 = the model's default */
    /* May be NULL: called after each chunk with the share that is done, 0 to 1. */
    void (*progress)(void *context, double done);
    void *progress_context;
};

struct compare_report {
    uint64_t tokens; /* scored */
    uint32_t windows;
    double perplexity[2];           /* exp of the mean negative log-likelihood */
    double perplexity_loss_percent; /* of B against A */
    double int8_share_percent[2];   /* of the blocks' multiply-adds */
    double logit_difference_max;    /* over all logits of all scored positions */
    double logit_difference_rms;
    double same_choice_percent; /* positions where both would choose the same token */
};

/* MODEL_BAD_OPTION: a text too short to score; MODEL_FAILED: the device, or a NaN. */
enum model_status compare_run(const struct compare_options *options, struct device *device,
                              struct compare_report *report, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Minus the logarithm of the probability that a row of logits gives `token`. */
double compare_loss(const float *logits, uint32_t vocabulary, uint32_t token);

#endif
