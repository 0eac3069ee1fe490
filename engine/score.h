/* A scorer: given text through one model, with the logits of every position.
 *
 * One sequence at a time, teacher-forced: nothing is sampled. Owns a forward pass with pages for
 * one sequence of the model's length and a buffer of logits; borrows model (and its device) until
 * score_close. One thread, that of the device. Refuses to know tokenizers, files and what the
 * logits are for. */
#ifndef SOLFLEET_ENGINE_SCORE_H
#define SOLFLEET_ENGINE_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/model.h"

enum { SCORE_ROWS_MAX = 32 }; /* tokens a push */

enum score_status {
    SCORE_OK = 0,
    SCORE_NO_MEMORY,
    SCORE_NUMERIC, /* an activation or a logit is NaN or infinite; err says at which position */
    SCORE_FAILED   /* the device failed, or lacks an op */
};

struct score;

enum score_status score_open(const struct model *model, struct score **out, char *err,
                             size_t err_bytes) __attribute__((warn_unused_result));
void score_close(struct score *score); /* accepts NULL */

/* Forgets the text so far: the next push is at position 0. */
void score_restart(struct score *score);

/* Appends 1..SCORE_ROWS_MAX tokens, in all at most model->max_model_len. *logits: [count, V],
 * borrowed until the next push; row i is what the model expects after tokens[i]. */
enum score_status score_push(struct score *score, const uint32_t *tokens, uint32_t count,
                             const float **logits, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
