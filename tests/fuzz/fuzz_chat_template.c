/* A chat template of any text, then messages of any text: up to the first zero byte the template,
 * then messages, each a byte that picks the role and a text up to the next zero byte. A template
 * that is no ChatML is refused, and the messages are rendered with plain ChatML instead. Whatever
 * they say, a prompt holds exactly the control tokens of its layout. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat_template.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tiny_vocabulary.h"

enum {
    MESSAGES_MAX = 16,
    PROMPT_TOKENS_MAX = 4096,
};

static const char plain[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}";

static size_t take(const char **data, size_t *bytes, struct text_span *span) {
    const char *end = memchr(*data, 0, *bytes);
    *span = (struct text_span){*data, end != NULL ? (size_t)(end - *data) : *bytes};
    const size_t used = span->bytes + (end != NULL);
    *data += used;
    *bytes -= used;
    return used;
}

static size_t read_messages(const char *data, size_t bytes, struct chat_message *messages,
                            int *has_unknown_role) {
    static const char *const roles[] = {"user", "system", "assistant", "tool"};
    size_t count = 0;
    *has_unknown_role = 0;
    while (bytes > 0 && count < MESSAGES_MAX) {
        const size_t role = (uint8_t)data[0] % 4;
        data++;
        bytes--;
        struct chat_message *message = &messages[count++];
        *message = (struct chat_message){.role = {roles[role], strlen(roles[role])}};
        *has_unknown_role |= role == 3;
        if (bytes > 0) {
            take(&data, &bytes, &message->content);
        }
    }
    return count;
}

static void render(const struct chat_template *chat, const struct chat_message *messages,
                   size_t count, int has_unknown_role) {
    static uint32_t ids[PROMPT_TOKENS_MAX];
    struct token_buffer out = {ids, 0, PROMPT_TOKENS_MAX};
    struct chat_rendered rendered;
    char err[64];
    const enum text_status status =
        chat_template_render(chat, messages, count, true, &out, &rendered, err, sizeof err);
    if (status != TEXT_OK) {
        assert(out.count == 0);
        assert(status == TEXT_TOO_LONG || count == 0 || has_unknown_role);
        return;
    }
    assert(!has_unknown_role && rendered.token_count == out.count);
    assert(rendered.shared_count <= out.count);
    size_t control_count = 0;
    for (size_t i = 0; i < out.count; i++) {
        control_count += tokenizer_is_control(chat->tokenizer, ids[i]);
    }
    const int brings_system = chat->has_default_system && messages[0].role.data[0] != 's';
    assert(control_count == 2 * (count + (size_t)brings_system) + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    if (data_bytes == 0) {
        return 0;
    }
    struct tiny_vocabulary *tiny = malloc(sizeof *tiny);
    tiny_vocabulary_init(tiny);
    tiny_vocabulary_merge(tiny, "\n", "\n");
    struct tokenizer *tokenizer = tiny_vocabulary_open(tiny);

    const char *rest = (const char *)data;
    struct text_span jinja;
    take(&rest, &data_bytes, &jinja);
    struct chat_message messages[MESSAGES_MAX];
    int has_unknown_role = 0;
    const size_t count = read_messages(rest, data_bytes, messages, &has_unknown_role);
    struct chat_template chat;
    char err[64];
    enum text_status status =
        chat_template_init(&chat, tokenizer, jinja.data, jinja.bytes, err, sizeof err);
    if (status != TEXT_OK) {
        assert(status == TEXT_UNSUPPORTED && chat.kind == CHAT_TEMPLATE_NONE);
        status = chat_template_init(&chat, tokenizer, plain, sizeof plain - 1, err, sizeof err);
        assert(status == TEXT_OK);
    }
    render(&chat, messages, count, has_unknown_role);
    tokenizer_close(tokenizer);
    tiny_vocabulary_deinit(tiny);
    free(tiny);
    return 0;
}
