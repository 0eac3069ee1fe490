#include "engine/tokenizer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quote.h"
#include "engine/tokenizer_bpe.h"
#include "engine/tokenizer_vocabulary.h"
#include "engine/tokenizer_words.h"

struct tokenizer {
    struct tokenizer_vocabulary vocabulary;
    struct tokenizer_bpe bpe;
    enum tokenizer_words_rule words_rule;
    uint32_t bos_id;
    uint32_t end_ids[TOKENIZER_END_IDS_MAX];
    size_t end_count;
};

/* ---- open ---- */

struct tokenizer_spec tokenizer_spec_empty(void) {
    return (struct tokenizer_spec){
        .bos_id = TOKENIZER_NO_ID,
        .eos_id = TOKENIZER_NO_ID,
        .eot_id = TOKENIZER_NO_ID,
        .eom_id = TOKENIZER_NO_ID,
        .unknown_id = TOKENIZER_NO_ID,
        .padding_id = TOKENIZER_NO_ID,
    };
}

static enum text_status check_kind(struct tokenizer *tokenizer, const struct tokenizer_spec *spec,
                                   char *err, size_t err_bytes) {
    static const char byte_level[] = "gpt2";
    if (spec->model.bytes != strlen(byte_level) ||
        memcmp(spec->model.data, byte_level, spec->model.bytes) != 0) {
        snprintf(err, err_bytes, "tokenizer model \"%s\" is not supported: only \"%s\" is",
                 quote_of(spec->model.data, spec->model.bytes).text, byte_level);
        return TEXT_UNSUPPORTED;
    }
    if (!tokenizer_words_find(spec->pre_tokenizer, &tokenizer->words_rule)) {
        snprintf(err, err_bytes, "pre-tokenizer \"%s\" is not supported",
                 quote_of(spec->pre_tokenizer.data, spec->pre_tokenizer.bytes).text);
        return TEXT_UNSUPPORTED;
    }
    return TEXT_OK;
}

static enum text_status check_id(const struct tokenizer *tokenizer, const char *what, uint32_t id,
                                 char *err, size_t err_bytes) {
    if (id == TOKENIZER_NO_ID || id < tokenizer->vocabulary.count) {
        return TEXT_OK;
    }
    snprintf(err, err_bytes, "the %s token %u is beyond the vocabulary of %zu", what, (unsigned)id,
             tokenizer->vocabulary.count);
    return TEXT_BAD;
}

static enum text_status add_end(struct tokenizer *tokenizer, const char *what, uint32_t id,
                                char *err, size_t err_bytes) {
    const enum text_status status = check_id(tokenizer, what, id, err, err_bytes);
    if (status != TEXT_OK || id == TOKENIZER_NO_ID || tokenizer_is_end(tokenizer, id)) {
        return status;
    }
    if (tokenizer->end_count == TOKENIZER_END_IDS_MAX) {
        snprintf(err, err_bytes, "more than %d end tokens", TOKENIZER_END_IDS_MAX);
        return TEXT_UNSUPPORTED;
    }
    tokenizer->end_ids[tokenizer->end_count++] = id;
    return TEXT_OK;
}

/* Files often name one end token only, while the model was trained to use more. */
static enum text_status add_ends(struct tokenizer *tokenizer, const struct tokenizer_spec *spec,
                                 char *err, size_t err_bytes) {
    const struct {
        const char *what;
        uint32_t id;
    } ends[] = {
        {"eos", spec->eos_id},
        {"eot", spec->eot_id},
        {"eom", spec->eom_id},
        {"<|im_end|>", tokenizer_find_control(tokenizer, "<|im_end|>")},
        {"<|endoftext|>", tokenizer_find_control(tokenizer, "<|endoftext|>")},
    };
    enum text_status status = TEXT_OK;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && status == TEXT_OK; i++) {
        status = add_end(tokenizer, ends[i].what, ends[i].id, err, err_bytes);
    }
    for (size_t i = 0; i < spec->end_count && status == TEXT_OK; i++) {
        status = add_end(tokenizer, "end", spec->end_ids[i], err, err_bytes);
    }
    return status;
}

static enum text_status add_special(struct tokenizer *tokenizer, const struct tokenizer_spec *spec,
                                    char *err, size_t err_bytes) {
    enum text_status status = check_id(tokenizer, "bos", spec->bos_id, err, err_bytes);
    if (status == TEXT_OK) {
        status = check_id(tokenizer, "unknown", spec->unknown_id, err, err_bytes);
    }
    if (status == TEXT_OK) {
        status = check_id(tokenizer, "padding", spec->padding_id, err, err_bytes);
    }
    if (status == TEXT_OK && spec->add_bos && spec->bos_id == TOKENIZER_NO_ID) {
        snprintf(err, err_bytes, "a bos token is to be added, but none is named");
        status = TEXT_BAD;
    }
    tokenizer->bos_id = spec->add_bos ? spec->bos_id : TOKENIZER_NO_ID;
    return status == TEXT_OK ? add_ends(tokenizer, spec, err, err_bytes) : status;
}

static enum text_status init(struct tokenizer *tokenizer, const struct tokenizer_spec *spec,
                             char *err, size_t err_bytes) {
    enum text_status status = check_kind(tokenizer, spec, err, err_bytes);
    if (status == TEXT_OK) {
        status = tokenizer_vocabulary_init(&tokenizer->vocabulary, spec, err, err_bytes);
    }
    if (status == TEXT_OK) {
        status = tokenizer_bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, spec, err, err_bytes);
    }
    if (status == TEXT_OK) {
        status = add_special(tokenizer, spec, err, err_bytes);
    }
    return status;
}

enum text_status tokenizer_open(const struct tokenizer_spec *spec, struct tokenizer **out,
                                char *err, size_t err_bytes) {
    *out = NULL;
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL) {
        snprintf(err, err_bytes, "no memory for a tokenizer");
        return TEXT_NO_MEMORY;
    }
    const enum text_status status = init(tokenizer, spec, err, err_bytes);
    if (status != TEXT_OK) {
        tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return TEXT_OK;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    if (tokenizer == NULL) {
        return;
    }
    tokenizer_bpe_deinit(&tokenizer->bpe);
    tokenizer_vocabulary_deinit(&tokenizer->vocabulary);
    free(tokenizer);
}

/* ---- encode ---- */

/* Whether a text has more tokens than fit, told from its length alone: what keeps the scratch of
 * a hostile text as small as the buffer it is for. */
static bool cannot_fit(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                       const struct token_buffer *out) {
    const size_t room = out->capacity - out->count;
    const size_t token_bytes_max = tokenizer->vocabulary.token_bytes_max;
    if (bytes > TOKENIZER_TEXT_BYTES_MAX) {
        return true;
    }
    if (token_bytes_max == 0 || bytes / token_bytes_max < room) {
        return false;
    }
    const size_t encodable_bytes = tokenizer_encodable_bytes(tokenizer, text, bytes);
    return (encodable_bytes + token_bytes_max - 1) / token_bytes_max > room;
}

static enum text_status encode_words(const struct tokenizer *tokenizer, const char *text,
                                     size_t bytes, struct tokenizer_bpe_scratch *scratch,
                                     struct token_buffer *out) {
    enum text_status status = TEXT_OK;
    while (bytes > 0 && status == TEXT_OK) {
        const size_t word_bytes = tokenizer_words_next(tokenizer->words_rule, text, bytes);
        status = tokenizer_bpe_encode_word(&tokenizer->bpe, text, word_bytes, scratch, out);
        text += word_bytes;
        bytes -= word_bytes;
    }
    return status;
}

/* The bytes before the first user-defined token; *id is that token, or TOKENIZER_NO_ID. */
static size_t plain_bytes(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                          uint32_t *id) {
    *id = TOKENIZER_NO_ID;
    if (tokenizer->vocabulary.user_defined_count == 0) {
        return bytes;
    }
    size_t at = 0;
    while (at < bytes) {
        *id = tokenizer_vocabulary_user_defined_at(&tokenizer->vocabulary, text + at, bytes - at);
        if (*id != TOKENIZER_NO_ID) {
            break;
        }
        at++;
    }
    return at;
}

static enum text_status encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                               struct tokenizer_bpe_scratch *scratch, struct token_buffer *out) {
    while (bytes > 0) {
        uint32_t id = TOKENIZER_NO_ID;
        size_t done_bytes = plain_bytes(tokenizer, text, bytes, &id);
        const enum text_status status = encode_words(tokenizer, text, done_bytes, scratch, out);
        if (status != TEXT_OK) {
            return status;
        }
        if (id != TOKENIZER_NO_ID) {
            if (out->count == out->capacity) {
                return TEXT_TOO_LONG;
            }
            out->ids[out->count++] = id;
            done_bytes += tokenizer_token_bytes(tokenizer, id).bytes;
        }
        text += done_bytes;
        bytes -= done_bytes;
    }
    return TEXT_OK;
}

enum text_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                  struct token_buffer *out) {
    if (cannot_fit(tokenizer, text, bytes, out)) {
        return TEXT_TOO_LONG;
    }
    const size_t count_before = out->count;
    struct tokenizer_bpe_scratch scratch = {0};
    const enum text_status status = encode(tokenizer, text, bytes, &scratch, out);
    tokenizer_bpe_scratch_deinit(&scratch);
    if (status != TEXT_OK) {
        out->count = count_before;
    }
    return status;
}

size_t tokenizer_encodable_bytes(const struct tokenizer *tokenizer, const char *text,
                                 size_t bytes) {
    size_t encodable_bytes = 0;
    for (size_t i = 0; i < bytes; i++) {
        encodable_bytes += tokenizer->vocabulary.byte_ids[(uint8_t)text[i]] != TOKENIZER_NO_ID;
    }
    return encodable_bytes;
}

/* ---- one token ---- */

size_t tokenizer_vocabulary_count(const struct tokenizer *tokenizer) {
    return tokenizer->vocabulary.count;
}

struct text_span tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id) {
    assert(id < tokenizer->vocabulary.count);
    return tokenizer_vocabulary_bytes(&tokenizer->vocabulary, id);
}

size_t tokenizer_token_bytes_max(const struct tokenizer *tokenizer) {
    return tokenizer->vocabulary.token_bytes_max;
}

bool tokenizer_is_control(const struct tokenizer *tokenizer, uint32_t id) {
    assert(id < tokenizer->vocabulary.count);
    const uint8_t type = tokenizer->vocabulary.types[id];
    return type != TOKEN_NORMAL && type != TOKEN_USER_DEFINED;
}

bool tokenizer_is_end(const struct tokenizer *tokenizer, uint32_t id) {
    for (size_t i = 0; i < tokenizer->end_count; i++) {
        if (tokenizer->end_ids[i] == id) {
            return true;
        }
    }
    return false;
}

uint32_t tokenizer_find_control(const struct tokenizer *tokenizer, const char *name) {
    const size_t bytes = strlen(name);
    for (uint32_t id = 0; id < tokenizer->vocabulary.count; id++) {
        const struct text_span token = tokenizer_vocabulary_bytes(&tokenizer->vocabulary, id);
        if (tokenizer->vocabulary.types[id] == TOKEN_CONTROL && token.bytes == bytes &&
            memcmp(token.data, name, bytes) == 0) {
            return id;
        }
    }
    return TOKENIZER_NO_ID;
}

uint32_t tokenizer_bos_id(const struct tokenizer *tokenizer) {
    return tokenizer->bos_id;
}
