#include "engine/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prompt.h"
#include "kernels/ops.h"
#include "schemas/result.h"

#define SEQUENCE_TEXT_BYTES 256 /* of a new sequence's buffer, which doubles when it is full */

/* ---------------------------------------------------------------- what penalties look at */

static bool sequence_has_penalties(const struct job_params *params) {
    return params->repetition_penalty != 1.0f || params->presence_penalty != 0.0f ||
           params->frequency_penalty != 0.0f;
}

/* Where an id is, or where it would be. */
static uint32_t sequence_find_seen(const struct sequence *sequence, int32_t id) {
    uint32_t low = 0, high = sequence->seen_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sequence->seen[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void sequence_note_seen(struct sequence *sequence, int32_t id, int32_t times) {
    uint32_t at = sequence_find_seen(sequence, id);
    if (at == sequence->seen_count || sequence->seen[at].id != id) {
        memmove(&sequence->seen[at + 1], &sequence->seen[at],
                (sequence->seen_count - at) * sizeof *sequence->seen);
        sequence->seen[at] = (struct sequence_seen){.id = id};
        sequence->seen_count++;
    }
    sequence->seen[at].count += times;
}

/* Only the repetition penalty looks at the prompt. */
static void sequence_note_prompt(struct sequence *sequence) {
    if (sequence->seen != NULL && sequence->job.params.repetition_penalty != 1.0f) {
        for (uint32_t i = 0; i < sequence->prompt_tokens; i++) {
            sequence_note_seen(sequence, sequence->tokens[i], 0);
        }
    }
}

/* ---------------------------------------------------------------- open and close */

uint32_t sequence_page_need(uint32_t prompt_tokens, uint32_t answer_max) {
    return (prompt_tokens + answer_max - 1 + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

static bool sequence_reserve(struct sequence *sequence, bool has_penalties) {
    size_t tokens_max = (size_t)sequence->prompt_tokens + sequence->answer_max;
    sequence->tokens = malloc(tokens_max * sizeof *sequence->tokens);
    sequence->hold.pages = malloc(sequence->pages_max * sizeof *sequence->hold.pages);
    sequence->text = malloc(SEQUENCE_TEXT_BYTES + 1); /* and an end for the string */
    sequence->seen = has_penalties ? malloc(tokens_max * sizeof *sequence->seen) : NULL;
    return sequence->tokens != NULL && sequence->hold.pages != NULL && sequence->text != NULL &&
           (sequence->seen != NULL || !has_penalties);
}

static enum text_status sequence_init_text(struct sequence *sequence,
                                           const struct job_params *params) {
    for (uint32_t i = 0; i < params->stop_count; i++) {
        sequence->stops[i] =
            (struct text_span){.data = params->stop[i], .bytes = strlen(params->stop[i])};
    }
    return decode_text_init(&sequence->decode, sequence->tokenizer, sequence->text,
                            SEQUENCE_TEXT_BYTES, sequence->stops, params->stop_count);
}

enum text_status sequence_open(uint64_t ticket, struct job *job, const struct tokenizer *tokenizer,
                               const struct token_buffer *prompt, uint32_t answer_max,
                               struct sequence **out) {
    assert(prompt->count >= 1 && answer_max >= 1);
    struct sequence *sequence = calloc(1, sizeof *sequence);
    if (sequence == NULL) {
        return TEXT_NO_MEMORY;
    }
    sequence->ticket = ticket;
    sequence->tokenizer = tokenizer;
    sequence->prompt_tokens = (uint32_t)prompt->count;
    sequence->answer_max = answer_max;
    sequence->slot = SEQUENCE_NO_SLOT;
    sequence->prompt_version = PROMPT_VERSION_NONE;
    sequence->pages_max = sequence_page_need(sequence->prompt_tokens, answer_max);
    enum text_status status = TEXT_NO_MEMORY;
    if (sequence_reserve(sequence, sequence_has_penalties(&job->params))) {
        status = sequence_init_text(sequence, &job->params); /* the strings stay where they are */
    }
    if (status != TEXT_OK) {
        sequence_close(sequence);
        return status;
    }
    for (uint32_t i = 0; i < sequence->prompt_tokens; i++) {
        sequence->tokens[i] = (int32_t)prompt->ids[i];
    }
    sequence->job = *job;
    memset(job, 0, sizeof *job);
    sequence_note_prompt(sequence);
    *out = sequence;
    return TEXT_OK;
}

void sequence_close(struct sequence *sequence) {
    if (sequence == NULL) {
        return;
    }
    job_deinit(&sequence->job);
    free(sequence->tokens);
    free(sequence->hold.pages);
    free(sequence->text);
    free(sequence->seen);
    free(sequence);
}

struct kv_prompt sequence_kv_prompt(const struct sequence *sequence) {
    const char *tenant = sequence->job.tenant;
    return (struct kv_prompt){.tokens = sequence->tokens,
                              .token_count = sequence->prompt_tokens,
                              .shared_tokens = sequence->shared_tokens,
                              .owner = tenant != NULL ? tenant : ""};
}

void sequence_set_prompt(struct sequence *sequence, const struct prompt_text *prompt) {
    sequence->prompt_version = prompt->version;
    decode_text_begin(&sequence->decode, prompt->opening);
}

/* ---------------------------------------------------------------- tokens */

static bool sequence_is_end(const struct sequence *sequence, int32_t token) {
    const struct job_params *params = &sequence->job.params;
    for (uint32_t i = 0; i < params->stop_token_count; i++) {
        if (params->stop_token_ids[i] == token) {
            return true;
        }
    }
    return tokenizer_is_end(sequence->tokenizer, (uint32_t)token);
}

/* Adds a token's text, with a larger buffer if need be. */
static bool sequence_push_text(struct sequence *sequence, int32_t token) {
    struct decode_text *decode = &sequence->decode;
    enum text_status status;
    while ((status = decode_text_push(decode, (uint32_t)token)) == TEXT_TOO_LONG) {
        size_t bytes = decode->capacity_bytes * 2;
        char *larger = realloc(sequence->text, bytes + 1);
        if (larger == NULL) {
            return false;
        }
        sequence->text = larger;
        decode->text = larger;
        decode->capacity_bytes = bytes;
    }
    assert(status == TEXT_OK);
    return true;
}

enum sequence_state sequence_push(struct sequence *sequence, int32_t token,
                                  enum finish_reason *reason) {
    assert(sequence->answer_tokens < sequence->answer_max);
    sequence->tokens[sequence->prompt_tokens + sequence->answer_tokens++] = token;
    if (sequence->seen != NULL) {
        sequence_note_seen(sequence, token, 1);
    }
    if (sequence_is_end(sequence, token)) {
        *reason = FINISH_STOP;
        return SEQUENCE_IS_FINISHED;
    }
    if (!sequence_push_text(sequence, token)) {
        return SEQUENCE_HAS_NO_MEMORY;
    }
    if (sequence->decode.is_stopped) {
        *reason = FINISH_STOP;
        return SEQUENCE_IS_FINISHED;
    }
    if (repetition_add(&sequence->repetition, sequence->tokens + sequence->prompt_tokens,
                       sequence->answer_tokens)) {
        *reason = FINISH_REPETITION;
        return SEQUENCE_IS_FINISHED;
    }
    *reason = FINISH_LENGTH;
    return sequence->answer_tokens == sequence->answer_max ? SEQUENCE_IS_FINISHED
                                                           : SEQUENCE_GOES_ON;
}

/* ---------------------------------------------------------------- events */

static void sequence_fill(const struct sequence *sequence, enum engine_event_kind kind,
                          struct engine_event *event) {
    *event = (struct engine_event){.ticket = sequence->ticket,
                                   .kind = kind,
                                   .prompt_version = sequence->prompt_version,
                                   .usage.prompt_tokens = sequence->prompt_tokens,
                                   .usage.completion_tokens = sequence->answer_tokens,
                                   .usage.cached_tokens = sequence->cached_tokens,
                                   .admitted_ns = sequence->admitted_ns,
                                   .started_ns = sequence->started_ns,
                                   .first_token_ns = sequence->first_token_ns};
}

void sequence_fill_started(const struct sequence *sequence, struct engine_event *event) {
    sequence_fill(sequence, ENGINE_EVENT_STARTED, event);
}

/* A string cannot hold U+0000, and nobody can show it: it becomes a space. */
static void sequence_replace_zeros(char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }
    text[bytes] = '\0';
}

bool sequence_fill_progress(const struct sequence *sequence, struct engine_event *event) {
    size_t bytes = sequence->decode.stable_bytes;
    sequence_fill(sequence, ENGINE_EVENT_PROGRESS, event);
    if (sequence->job.progress != JOB_PROGRESS_TEXT) {
        return true;
    }
    event->text = malloc(bytes + 1);
    if (event->text == NULL) {
        return false;
    }
    memcpy(event->text, sequence->text, bytes);
    sequence_replace_zeros(event->text, bytes);
    return true;
}

void sequence_fill_finished(struct sequence *sequence, enum finish_reason reason,
                            struct engine_event *event) {
    assert(sequence->text != NULL);
    sequence_fill(sequence, ENGINE_EVENT_FINISHED, event);
    decode_text_finish(&sequence->decode);
    sequence_replace_zeros(sequence->text, sequence->decode.text_bytes);
    event->finish_reason = reason;
    event->truncated = reason == FINISH_LENGTH;
    event->text = sequence->text;
    sequence->text = NULL;
    if (!result_answer_sha256(sequence->tokens + sequence->prompt_tokens, sequence->answer_tokens,
                              event->text, reason, event->answer_sha256)) {
        event->finish_reason = FINISH_ERROR;
        error_set(&event->error, ERROR_INTERNAL, NULL, "out of memory");
    }
}
