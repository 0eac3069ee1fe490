#include "engine/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/score.h"
#include "kernels/op_outputs.h"
#include "schemas/sha256.h"

enum { SIDES = 2 };

/* Rows of passes, in turn. */
static const uint32_t verify_rows[] = {SCORE_ROWS_MAX, 1, 2, 3, 1, 4, 5, 8, 1, 12, 17};

/* An op of a pass and what came out of it. */
struct verify_entry {
    enum kernel_op op;
    uint32_t n, k;
    uint8_t digest[SHA256_BYTES];
};

struct verify;

struct verify_side {
    struct verify *verify;
    struct device *watched; /* owned: a watch of a device that is the caller's */
    struct model *model;
    struct score *score;
    size_t op_count; /* of the pass */
};

struct verify {
    const struct verify_options *options;
    struct verify_report *report;
    struct verify_side sides[SIDES];
    struct verify_entry *entries; /* owned: of the first device, in this pass */
    size_t capacity;
    void *host; /* owned: where results are copied to */
    size_t host_bytes;
    uint32_t *ids; /* owned: [options->tokens] */
    char *err;
    size_t err_bytes;
};

/* ---------------------------------------------------------------- what an op gave */

static bool verify_reserve(void **memory, size_t *have, size_t want) {
    if (want > *have) {
        void *larger = realloc(*memory, want);
        if (larger == NULL) {
            return false;
        }
        *memory = larger;
        *have = want;
    }
    return true;
}

static enum kernels_status verify_add(struct verify *verify, struct device *device,
                                      const struct op_output *output, struct sha256 *hash) {
    size_t bytes = (output->rows - 1) * output->stride_bytes + output->row_bytes;
    if (!verify_reserve(&verify->host, &verify->host_bytes, bytes)) {
        return KERNELS_NO_MEMORY;
    }
    enum kernels_status status =
        device_copy_out(device, DEVICE_STREAM_COMPUTE, verify->host, output->data, bytes);
    if (status == KERNELS_OK) {
        status = device_sync(device, verify->err, verify->err_bytes);
    }
    for (uint32_t t = 0; t < output->rows && status == KERNELS_OK; t++) {
        sha256_update(hash, (const char *)verify->host + t * output->stride_bytes,
                      output->row_bytes);
    }
    return status;
}

static enum kernels_status verify_digest(struct verify *verify, struct device *device,
                                         const struct watched_op *seen, uint64_t *bytes,
                                         uint8_t digest[SHA256_BYTES]) {
    struct op_output outputs[OP_OUTPUTS_MAX];
    struct sha256 hash;
    size_t count = op_outputs(seen, outputs);
    enum kernels_status status = KERNELS_OK;
    sha256_init(&hash);
    for (size_t i = 0; i < count && status == KERNELS_OK; i++) {
        status = verify_add(verify, device, &outputs[i], &hash);
        *bytes += outputs[i].rows * outputs[i].row_bytes;
    }
    bool is_whole = sha256_finish(&hash, digest);
    return status == KERNELS_OK && !is_whole ? KERNELS_NO_MEMORY : status;
}

/* ---------------------------------------------------------------- watchers */

static bool verify_is_same_op(const struct verify_entry *a, const struct verify_entry *b) {
    return a->op == b->op && a->n == b->n && a->k == b->k;
}

static void verify_note_difference(struct verify *verify, size_t at,
                                   const struct watched_op *seen) {
    struct verify_report *report = verify->report;
    report->is_equal = false;
    op_watch_name(seen, report->op, sizeof report->op);
    for (size_t i = 0; i <= at; i++) {
        report->call += verify_is_same_op(&verify->entries[i], &verify->entries[at]);
    }
}

/* The first device's ops are kept, the second's compared with them. */
static enum kernels_status verify_see(void *context, struct device *device,
                                      const struct watched_op *seen) {
    struct verify_side *side = context;
    struct verify *verify = side->verify;
    bool is_first = side == &verify->sides[0];
    size_t at = side->op_count++;
    struct verify_entry entry = {.op = seen->op,
                                 .n = seen->weight != NULL ? seen->weight->form.n : 0,
                                 .k = seen->weight != NULL ? seen->weight->form.k : 0};
    uint64_t bytes = 0;
    enum kernels_status status = verify_digest(verify, device, seen, &bytes, entry.digest);
    if (status != KERNELS_OK) {
        return status;
    }
    if (is_first) {
        void *entries = verify->entries;
        bool fits = verify_reserve(&entries, &verify->capacity, (at + 1) * sizeof entry);
        verify->entries = entries;
        if (!fits) {
            return KERNELS_NO_MEMORY;
        }
        verify->entries[at] = entry;
    } else if (at >= verify->sides[0].op_count ||
               !verify_is_same_op(&verify->entries[at], &entry)) {
        return KERNELS_UNSUPPORTED;
    } else if (verify->report->is_equal) {
        verify->report->ops++;
        verify->report->bytes += bytes;
        if (memcmp(verify->entries[at].digest, entry.digest, sizeof entry.digest) != 0) {
            verify_note_difference(verify, at, seen);
        }
    }
    return KERNELS_OK;
}

/* ---------------------------------------------------------------- passes */

static enum model_status verify_pass(struct verify *verify, uint32_t position, uint32_t rows) {
    verify->report->position = position;
    verify->report->rows = rows;
    for (unsigned side = 0; side < SIDES; side++) {
        const float *logits;
        verify->sides[side].op_count = 0;
        if (score_push(verify->sides[side].score, verify->ids + position, rows, &logits,
                       verify->err, verify->err_bytes) != SCORE_OK) {
            return MODEL_FAILED;
        }
    }
    if (verify->sides[0].op_count != verify->sides[1].op_count) {
        snprintf(verify->err, verify->err_bytes, "the devices make a pass of %zu and of %zu ops",
                 verify->sides[0].op_count, verify->sides[1].op_count);
        return MODEL_FAILED;
    }
    verify->report->tokens += rows;
    return MODEL_OK;
}

static enum model_status verify_passes(struct verify *verify) {
    enum model_status status = MODEL_OK;
    uint32_t position = 0, tokens = verify->options->tokens;
    for (size_t i = 0; position < tokens && status == MODEL_OK && verify->report->is_equal; i++) {
        uint32_t rows = verify_rows[i % (sizeof verify_rows / sizeof verify_rows[0])];
        rows = rows < tokens - position ? rows : tokens - position;
        status = verify_pass(verify, position, rows);
        position += rows;
    }
    return status;
}

/* ---------------------------------------------------------------- set up */

static enum model_status verify_open(struct verify *verify, unsigned index, struct device *device) {
    struct verify_side *side = &verify->sides[index];
    const struct op_watcher watcher = {.context = side, .see = verify_see};
    const struct model_options options = {.path = verify->options->path,
                                          .policy = verify->options->policy,
                                          .max_model_len = verify->options->tokens};
    side->verify = verify;
    if (op_watch_open(device, &watcher, &side->watched, verify->err, verify->err_bytes) !=
        KERNELS_OK) {
        return MODEL_NO_MEMORY;
    }
    enum model_status status =
        model_open(&options, side->watched, &side->model, verify->err, verify->err_bytes);
    if (status != MODEL_OK) {
        return status;
    }
    return score_open(side->model, &side->score, verify->err, verify->err_bytes) == SCORE_OK
               ? MODEL_OK
               : MODEL_DOES_NOT_FIT;
}

/* The text's tokens, from the beginning again where they are too few. */
static enum model_status verify_tokenise(struct verify *verify) {
    size_t bytes = strlen(verify->options->text), tokens = verify->options->tokens;
    verify->ids = malloc((bytes + tokens + 1) * sizeof *verify->ids);
    struct token_buffer buffer = {.ids = verify->ids, .capacity = bytes + 1};
    if (verify->ids == NULL || tokenizer_encode(verify->sides[0].model->tokenizer,
                                                verify->options->text, bytes, &buffer) != TEXT_OK) {
        snprintf(verify->err, verify->err_bytes, "out of memory for the text");
        return MODEL_NO_MEMORY;
    }
    if (buffer.count == 0) {
        snprintf(verify->err, verify->err_bytes, "the text has no tokens");
        return MODEL_BAD_OPTION;
    }
    for (size_t i = buffer.count; i < tokens; i++) {
        verify->ids[i] = verify->ids[i - buffer.count];
    }
    return MODEL_OK;
}

enum model_status verify_run(const struct verify_options *options, struct device *const devices[2],
                             struct verify_report *report, char *err, size_t err_bytes) {
    struct verify verify = {
        .options = options, .report = report, .err = err, .err_bytes = err_bytes};
    enum model_status status = MODEL_OK;
    *report = (struct verify_report){.is_equal = true};
    for (unsigned i = 0; i < SIDES && status == MODEL_OK; i++) {
        status = verify_open(&verify, i, devices[i]);
    }
    if (status == MODEL_OK) {
        status = verify_tokenise(&verify);
    }
    if (status == MODEL_OK) {
        status = verify_passes(&verify);
    }
    for (unsigned i = 0; i < SIDES; i++) {
        score_close(verify.sides[i].score);
        model_close(verify.sides[i].model);
        device_close(verify.sides[i].watched);
    }
    free(verify.entries);
    free(verify.host);
    free(verify.ids);
    return status;
}
