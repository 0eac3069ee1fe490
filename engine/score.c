#include "engine/score.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/batch.h"
#include "engine/forward.h"

struct score {
    const struct model *model; /* borrowed */
    struct forward *forward;   /* owned */
    struct batch batch;        /* owned */
    float *logits;             /* owned: [SCORE_ROWS_MAX, V] */
    uint32_t position;         /* of the next token */
};

/* Page 0 is the scratch page; the sequence has the pages from 1 on, in order. */
static bool score_assign_pages(struct score *score, uint32_t page_count) {
    int32_t *pages = malloc(page_count * sizeof *pages);
    if (pages == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < page_count; i++) {
        pages[i] = (int32_t)(i + 1);
    }
    batch_set_pages(&score->batch, 0, pages, page_count);
    free(pages);
    return true;
}

static enum score_status score_prepare(struct score *score, char *err, size_t err_bytes) {
    const struct model *model = score->model;
    uint32_t vocabulary = model->config.vocabulary;
    uint32_t page_count = (model->max_model_len + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    const struct forward_options options = {.limits = {.rows_max = SCORE_ROWS_MAX,
                                                       .slots_max = 1,
                                                       .sampled_max = SCORE_ROWS_MAX,
                                                       .slot_pages_max = page_count,
                                                       .vocabulary = vocabulary,
                                                       .seen_max = 1},
                                            .page_count = page_count + 1,
                                            .fast = model->head->form.fast};
    score->logits = malloc((size_t)SCORE_ROWS_MAX * vocabulary * sizeof *score->logits);
    if (score->logits == NULL || !batch_init(&score->batch, &options.limits) ||
        !score_assign_pages(score, page_count)) {
        snprintf(err, err_bytes, "out of memory for the logits of %d rows", SCORE_ROWS_MAX);
        return SCORE_NO_MEMORY;
    }
    enum forward_status status = forward_open(model, &options, &score->forward, err, err_bytes);
    return status == FORWARD_OK          ? SCORE_OK
           : status == FORWARD_NO_MEMORY ? SCORE_NO_MEMORY
                                         : SCORE_FAILED;
}

enum score_status score_open(const struct model *model, struct score **out, char *err,
                             size_t err_bytes) {
    struct score *score = calloc(1, sizeof *score);
    if (score == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return SCORE_NO_MEMORY;
    }
    score->model = model;
    enum score_status status = score_prepare(score, err, err_bytes);
    if (status != SCORE_OK) {
        score_close(score);
        return status;
    }
    *out = score;
    return SCORE_OK;
}

void score_close(struct score *score) {
    if (score == NULL) {
        return;
    }
    forward_close(score->forward);
    batch_deinit(&score->batch);
    free(score->logits);
    free(score);
}

void score_restart(struct score *score) {
    score->position = 0;
}

enum score_status score_push(struct score *score, const uint32_t *tokens, uint32_t count,
                             const float **logits, char *err, size_t err_bytes) {
    struct batch *batch = &score->batch;
    int32_t ids[SCORE_ROWS_MAX];
    assert(count >= 1 && count <= SCORE_ROWS_MAX);
    assert(score->position + count <= score->model->max_model_len);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (int32_t)tokens[i];
    }
    batch_clear(batch);
    uint32_t first = batch_add_segment(batch, 0, score->position, ids, count);
    for (uint32_t i = 0; i < count; i++) {
        batch_add_sampled(batch, first + i);
    }
    if (forward_run_logits(score->forward, batch, score->logits, err, err_bytes) != FORWARD_OK) {
        return SCORE_FAILED;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (batch->row_bad[i] != 0) {
            snprintf(err, err_bytes, "position %u: an activation is NaN or infinite",
                     score->position + i);
            return SCORE_NUMERIC;
        }
    }
    score->position += count;
    *logits = score->logits;
    return SCORE_OK;
}
