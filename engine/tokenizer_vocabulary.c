#include "engine/tokenizer_vocabulary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quote.h"
#include "schemas/utf8.h"

enum {
    ALPHABET_END = 256 + 68, /* 188 bytes stand for themselves, 68 are moved up to U+0100… */
    /* A byte takes at most two bytes in the alphabet. */
    SPELLED_BYTES_MAX = 2 * TOKENIZER_TOKEN_BYTES_MAX,
};

/* From a character of the alphabet to its byte; -1: not in the alphabet. */
struct alphabet {
    int16_t byte_of[ALPHABET_END];
};

static bool is_own_character(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static struct alphabet alphabet_make(void) {
    struct alphabet alphabet;
    memset(&alphabet, -1, sizeof alphabet);
    size_t moved = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        const size_t character = is_own_character(byte) ? byte : moved++;
        alphabet.byte_of[character] = (int16_t)byte;
    }
    assert(moved == ALPHABET_END);
    return alphabet;
}

/* Writes the bytes that a spelled token means, at most as many as its spelling has, and gives
 * their number. A spelling outside the alphabet means itself, as in the reference. */
static size_t despell(const struct alphabet *alphabet, struct text_span spelled, char *out,
                      bool *is_spelled) {
    size_t bytes = 0;
    for (size_t at = 0; at < spelled.bytes;) {
        const struct utf8_step step = utf8_next(spelled.data + at, spelled.bytes - at);
        if (step.kind != UTF8_WHOLE || step.code_point >= ALPHABET_END ||
            alphabet->byte_of[step.code_point] < 0) {
            memcpy(out, spelled.data, spelled.bytes);
            *is_spelled = false;
            return spelled.bytes;
        }
        out[bytes++] = (char)alphabet->byte_of[step.code_point];
        at += step.bytes;
    }
    *is_spelled = true;
    return bytes;
}

static int32_t type_of(const struct tokenizer_spec *spec, size_t id) {
    return spec->types == NULL ? TOKEN_NORMAL : spec->types[id];
}

static enum text_status check(const struct tokenizer_spec *spec, size_t *spelled_bytes, char *err,
                              size_t err_bytes) {
    if (spec->vocabulary_count == 0 || spec->vocabulary_count > TOKENIZER_VOCABULARY_MAX) {
        snprintf(err, err_bytes, "a vocabulary of %zu tokens, not 1 to %d", spec->vocabulary_count,
                 TOKENIZER_VOCABULARY_MAX);
        return TEXT_BAD;
    }
    *spelled_bytes = 0;
    for (size_t id = 0; id < spec->vocabulary_count; id++) {
        const int32_t type = type_of(spec, id);
        if (type == TOKEN_BYTE) {
            snprintf(err, err_bytes, "token %zu is a byte token, which byte-level BPE has none of",
                     id);
            return TEXT_UNSUPPORTED;
        }
        if (type < TOKEN_NORMAL || type > TOKEN_UNUSED) {
            snprintf(err, err_bytes, "token %zu has the unknown type %d", id, (int)type);
            return TEXT_BAD;
        }
        if (spec->tokens[id].bytes > SPELLED_BYTES_MAX) {
            snprintf(err, err_bytes, "token %zu has %zu bytes, more than %d", id,
                     spec->tokens[id].bytes, SPELLED_BYTES_MAX);
            return TEXT_BAD;
        }
        *spelled_bytes += spec->tokens[id].bytes;
    }
    return TEXT_OK;
}

/* Longest first, so that the first that fits is the longest that fits. */
static enum text_status add_user_defined(struct tokenizer_vocabulary *vocabulary, uint32_t id,
                                         size_t token_bytes, char *err, size_t err_bytes) {
    if (token_bytes == 0) {
        snprintf(err, err_bytes, "user-defined token %u is empty", (unsigned)id);
        return TEXT_BAD;
    }
    if (vocabulary->user_defined_count == TOKENIZER_VOCABULARY_USER_DEFINED_MAX) {
        snprintf(err, err_bytes, "more than %d user-defined tokens",
                 TOKENIZER_VOCABULARY_USER_DEFINED_MAX);
        return TEXT_UNSUPPORTED;
    }
    size_t at = vocabulary->user_defined_count++;
    for (; at > 0; at--) {
        const uint32_t before = vocabulary->user_defined[at - 1];
        if (tokenizer_vocabulary_bytes(vocabulary, before).bytes >= token_bytes) {
            break;
        }
        vocabulary->user_defined[at] = before;
    }
    vocabulary->user_defined[at] = id;
    return TEXT_OK;
}

static enum text_status add_token(struct tokenizer_vocabulary *vocabulary,
                                  const struct alphabet *alphabet, uint32_t id, int32_t type,
                                  struct text_span spelled, char *err, size_t err_bytes) {
    char *out = vocabulary->bytes + vocabulary->offsets[id];
    size_t bytes = spelled.bytes;
    bool is_spelled = false;
    if (type == TOKEN_NORMAL) {
        bytes = despell(alphabet, spelled, out, &is_spelled);
    } else if (type == TOKEN_UNUSED) {
        bytes = 0;
    } else if (bytes > 0) {
        memcpy(out, spelled.data, bytes);
    }
    if (bytes > TOKENIZER_TOKEN_BYTES_MAX) {
        snprintf(err, err_bytes, "token %u (\"%s\") means %zu bytes, more than %d", (unsigned)id,
                 quote_of(spelled.data, spelled.bytes).text, bytes, TOKENIZER_TOKEN_BYTES_MAX);
        return TEXT_BAD;
    }
    vocabulary->types[id] = (uint8_t)type;
    vocabulary->offsets[id + 1] = vocabulary->offsets[id] + (uint32_t)bytes;
    if ((type == TOKEN_NORMAL || type == TOKEN_USER_DEFINED) &&
        bytes > vocabulary->token_bytes_max) {
        vocabulary->token_bytes_max = bytes;
    }
    if (is_spelled && bytes == 1) {
        vocabulary->byte_ids[(uint8_t)out[0]] = id;
    }
    if (type == TOKEN_USER_DEFINED) {
        return add_user_defined(vocabulary, id, bytes, err, err_bytes);
    }
    return TEXT_OK;
}

enum text_status tokenizer_vocabulary_init(struct tokenizer_vocabulary *vocabulary,
                                           const struct tokenizer_spec *spec, char *err,
                                           size_t err_bytes) {
    *vocabulary = (struct tokenizer_vocabulary){0};
    memset(vocabulary->byte_ids, 0xFF, sizeof vocabulary->byte_ids);
    size_t spelled_bytes = 0;
    enum text_status status = check(spec, &spelled_bytes, err, err_bytes);
    if (status != TEXT_OK) {
        return status;
    }
    vocabulary->count = spec->vocabulary_count;
    vocabulary->types = calloc(vocabulary->count, sizeof *vocabulary->types);
    vocabulary->offsets = calloc(vocabulary->count + 1, sizeof *vocabulary->offsets);
    vocabulary->bytes = malloc(spelled_bytes + 1);
    if (vocabulary->types == NULL || vocabulary->offsets == NULL || vocabulary->bytes == NULL) {
        snprintf(err, err_bytes, "no memory for a vocabulary of %zu tokens", vocabulary->count);
        tokenizer_vocabulary_deinit(vocabulary);
        return TEXT_NO_MEMORY;
    }
    const struct alphabet alphabet = alphabet_make();
    for (uint32_t id = 0; id < vocabulary->count && status == TEXT_OK; id++) {
        status = add_token(vocabulary, &alphabet, id, type_of(spec, id), spec->tokens[id], err,
                           err_bytes);
    }
    if (status != TEXT_OK) {
        tokenizer_vocabulary_deinit(vocabulary);
    }
    return status;
}

void tokenizer_vocabulary_deinit(struct tokenizer_vocabulary *vocabulary) {
    free(vocabulary->types);
    free(vocabulary->offsets);
    free(vocabulary->bytes);
    *vocabulary = (struct tokenizer_vocabulary){0};
}

struct text_span tokenizer_vocabulary_bytes(const struct tokenizer_vocabulary *vocabulary,
                                            uint32_t id) {
    const uint32_t from = vocabulary->offsets[id];
    return (struct text_span){vocabulary->bytes + from, vocabulary->offsets[id + 1] - from};
}

uint32_t tokenizer_vocabulary_user_defined_at(const struct tokenizer_vocabulary *vocabulary,
                                              const char *text, size_t bytes) {
    for (size_t i = 0; i < vocabulary->user_defined_count; i++) {
        const uint32_t id = vocabulary->user_defined[i];
        const struct text_span token = tokenizer_vocabulary_bytes(vocabulary, id);
        if (token.bytes <= bytes && memcmp(token.data, text, token.bytes) == 0) {
            return id;
        }
    }
    return TOKENIZER_NO_ID;
}
