#include "engine/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quote.h"

/* ---- recognising ----
 *
 * A template is first brought into a normal form, so that differences which Jinja does not see do
 * not matter: no white space in tags, string literals unescaped between LITERAL marks, and no line
 * break right after a block tag (the reference renders with trim_blocks). The normal form is then
 * compared with the forms that we render. */

#define LITERAL "\x01"

/* ChatML is: [prelude] loop [default system message] body generation. */
static const char prelude[] =
    "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}";
static const char loop[] = "{%formessageinmessages%}";
static const char default_system_open[] =
    "{%ifloop.firstandmessages[0][" LITERAL "role" LITERAL "]!=" LITERAL "system" LITERAL
    "%}{{" LITERAL "<|im_start|>system\n";
static const char default_system_close[] = "<|im_end|>\n" LITERAL "}}{%endif%}";
static const char body[] =
    "{{" LITERAL "<|im_start|>" LITERAL "+message[" LITERAL "role" LITERAL "]+" LITERAL "\n" LITERAL
    "+message[" LITERAL "content" LITERAL "]+" LITERAL "<|im_end|>" LITERAL "+" LITERAL "\n" LITERAL
    "}}{%endfor%}";
static const char body_joined[] =
    "{{" LITERAL "<|im_start|>" LITERAL "+message[" LITERAL "role" LITERAL "]+" LITERAL "\n" LITERAL
    "+message[" LITERAL "content" LITERAL "]+" LITERAL "<|im_end|>\n" LITERAL "}}{%endfor%}";
static const char generation[] =
    "{%ifadd_generation_prompt%}{{" LITERAL "<|im_start|>assistant\n" LITERAL "}}{%endif%}";

struct normaliser {
    const char *in;
    size_t in_bytes;
    size_t at;
    char *out; /* [in_bytes]: no rule makes a text longer */
    size_t out_bytes;
};

static bool starts_with(const char *text, size_t bytes, const char *prefix) {
    const size_t prefix_bytes = strlen(prefix);
    return bytes >= prefix_bytes && memcmp(text, prefix, prefix_bytes) == 0;
}

static bool sees(const struct normaliser *n, const char *mark) {
    return starts_with(n->in + n->at, n->in_bytes - n->at, mark);
}

static void put(struct normaliser *n, char c) {
    n->out[n->out_bytes++] = c;
}

/* From one quote to the next. False: an escape that we do not know, or no end. */
static bool normalise_literal(struct normaliser *n) {
    const char quote = n->in[n->at++];
    put(n, LITERAL[0]);
    for (; n->at < n->in_bytes; n->at++) {
        char c = n->in[n->at];
        if (c == quote) {
            n->at++;
            put(n, LITERAL[0]);
            return true;
        }
        if (c == '\\') {
            if (++n->at == n->in_bytes) {
                return false;
            }
            c = n->in[n->at];
            if (c == 'n') {
                c = '\n';
            } else if (c != '\\' && c != '\'' && c != '"') {
                return false;
            }
        }
        put(n, c);
    }
    return false;
}

/* From "{%" or "{{" to its end. */
static bool normalise_tag(struct normaliser *n) {
    const char *end = sees(n, "{%") ? "%}" : "}}";
    put(n, n->in[n->at++]);
    put(n, n->in[n->at++]);
    while (n->at < n->in_bytes) {
        if (sees(n, end)) {
            put(n, n->in[n->at++]);
            put(n, n->in[n->at++]);
            n->at += end[0] == '%' && sees(n, "\n");
            return true;
        }
        const char c = n->in[n->at];
        if (c == '\'' || c == '"') {
            if (!normalise_literal(n)) {
                return false;
            }
            continue;
        }
        if (c != ' ' && c != '\n' && c != '\t') {
            put(n, c);
        }
        n->at++;
    }
    return false;
}

static bool normalise(struct normaliser *n) {
    if (memchr(n->in, LITERAL[0], n->in_bytes) != NULL ||
        memchr(n->in, '\r', n->in_bytes) != NULL) {
        return false; /* the mark must be ours; Jinja turns every line break into "\n" */
    }
    while (n->at < n->in_bytes) {
        if (sees(n, "{%") || sees(n, "{{")) {
            if (!normalise_tag(n)) {
                return false;
            }
        } else {
            put(n, n->in[n->at++]);
        }
    }
    return true;
}

struct matcher {
    const char *text;
    size_t bytes;
};

static bool accept(struct matcher *matcher, const char *part) {
    if (!starts_with(matcher->text, matcher->bytes, part)) {
        return false;
    }
    matcher->text += strlen(part);
    matcher->bytes -= strlen(part);
    return true;
}

/* The message is whatever stands between its brackets. One that spells a control token would mean
 * that token to the reference, and is refused. */
static bool accept_default_system(struct matcher *matcher, struct chat_template *chat) {
    if (!accept(matcher, default_system_open)) {
        return true; /* it is optional */
    }
    const char *close = memmem(matcher->text, matcher->bytes, default_system_close,
                               sizeof default_system_close - 1);
    if (close == NULL) {
        return false;
    }
    const size_t bytes = (size_t)(close - matcher->text);
    if (bytes > sizeof chat->default_system || memchr(matcher->text, LITERAL[0], bytes) != NULL ||
        memmem(matcher->text, bytes, "<|", 2) != NULL) {
        return false;
    }
    chat->has_default_system = true;
    chat->default_system_bytes = bytes;
    memcpy(chat->default_system, matcher->text, bytes);
    matcher->text += bytes;
    matcher->bytes -= bytes;
    return accept(matcher, default_system_close);
}

static bool accept_chatml(struct matcher matcher, struct chat_template *chat) {
    (void)accept(&matcher, prelude);
    return accept(&matcher, loop) && accept_default_system(&matcher, chat) &&
           (accept(&matcher, body) || accept(&matcher, body_joined)) &&
           accept(&matcher, generation) && matcher.bytes == 0;
}

static enum text_status recognise(struct chat_template *chat, const char *jinja, size_t jinja_bytes,
                                  char *err, size_t err_bytes) {
    if (jinja_bytes > 0 && jinja_bytes <= CHAT_TEMPLATE_JINJA_BYTES_MAX) {
        struct normaliser n = {.in = jinja, .in_bytes = jinja_bytes, .out = malloc(jinja_bytes)};
        if (n.out == NULL) {
            snprintf(err, err_bytes, "no memory to read a chat template");
            return TEXT_NO_MEMORY;
        }
        const bool is_known =
            normalise(&n) && accept_chatml((struct matcher){n.out, n.out_bytes}, chat);
        free(n.out);
        if (is_known) {
            chat->kind = CHAT_TEMPLATE_CHATML;
            return TEXT_OK;
        }
    }
    snprintf(err, err_bytes, "this chat template is not supported (only ChatML is): \"%s\"",
             quote_of(jinja, jinja_bytes).text);
    return TEXT_UNSUPPORTED;
}

/* ---- binding to a vocabulary ---- */

static enum text_status find_control(const struct tokenizer *tokenizer, const char *name,
                                     uint32_t *id, char *err, size_t err_bytes) {
    *id = tokenizer_find_control(tokenizer, name);
    if (*id == TOKENIZER_NO_ID) {
        snprintf(err, err_bytes, "the chat template needs the control token %s", name);
        return TEXT_UNSUPPORTED;
    }
    return TEXT_OK;
}

/* A vocabulary that cannot spell the template would render another one. */
static enum text_status check_spelling(const struct chat_template *chat, char *err,
                                       size_t err_bytes) {
    static const char fixed[] = "system user assistant\n";
    const size_t fixed_bytes = sizeof fixed - 1;
    if (tokenizer_encodable_bytes(chat->tokenizer, fixed, fixed_bytes) != fixed_bytes ||
        tokenizer_encodable_bytes(chat->tokenizer, chat->default_system,
                                  chat->default_system_bytes) != chat->default_system_bytes) {
        snprintf(err, err_bytes, "the vocabulary lacks bytes that the chat template uses");
        return TEXT_UNSUPPORTED;
    }
    return TEXT_OK;
}

enum text_status chat_template_init(struct chat_template *chat, const struct tokenizer *tokenizer,
                                    const char *jinja, size_t jinja_bytes, char *err,
                                    size_t err_bytes) {
    *chat = (struct chat_template){.tokenizer = tokenizer};
    enum text_status status = recognise(chat, jinja, jinja_bytes, err, err_bytes);
    if (status == TEXT_OK) {
        status = find_control(tokenizer, "<|im_start|>", &chat->start_id, err, err_bytes);
    }
    if (status == TEXT_OK) {
        status = find_control(tokenizer, "<|im_end|>", &chat->end_id, err, err_bytes);
    }
    return status == TEXT_OK ? check_spelling(chat, err, err_bytes) : status;
}

/* ---- rendering ---- */

struct renderer {
    const struct chat_template *chat;
    struct token_buffer *out;
    char *text; /* room for the longest message with its head */
    size_t first;
    size_t shared_count;
    bool is_shared; /* nothing that a client sent has come yet */
};

static enum text_status put_control(struct renderer *renderer, uint32_t id) {
    if (renderer->out->count == renderer->out->capacity) {
        return TEXT_TOO_LONG;
    }
    renderer->out->ids[renderer->out->count++] = id;
    renderer->shared_count += renderer->is_shared;
    return TEXT_OK;
}

/* Of the tokens from `from` on, those that end within so many bytes. */
static size_t tokens_within(const struct renderer *renderer, size_t from, size_t bytes) {
    size_t count = 0;
    for (size_t i = from; i < renderer->out->count; i++) {
        const struct text_span token =
            tokenizer_token_bytes(renderer->chat->tokenizer, renderer->out->ids[i]);
        if (token.bytes > bytes) {
            break;
        }
        bytes -= token.bytes;
        count++;
    }
    return count;
}

/* The first own_bytes of the text are ours, the rest a client's. No token is missing for a byte of
 * ours where a client's follow (check_spelling), so bytes of tokens are bytes of the text. */
static enum text_status put_text(struct renderer *renderer, const char *text, size_t bytes,
                                 size_t own_bytes) {
    const size_t from = renderer->out->count;
    const enum text_status status =
        tokenizer_encode(renderer->chat->tokenizer, text, bytes, renderer->out);
    if (status == TEXT_OK && renderer->is_shared) {
        renderer->shared_count += tokens_within(renderer, from, own_bytes);
        renderer->is_shared = own_bytes == bytes;
    }
    return status;
}

/* The first own_bytes of the content are ours. The head and the content are one text to the
 * tokenizer: a line break may join the next. */
static enum text_status put_message(struct renderer *renderer, struct text_span role,
                                    struct text_span content, size_t own_bytes) {
    const size_t head_bytes = role.bytes + 1;
    memcpy(renderer->text, role.data, role.bytes);
    renderer->text[role.bytes] = '\n';
    if (content.bytes > 0) {
        memcpy(renderer->text + head_bytes, content.data, content.bytes);
    }
    const size_t bytes = head_bytes + content.bytes;
    enum text_status status = put_control(renderer, renderer->chat->start_id);
    if (status == TEXT_OK) {
        status = put_text(renderer, renderer->text, bytes, head_bytes + own_bytes);
    }
    if (status == TEXT_OK) {
        status = put_control(renderer, renderer->chat->end_id);
    }
    return status == TEXT_OK ? put_text(renderer, "\n", 1, 1) : status;
}

static bool is_role(struct text_span role, const char *name) {
    return role.bytes == strlen(name) && memcmp(role.data, name, role.bytes) == 0;
}

static enum text_status check_messages(const struct chat_message *messages, size_t message_count,
                                       size_t *text_bytes, char *err, size_t err_bytes) {
    if (message_count == 0) {
        snprintf(err, err_bytes, "messages: there is none");
        return TEXT_BAD;
    }
    *text_bytes = 0;
    for (size_t i = 0; i < message_count; i++) {
        const struct text_span role = messages[i].role;
        if (!is_role(role, "system") && !is_role(role, "user") && !is_role(role, "assistant")) {
            snprintf(err, err_bytes, "messages[%zu].role: \"%s\" is not system, user or assistant",
                     i, quote_of(role.data, role.bytes).text);
            return TEXT_BAD;
        }
        if (messages[i].content.bytes > TOKENIZER_TEXT_BYTES_MAX) {
            snprintf(err, err_bytes, "messages[%zu].content: longer than %d bytes", i,
                     TOKENIZER_TEXT_BYTES_MAX);
            return TEXT_TOO_LONG;
        }
        if (messages[i].content.bytes > *text_bytes) {
            *text_bytes = messages[i].content.bytes;
        }
    }
    return TEXT_OK;
}

/* The assistant's head and the words that its answer begins with are one text, too. */
static enum text_status put_opening(struct renderer *renderer, struct text_span opening) {
    static const char head[] = "assistant\n";
    const size_t head_bytes = sizeof head - 1;
    memcpy(renderer->text, head, head_bytes);
    if (opening.bytes > 0) {
        memcpy(renderer->text + head_bytes, opening.data, opening.bytes);
    }
    const size_t bytes = head_bytes + opening.bytes;
    const enum text_status status = put_control(renderer, renderer->chat->start_id);
    return status == TEXT_OK ? put_text(renderer, renderer->text, bytes, bytes) : status;
}

static enum text_status render(struct renderer *renderer, const struct chat_message *messages,
                               size_t message_count, const struct text_span *opening) {
    const struct chat_template *chat = renderer->chat;
    enum text_status status = TEXT_OK;
    if (chat->has_default_system && !is_role(messages[0].role, "system")) {
        status = put_message(renderer, (struct text_span){"system", 6},
                             (struct text_span){chat->default_system, chat->default_system_bytes},
                             chat->default_system_bytes);
    }
    for (size_t i = 0; i < message_count && status == TEXT_OK; i++) {
        status =
            put_message(renderer, messages[i].role, messages[i].content, messages[i].builtin_bytes);
    }
    return status == TEXT_OK && opening != NULL ? put_opening(renderer, *opening) : status;
}

/* `opening` NULL: the conversation ends with its last message. */
static enum text_status render_all(const struct chat_template *chat,
                                   const struct chat_message *messages, size_t message_count,
                                   const struct text_span *opening, struct token_buffer *out,
                                   struct chat_rendered *rendered, char *err, size_t err_bytes) {
    size_t text_bytes = 0;
    enum text_status status = check_messages(messages, message_count, &text_bytes, err, err_bytes);
    if (status != TEXT_OK) {
        return status;
    }
    struct renderer renderer = {.chat = chat, .out = out, .first = out->count, .is_shared = true};
    if (opening != NULL && opening->bytes > text_bytes) {
        text_bytes = opening->bytes;
    }
    renderer.text = malloc(text_bytes + CHAT_TEMPLATE_SYSTEM_BYTES_MAX + sizeof "assistant\n");
    if (renderer.text == NULL) {
        snprintf(err, err_bytes, "no memory to render messages");
        return TEXT_NO_MEMORY;
    }
    status = render(&renderer, messages, message_count, opening);
    free(renderer.text);
    if (status != TEXT_OK) {
        snprintf(err, err_bytes,
                 status == TEXT_TOO_LONG ? "messages: more than %zu tokens"
                                         : "no memory to encode %zu tokens",
                 out->capacity - renderer.first);
        out->count = renderer.first;
        return status;
    }
    if (rendered != NULL) {
        *rendered = (struct chat_rendered){out->count - renderer.first, renderer.shared_count};
    }
    return TEXT_OK;
}

enum text_status chat_template_render(const struct chat_template *chat,
                                      const struct chat_message *messages, size_t message_count,
                                      bool add_generation_prompt, struct token_buffer *out,
                                      struct chat_rendered *rendered, char *err, size_t err_bytes) {
    const struct text_span none = {"", 0};
    return render_all(chat, messages, message_count, add_generation_prompt ? &none : NULL, out,
                      rendered, err, err_bytes);
}

enum text_status chat_template_render_opened(const struct chat_template *chat,
                                             const struct chat_message *messages,
                                             size_t message_count, struct text_span opening,
                                             struct token_buffer *out,
                                             struct chat_rendered *rendered, char *err,
                                             size_t err_bytes) {
    return render_all(chat, messages, message_count, &opening, out, rendered, err, err_bytes);
}
