#include "engine/intake.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prompt.h"
#include "kernels/ops.h"

bool intake_init(struct intake *intake, const struct tokenizer *tokenizer,
                 const struct chat_template *chat, const struct intake_limits *limits) {
    assert(limits->max_model_len >= 2 && limits->pages_total >= 1);
    memset(intake, 0, sizeof *intake);
    intake->tokenizer = tokenizer;
    intake->chat = chat;
    intake->limits = *limits;
    intake->prompt_bytes_max = limits->max_model_len * tokenizer_token_bytes_max(tokenizer);
    if (intake->prompt_bytes_max > TOKENIZER_TEXT_BYTES_MAX) {
        intake->prompt_bytes_max = TOKENIZER_TEXT_BYTES_MAX;
    }
    intake->prompt.capacity = limits->max_model_len;
    intake->prompt.ids = calloc(limits->max_model_len, sizeof *intake->prompt.ids);
    if (intake->prompt.ids == NULL) {
        intake_deinit(intake);
        return false;
    }
    return true;
}

void intake_deinit(struct intake *intake) {
    free(intake->prompt.ids);
    memset(intake, 0, sizeof *intake);
}

/* ---------------------------------------------------------------- refusals */

static const char *intake_field(const struct job *job) {
    switch (job->kind) {
    case JOB_PROBLEM: return "problem";
    case JOB_PROMPT: return "prompt";
    case JOB_MESSAGES: return "messages";
    }
    return NULL;
}

static enum engine_status intake_refuse_long(const struct intake *intake, const struct job *job,
                                             struct job_error *rejected) {
    error_set(rejected, ERROR_PROMPT_TOO_LONG, intake_field(job),
              "the prompt is too long: at most %u tokens leave room for an answer",
              intake->limits.max_model_len - 1);
    return ENGINE_REJECTED;
}

static enum engine_status intake_refuse(const struct intake *intake, const struct job *job,
                                        enum text_status status, const char *err,
                                        struct job_error *rejected) {
    switch (status) {
    case TEXT_OK: break;
    case TEXT_NO_MEMORY: return ENGINE_BUSY;
    case TEXT_TOO_LONG: return intake_refuse_long(intake, job, rejected);
    case TEXT_UNSUPPORTED:
    case TEXT_BAD:
        error_set(rejected, ERROR_INVALID_FIELD, intake_field(job), "%s", err);
        return ENGINE_REJECTED;
    }
    return ENGINE_OK;
}

/* ---------------------------------------------------------------- prompts */

static struct text_span intake_span(const char *text) {
    return (struct text_span){.data = text, .bytes = strlen(text)};
}

/* `opening`: what the answer begins with. */
static enum text_status intake_render(struct intake *intake, const struct chat_message *messages,
                                      size_t count, const char *opening, char *err,
                                      size_t err_bytes) {
    struct chat_rendered chat = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += messages[i].content.bytes;
    }
    if (bytes > intake->prompt_bytes_max) {
        return TEXT_TOO_LONG;
    }
    enum text_status status =
        chat_template_render_opened(intake->chat, messages, count, intake_span(opening),
                                    &intake->prompt, &chat, err, err_bytes);
    intake->shared_tokens = (uint32_t)chat.shared_count;
    return status;
}

static enum text_status intake_render_problem(struct intake *intake, const struct job *job,
                                              char *err, size_t err_bytes) {
    const struct prompt_text *prompt = prompt_choose(&job->problem);
    size_t system_bytes = 0, problem_bytes = 0;
    char *system = prompt_build_system(prompt, &job->problem, &system_bytes);
    char *problem = prompt_build_problem(prompt, &job->problem, &problem_bytes);
    enum text_status status = TEXT_NO_MEMORY;
    if (system != NULL && problem != NULL) {
        const struct chat_message messages[] = {
            {.role = intake_span("system"),
             .content = {.data = system, .bytes = system_bytes},
             .builtin_bytes = strlen(prompt->system)},
            {.role = intake_span("user"), .content = {.data = problem, .bytes = problem_bytes}}};
        status = intake_render(intake, messages, 2, prompt->opening, err, err_bytes);
        intake->builtin = prompt;
    }
    free(system);
    free(problem);
    return status;
}

static enum text_status intake_render_messages(struct intake *intake, const struct job *job,
                                               char *err, size_t err_bytes) {
    struct chat_message messages[JOB_MESSAGES_MAX];
    assert(job->message_count <= JOB_MESSAGES_MAX);
    for (uint32_t i = 0; i < job->message_count; i++) {
        messages[i] =
            (struct chat_message){.role = intake_span(job_role_name(job->messages[i].role)),
                                  .content = intake_span(job->messages[i].content)};
    }
    return intake_render(intake, messages, job->message_count, "", err, err_bytes);
}

static enum text_status intake_encode_prompt(struct intake *intake, const struct job *job) {
    size_t bytes = strlen(job->prompt);
    uint32_t bos_id = tokenizer_bos_id(intake->tokenizer);
    if (bytes > intake->prompt_bytes_max) {
        return TEXT_TOO_LONG;
    }
    if (bytes > 0 && bos_id != TOKENIZER_NO_ID) {
        intake->prompt.ids[intake->prompt.count++] = bos_id;
        intake->shared_tokens = 1;
    }
    return tokenizer_encode(intake->tokenizer, job->prompt, bytes, &intake->prompt);
}

static enum engine_status intake_tokenize(struct intake *intake, const struct job *job,
                                          struct job_error *rejected) {
    char err[ERROR_MESSAGE_BYTES_MAX] = "";
    enum text_status status = TEXT_OK;
    intake->prompt.count = 0;
    intake->shared_tokens = 0;
    intake->builtin = NULL;
    if (job->kind != JOB_PROMPT && intake->chat->kind == CHAT_TEMPLATE_NONE) {
        error_set(rejected, ERROR_INVALID_FIELD, intake_field(job),
                  "the model has no chat template: send `prompt` instead");
        return ENGINE_REJECTED;
    }
    switch (job->kind) {
    case JOB_PROBLEM: status = intake_render_problem(intake, job, err, sizeof err); break;
    case JOB_PROMPT: status = intake_encode_prompt(intake, job); break;
    case JOB_MESSAGES: status = intake_render_messages(intake, job, err, sizeof err); break;
    }
    return intake_refuse(intake, job, status, err, rejected);
}

/* ---------------------------------------------------------------- limits */

static enum engine_status intake_check_stop_tokens(const struct intake *intake,
                                                   const struct job *job,
                                                   struct job_error *rejected) {
    size_t vocabulary = tokenizer_vocabulary_count(intake->tokenizer);
    for (uint32_t i = 0; i < job->params.stop_token_count; i++) {
        char field[64];
        int32_t id = job->params.stop_token_ids[i];
        if (id >= 0 && (size_t)id < vocabulary) {
            continue;
        }
        snprintf(field, sizeof field, "params.stop_token_ids[%u]", i);
        error_set(rejected, ERROR_INVALID_FIELD, field,
                  "token %d is not in the model's vocabulary of %zu", id, vocabulary);
        return ENGINE_REJECTED;
    }
    return ENGINE_OK;
}

/* The answer's length, cut to the room that the context leaves. */
static enum engine_status intake_check_room(const struct intake *intake, const struct job *job,
                                            uint32_t *answer_max, struct job_error *rejected) {
    uint32_t tokens = (uint32_t)intake->prompt.count;
    if (tokens == 0) {
        error_set(rejected, ERROR_EMPTY_PROMPT, intake_field(job), "the prompt has no tokens");
        return ENGINE_REJECTED;
    }
    if (tokens >= intake->limits.max_model_len) {
        return intake_refuse_long(intake, job, rejected);
    }
    uint32_t room = intake->limits.max_model_len - tokens;
    *answer_max = job->params.max_tokens < room ? job->params.max_tokens : room;
    uint32_t pages = sequence_page_need(tokens, *answer_max);
    if (pages > intake->limits.pages_total) {
        error_set(rejected, ERROR_TOO_LARGE, "params.max_tokens",
                  "%u prompt tokens and an answer of %u can never fit the KV cache of %u tokens",
                  tokens, *answer_max, intake->limits.pages_total * KV_PAGE_TOKENS);
        return ENGINE_REJECTED;
    }
    return ENGINE_OK;
}

enum engine_status intake_admit(struct intake *intake, uint64_t ticket, struct job *job,
                                struct sequence **out, struct job_error *rejected) {
    uint32_t answer_max = 0;
    uint64_t tenant_number;
    enum engine_status status = intake_check_stop_tokens(intake, job, rejected);
    if (status == ENGINE_OK) {
        status = intake_tokenize(intake, job, rejected);
    }
    if (status == ENGINE_OK) {
        status = intake_check_room(intake, job, &answer_max, rejected);
    }
    if (status != ENGINE_OK) {
        return status;
    }
    if (!job_tenant_number(job, &tenant_number)) {
        return ENGINE_BUSY;
    }
    enum text_status made =
        sequence_open(ticket, job, intake->tokenizer, &intake->prompt, answer_max, out);
    if (made == TEXT_BAD) {
        error_set(rejected, ERROR_INVALID_FIELD, "params.stop", "a stop string cannot be used");
        return ENGINE_REJECTED;
    }
    if (made != TEXT_OK) {
        return ENGINE_BUSY;
    }
    (*out)->shared_tokens = intake->shared_tokens;
    (*out)->tenant_number = tenant_number;
    if (intake->builtin != NULL) {
        sequence_set_prompt(*out, intake->builtin);
    }
    repetition_init(&(*out)->repetition, &intake->limits.repetition);
    return ENGINE_OK;
}
