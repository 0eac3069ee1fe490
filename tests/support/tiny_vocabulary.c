#include "tests/support/tiny_vocabulary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum {
    SPELLED_BYTES_MAX = 512,
};

static int stands_for_itself(unsigned byte) {
    return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

/* The character U+0100 + n for the n-th byte that does not stand for itself. */
static size_t spell_byte(uint8_t byte, char *out) {
    unsigned code_point = byte;
    if (!stands_for_itself(byte)) {
        code_point = 0x100;
        for (unsigned b = 0; b < byte; b++) {
            code_point += !stands_for_itself(b);
        }
    }
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    out[0] = (char)(0xC0 | code_point >> 6);
    out[1] = (char)(0x80 | (code_point & 0x3F));
    return 2;
}

static size_t spell(const char *plain, size_t bytes, char *out) {
    size_t spelled_bytes = 0;
    for (size_t i = 0; i < bytes; i++) {
        assert(spelled_bytes + 2 <= SPELLED_BYTES_MAX);
        spelled_bytes += spell_byte((uint8_t)plain[i], out + spelled_bytes);
    }
    return spelled_bytes;
}

static struct text_span copy(const char *data, size_t bytes) {
    char *own = malloc(bytes + 1);
    assert(own != NULL);
    memcpy(own, data, bytes);
    return (struct text_span){own, bytes};
}

static uint32_t add(struct tiny_vocabulary *tiny, struct text_span own, int32_t type) {
    const size_t id = tiny->spec.vocabulary_count++;
    assert(id < TINY_TOKENS_MAX);
    tiny->tokens[id] = own;
    tiny->types[id] = type;
    return (uint32_t)id;
}

void tiny_vocabulary_init(struct tiny_vocabulary *tiny) {
    memset(tiny, 0, sizeof *tiny);
    tiny->spec = tokenizer_spec_empty();
    tiny->spec.model = (struct text_span){"gpt2", 4};
    tiny->spec.pre_tokenizer = (struct text_span){"smollm", 6};
    tiny->spec.tokens = tiny->tokens;
    tiny->spec.types = tiny->types;
    tiny->spec.merges = tiny->merges;
    tiny_vocabulary_add(tiny, "<|endoftext|>", TOKEN_CONTROL);
    tiny_vocabulary_add(tiny, "<|im_start|>", TOKEN_CONTROL);
    tiny->spec.eos_id = tiny_vocabulary_add(tiny, "<|im_end|>", TOKEN_CONTROL);
    for (unsigned byte = 0; byte < 256; byte++) {
        char spelled[2];
        add(tiny, copy(spelled, spell_byte((uint8_t)byte, spelled)), TOKEN_NORMAL);
    }
}

void tiny_vocabulary_deinit(struct tiny_vocabulary *tiny) {
    for (size_t i = 0; i < tiny->spec.vocabulary_count; i++) {
        free((void *)(uintptr_t)tiny->tokens[i].data);
    }
    for (size_t i = 0; i < tiny->spec.merge_count; i++) {
        free((void *)(uintptr_t)tiny->merges[i].data);
    }
}

uint32_t tiny_vocabulary_add(struct tiny_vocabulary *tiny, const char *spelled, int32_t type) {
    return add(tiny, copy(spelled, strlen(spelled)), type);
}

static uint32_t find(const struct tiny_vocabulary *tiny, const char *spelled, size_t bytes) {
    for (uint32_t id = 0; id < tiny->spec.vocabulary_count; id++) {
        const struct text_span token = tiny->tokens[id];
        if (tiny->types[id] == TOKEN_NORMAL && token.bytes == bytes &&
            memcmp(token.data, spelled, bytes) == 0) {
            return id;
        }
    }
    return TOKENIZER_NO_ID;
}

static uint32_t find_or_add(struct tiny_vocabulary *tiny, const char *spelled, size_t bytes) {
    const uint32_t id = find(tiny, spelled, bytes);
    return id != TOKENIZER_NO_ID ? id : add(tiny, copy(spelled, bytes), TOKEN_NORMAL);
}

uint32_t tiny_vocabulary_add_bytes(struct tiny_vocabulary *tiny, const char *plain) {
    char spelled[SPELLED_BYTES_MAX];
    return find_or_add(tiny, spelled, spell(plain, strlen(plain), spelled));
}

uint32_t tiny_vocabulary_merge(struct tiny_vocabulary *tiny, const char *left, const char *right) {
    char whole[2 * SPELLED_BYTES_MAX + 1];
    const size_t left_bytes = spell(left, strlen(left), whole);
    const size_t right_bytes = spell(right, strlen(right), whole + left_bytes);
    const size_t bytes = left_bytes + right_bytes;
    const uint32_t id = find_or_add(tiny, whole, bytes);
    memmove(whole + left_bytes + 1, whole + left_bytes, right_bytes);
    whole[left_bytes] = ' ';
    assert(tiny->spec.merge_count < TINY_TOKENS_MAX);
    tiny->merges[tiny->spec.merge_count++] = copy(whole, bytes + 1);
    return id;
}

struct tokenizer *tiny_vocabulary_open(const struct tiny_vocabulary *tiny) {
    struct tokenizer *tokenizer = NULL;
    char err[256] = "";
    if (tokenizer_open(&tiny->spec, &tokenizer, err, sizeof err) != TEXT_OK) {
        fprintf(stderr, "tiny vocabulary: %s\n", err);
        abort();
    }
    return tokenizer;
}
