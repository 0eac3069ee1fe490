#ifndef SOLFLEET_ENGINE_CHAT_TEMPLATE_H
#define SOLFLEET_ENGINE_CHAT_TEMPLATE_H

/* A chat template: how one model wants messages laid out as tokens.
 *
 * Threads: immutable after init; rendering shares nothing. Memory: the caller's struct; render
 * allocates one copy of the longest message and frees it. Refuses to know Jinja: a template is
 * recognised by its text (white space inside tags and the kind of quotes apart) as one of the
 * forms listed in the .c file, and every other template is refused by showing how it begins.
 *
 * Control tokens are put in by id and contents by tokenizer_encode, so that a message spelling
 * "<|im_end|>" says just that. Otherwise the tokens are those that the reference implementation
 * makes of the rendered template. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"

enum {
    CHAT_TEMPLATE_JINJA_BYTES_MAX = 64 << 10,
    CHAT_TEMPLATE_SYSTEM_BYTES_MAX = 1024, /* of the system message that a template brings */
};

enum chat_template_kind {
    CHAT_TEMPLATE_NONE = 0,
    CHAT_TEMPLATE_CHATML,
};

struct chat_template {
    const struct tokenizer *tokenizer; /* borrowed for the life of the template */
    enum chat_template_kind kind;
    uint32_t start_id; /* <|im_start|> */
    uint32_t end_id;   /* <|im_end|> */
    /* Rendered first when the first message is not a system message. */
    bool has_default_system;
    size_t default_system_bytes;
    char default_system[CHAT_TEMPLATE_SYSTEM_BYTES_MAX];
};

struct chat_message {
    struct text_span role; /* "system", "user" or "assistant" */
    struct text_span content;
    size_t builtin_bytes; /* of the content's first ones: the program's own, the same for all */
};

/* What the counts of a rendered prompt mean for sharing computed prefixes: the first
 * shared_count tokens hold no byte that a client sent. */
struct chat_rendered {
    size_t token_count;
    size_t shared_count;
};

/* UNSUPPORTED: a template that we do not know, or one whose control tokens the vocabulary lacks;
 * err says which. A deinit is not needed. */
__attribute__((warn_unused_result)) enum text_status
chat_template_init(struct chat_template *chat, const struct tokenizer *tokenizer, const char *jinja,
                   size_t jinja_bytes, char *err, size_t err_bytes);

/* Appends the tokens of a conversation to out; rendered may be NULL. BAD: no message, or a role
 * that is none of the three (err names it and its index). TOO_LONG, NO_MEMORY as in encode. */
__attribute__((warn_unused_result)) enum text_status
chat_template_render(const struct chat_template *chat, const struct chat_message *messages,
                     size_t message_count, bool add_generation_prompt, struct token_buffer *out,
                     struct chat_rendered *rendered, char *err, size_t err_bytes);

/* The same, and the answer is begun: its first words are `opening`. */
__attribute__((warn_unused_result)) enum text_status
chat_template_render_opened(const struct chat_template *chat, const struct chat_message *messages,
                            size_t message_count, struct text_span opening,
                            struct token_buffer *out, struct chat_rendered *rendered, char *err,
                            size_t err_bytes);

#endif
