#include "engine/model_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/utf8.h"

#define MODEL_TEXT_KEY(name) "tokenizer.ggml." name

/* What the spec borrows while the tokenizer is being opened. */
struct model_text {
    const struct gguf *gguf;
    struct text_span *tokens; /* owned */
    struct text_span *merges; /* owned */
    int32_t *types;           /* owned */
    struct tokenizer_spec spec;
    char *err;
    size_t err_bytes;
};

static enum model_status model_text_fail(const struct model_text *text, enum model_status status,
                                         const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum model_status model_text_fail(const struct model_text *text, enum model_status status,
                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text->err, text->err_bytes, format, arguments);
    va_end(arguments);
    return status;
}

static enum model_status model_text_wrong(const struct model_text *text, const char *key,
                                          const char *expected) {
    return model_text_fail(text, MODEL_BAD_FILE, "key %s: %s is expected, the file has %s", key,
                           expected, gguf_type_name(text->gguf, key));
}

/* An array of strings as spans, owned by the caller. An absent key gives none. */
static enum model_status model_text_strings(struct model_text *text, const char *key,
                                            size_t count_max, struct text_span **spans,
                                            size_t *count) {
    struct gguf_array array;
    enum gguf_lookup lookup = gguf_get_array(text->gguf, key, &array);
    if (lookup == GGUF_ABSENT) {
        return MODEL_OK;
    }
    if (lookup != GGUF_FOUND || array.type != GGUF_STRING) {
        return model_text_wrong(text, key, "an array of strings");
    }
    if (array.count > count_max) {
        return model_text_fail(text, MODEL_BAD_FILE, "key %s: %zu strings (at most %zu)", key,
                               array.count, count_max);
    }
    struct gguf_string *strings = calloc(array.count + 1, sizeof *strings);
    *spans = calloc(array.count + 1, sizeof **spans);
    if (strings == NULL || *spans == NULL) {
        free(strings);
        return model_text_fail(text, MODEL_NO_MEMORY, "out of memory for %zu strings of key %s",
                               array.count, key);
    }
    (void)gguf_array_strings(&array, strings); /* its type was checked above */
    for (size_t i = 0; i < array.count; i++) {
        (*spans)[i] = (struct text_span){strings[i].data, strings[i].bytes};
    }
    *count = array.count;
    free(strings);
    return MODEL_OK;
}

static enum model_status model_text_types(struct model_text *text) {
    const char *key = MODEL_TEXT_KEY("token_type");
    struct gguf_array array;
    enum gguf_lookup lookup = gguf_get_array(text->gguf, key, &array);
    if (lookup == GGUF_ABSENT) {
        return MODEL_OK;
    }
    if (lookup != GGUF_FOUND) {
        return model_text_wrong(text, key, "an array of integers");
    }
    if (array.count != text->spec.vocabulary_count) {
        return model_text_fail(text, MODEL_BAD_FILE, "key %s: %zu types for %zu tokens", key,
                               array.count, text->spec.vocabulary_count);
    }
    text->types = calloc(array.count + 1, sizeof *text->types);
    if (text->types == NULL) {
        return model_text_fail(text, MODEL_NO_MEMORY, "out of memory for %zu token types",
                               array.count);
    }
    for (size_t i = 0; i < array.count; i++) {
        int64_t type;
        if (!gguf_array_integer(&array, i, &type) || type < INT32_MIN || type > INT32_MAX) {
            return model_text_wrong(text, key, "an array of small integers");
        }
        text->types[i] = (int32_t)type;
    }
    text->spec.types = text->types;
    return MODEL_OK;
}

/* An id that must name a token. An absent key leaves *id. */
static enum model_status model_text_id(const struct model_text *text, const char *key,
                                       uint32_t *id) {
    uint32_t value;
    enum gguf_lookup lookup = gguf_get_u32(text->gguf, key, &value);
    if (lookup == GGUF_ABSENT) {
        return MODEL_OK;
    }
    if (lookup == GGUF_WRONG_TYPE) {
        return model_text_wrong(text, key, "an integer");
    }
    if (lookup == GGUF_OUT_OF_RANGE || value >= text->spec.vocabulary_count) {
        return model_text_fail(text, MODEL_BAD_FILE, "key %s: no such token (there are %zu)", key,
                               text->spec.vocabulary_count);
    }
    *id = value;
    return MODEL_OK;
}

static enum model_status model_text_ids(struct model_text *text) {
    const struct {
        const char *key;
        uint32_t *id;
    } ids[] = {
        {MODEL_TEXT_KEY("bos_token_id"), &text->spec.bos_id},
        {MODEL_TEXT_KEY("eos_token_id"), &text->spec.eos_id},
        {MODEL_TEXT_KEY("eot_token_id"), &text->spec.eot_id},
        {MODEL_TEXT_KEY("eom_token_id"), &text->spec.eom_id},
        {MODEL_TEXT_KEY("unknown_token_id"), &text->spec.unknown_id},
        {MODEL_TEXT_KEY("padding_token_id"), &text->spec.padding_id},
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        enum model_status status = model_text_id(text, ids[i].key, ids[i].id);
        if (status != MODEL_OK) {
            return status;
        }
    }
    const char *key = MODEL_TEXT_KEY("add_bos_token");
    if (gguf_get_bool(text->gguf, key, &text->spec.add_bos) == GGUF_WRONG_TYPE) {
        return model_text_wrong(text, key, "a bool");
    }
    return MODEL_OK;
}

static enum model_status model_text_kinds(struct model_text *text) {
    const char *model = MODEL_TEXT_KEY("model"), *pre = MODEL_TEXT_KEY("pre");
    struct gguf_string value;
    if (gguf_get_string(text->gguf, model, &value) != GGUF_FOUND) {
        return model_text_wrong(text, model, "a string");
    }
    text->spec.model = (struct text_span){value.data, value.bytes};
    enum gguf_lookup lookup = gguf_get_string(text->gguf, pre, &value);
    if (lookup == GGUF_WRONG_TYPE) {
        return model_text_wrong(text, pre, "a string");
    }
    if (lookup == GGUF_FOUND) {
        text->spec.pre_tokenizer = (struct text_span){value.data, value.bytes};
    }
    return MODEL_OK;
}

static enum model_status model_text_vocabulary(struct model_text *text, uint32_t vocabulary) {
    struct tokenizer_spec *spec = &text->spec;
    enum model_status status = model_text_kinds(text);
    if (status == MODEL_OK) {
        status = model_text_strings(text, MODEL_TEXT_KEY("tokens"), TOKENIZER_VOCABULARY_MAX,
                                    &text->tokens, &spec->vocabulary_count);
    }
    if (status == MODEL_OK && spec->vocabulary_count != vocabulary) {
        status = model_text_fail(
            text, MODEL_BAD_FILE,
            "key " MODEL_TEXT_KEY("tokens") ": %u tokens are expected, as many "
                                            "as the embedding has rows; the file has %zu",
            vocabulary, spec->vocabulary_count);
    }
    if (status == MODEL_OK) {
        spec->tokens = text->tokens;
        status = model_text_strings(text, MODEL_TEXT_KEY("merges"), TOKENIZER_MERGES_MAX,
                                    &text->merges, &spec->merge_count);
    }
    if (status == MODEL_OK) {
        spec->merges = text->merges;
        status = model_text_types(text);
    }
    return status == MODEL_OK ? model_text_ids(text) : status;
}

static enum model_status model_text_status(enum text_status status) {
    return status == TEXT_OK          ? MODEL_OK
           : status == TEXT_NO_MEMORY ? MODEL_NO_MEMORY
                                      : MODEL_BAD_FILE;
}

static enum model_status model_text_chat(const struct model_text *text,
                                         const struct tokenizer *tokenizer,
                                         struct chat_template *chat) {
    const char *key = "tokenizer.chat_template";
    char detail[256];
    struct gguf_string jinja;
    enum gguf_lookup lookup = gguf_get_string(text->gguf, key, &jinja);
    *chat = (struct chat_template){.tokenizer = tokenizer, .kind = CHAT_TEMPLATE_NONE};
    if (lookup == GGUF_ABSENT) {
        return MODEL_OK;
    }
    if (lookup == GGUF_WRONG_TYPE) {
        return model_text_wrong(text, key, "a string");
    }
    enum model_status status = model_text_status(
        chat_template_init(chat, tokenizer, jinja.data, jinja.bytes, detail, sizeof detail));
    return status == MODEL_OK ? status : model_text_fail(text, status, "key %s: %s", key, detail);
}

enum model_status model_text_open(const struct gguf *gguf, uint32_t vocabulary,
                                  struct tokenizer **tokenizer, struct chat_template *chat,
                                  char *err, size_t err_bytes) {
    char detail[256];
    struct tokenizer *opened = NULL;
    struct model_text text = {
        .gguf = gguf, .spec = tokenizer_spec_empty(), .err = err, .err_bytes = err_bytes};
    enum model_status status = model_text_vocabulary(&text, vocabulary);
    if (status == MODEL_OK) {
        status = model_text_status(tokenizer_open(&text.spec, &opened, detail, sizeof detail));
        if (status != MODEL_OK) {
            model_text_fail(&text, status, "tokenizer: %s", detail);
        }
    }
    if (status == MODEL_OK) {
        status = model_text_chat(&text, opened, chat);
    }
    free(text.tokens);
    free(text.merges);
    free(text.types);
    if (status != MODEL_OK) {
        tokenizer_close(opened);
        return status;
    }
    *tokenizer = opened;
    return MODEL_OK;
}

/* ---------------------------------------------------------------- name */

static void model_text_copy(const char *from, size_t from_bytes, char *name, size_t name_bytes) {
    size_t used = 0;
    while (used < from_bytes) {
        struct utf8_step step = utf8_next(from + used, from_bytes - used);
        if (step.kind != UTF8_WHOLE || used + step.bytes >= name_bytes) {
            break;
        }
        used += step.bytes;
    }
    memcpy(name, from, used);
    name[used] = '\0';
}

void model_text_name(const struct gguf *gguf, const char *path, char *name, size_t name_bytes) {
    struct gguf_string given;
    if (gguf_get_string(gguf, "general.name", &given) == GGUF_FOUND && given.bytes > 0 &&
        utf8_is_valid(given.data, given.bytes, NULL) &&
        memchr(given.data, '\0', given.bytes) == NULL) {
        model_text_copy(given.data, given.bytes, name, name_bytes);
        return;
    }
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    model_text_copy(file, strlen(file), name, name_bytes);
}
