/* The intake: a job's prompt as tokens, checked against every limit, on the worker thread.
 *
 * Renders the built-in prompt of a problem or a chat's messages through the model's template, or
 * takes a raw prompt as it stands (with a BOS where the model wants one), and makes a sequence of
 * it. Bytes are bounded before anything is tokenised. One thread at a time; tokenizer and template
 * are immutable and borrowed. Refuses to know queues, pages by number and devices. */
#ifndef SOLFLEET_ENGINE_INTAKE_H
#define SOLFLEET_ENGINE_INTAKE_H

#include "engine/chat_template.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/tokenizer.h"

struct intake_limits {
    uint32_t max_model_len; /* prompt and answer */
    uint32_t pages_total;   /* that one sequence could hold */
    struct repetition_rule repetition;
};

struct intake {
    const struct tokenizer *tokenizer; /* borrowed */
    const struct chat_template *chat;  /* borrowed; kind CHAT_TEMPLATE_NONE = raw prompts only */
    struct intake_limits limits;
    size_t prompt_bytes_max;    /* more bytes than this are too many tokens, however they fall */
    struct token_buffer prompt; /* owned [max_model_len]: scratch of the prompt at hand */
    uint32_t shared_tokens;     /* of it: see sequence.h */
    const struct prompt_text *builtin; /* that it was put into; NULL = none */
};

/* False when memory ran out; *intake is then zeroed. */
bool intake_init(struct intake *intake, const struct tokenizer *tokenizer,
                 const struct chat_template *chat, const struct intake_limits *limits)
    __attribute__((warn_unused_result));
void intake_deinit(struct intake *intake); /* accepts zeroed */

/* ENGINE_OK moves *job into *out; ENGINE_REJECTED leaves it and fills *rejected; ENGINE_BUSY leaves
 * it: memory ran out. */
enum engine_status intake_admit(struct intake *intake, uint64_t ticket, struct job *job,
                                struct sequence **out, struct job_error *rejected)
    __attribute__((warn_unused_result));

#endif
