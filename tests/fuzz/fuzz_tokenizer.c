/* The tokenizer under any text and any vocabulary.
 *
 * First byte: bit 0 picks the pre-tokenizer, bit 1 what is hostile. Either the rest is a text for a
 * fixed vocabulary, which must come back unchanged and without control tokens; or it is a spec
 * (strings with a length byte before each), which must be accepted or refused, and if accepted
 * must then encode its own bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tiny_vocabulary.h"

enum {
    TEXT_BYTES_MAX = 4096,
    SPEC_STRINGS_MAX = 256,
};

static void check_text(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                       int is_complete) {
    static uint32_t ids[TEXT_BYTES_MAX];
    struct token_buffer out = {ids, 0, TEXT_BYTES_MAX};
    if (tokenizer_encode(tokenizer, text, bytes, &out) != TEXT_OK) {
        assert(bytes > TEXT_BYTES_MAX && out.count == 0);
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < out.count; i++) {
        assert(!tokenizer_is_control(tokenizer, ids[i]));
        const struct text_span token = tokenizer_token_bytes(tokenizer, ids[i]);
        assert(!is_complete ||
               (token.bytes <= bytes - at && memcmp(token.data, text + at, token.bytes) == 0));
        at += token.bytes;
    }
    assert(!is_complete || at == bytes);
}

static void fuzz_text(struct tiny_vocabulary *tiny, const char *text, size_t bytes) {
    static const char *const pairs[][2] = {{" ", "t"}, {"h", "e"},       {" t", "he"},
                                           {"a", "a"}, {"aa", "aa"},     {"\n", "\n"},
                                           {"<", "|"}, {"\xE4", "\xBD"}, {"\xE4\xBD", "\xA0"},
                                           {"1", "2"}, {"\xFF", "\xFE"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        tiny_vocabulary_merge(tiny, pairs[i][0], pairs[i][1]);
    }
    tiny_vocabulary_add(tiny, "<think>", TOKEN_USER_DEFINED);
    struct tokenizer *tokenizer = tiny_vocabulary_open(tiny);
    check_text(tokenizer, text, bytes, 1);
    tokenizer_close(tokenizer);
}

static void fuzz_spec(const struct tiny_vocabulary *tiny, const char *data, size_t bytes) {
    struct text_span tokens[SPEC_STRINGS_MAX], merges[SPEC_STRINGS_MAX];
    int32_t types[SPEC_STRINGS_MAX];
    struct tokenizer_spec spec = tiny->spec;
    spec.tokens = tokens;
    spec.types = types;
    spec.merges = merges;
    spec.vocabulary_count = 0;
    spec.merge_count = 0;
    spec.eos_id = bytes > 0 ? (uint8_t)data[0] : TOKENIZER_NO_ID;
    size_t at = 0;
    while (bytes - at >= 2) {
        const int32_t type = (int8_t)data[at] % 8; /* 0 is no type, and stands for a merge */
        size_t string_bytes = (uint8_t)data[at + 1];
        at += 2;
        string_bytes = string_bytes < bytes - at ? string_bytes : bytes - at;
        const struct text_span string = {data + at, string_bytes};
        if (type == 0 && spec.merge_count < SPEC_STRINGS_MAX) {
            merges[spec.merge_count++] = string;
        } else if (type != 0 && spec.vocabulary_count < SPEC_STRINGS_MAX) {
            types[spec.vocabulary_count] = type;
            tokens[spec.vocabulary_count++] = string;
        }
        at += string_bytes;
    }
    struct tokenizer *tokenizer = NULL;
    char err[64];
    if (tokenizer_open(&spec, &tokenizer, err, sizeof err) == TEXT_OK) {
        check_text(tokenizer, data, bytes, 0);
        tokenizer_close(tokenizer);
    } else {
        assert(tokenizer == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    if (data_bytes == 0) {
        return 0;
    }
    struct tiny_vocabulary *tiny = malloc(sizeof *tiny);
    tiny_vocabulary_init(tiny);
    if (data[0] & 1) {
        tiny->spec.pre_tokenizer = (struct text_span){"gpt-2", 5};
    }
    const char *rest = (const char *)data + 1;
    if (data[0] & 2) {
        fuzz_spec(tiny, rest, data_bytes - 1);
    } else {
        fuzz_text(tiny, rest, data_bytes - 1);
    }
    tiny_vocabulary_deinit(tiny);
    free(tiny);
    return 0;
}
