/* A tiny vocabulary: a byte-level spec small enough to reason about, which tests may extend.
 *
 * Ids: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|> (control), then a token for each byte, byte b
 * at TINY_FIRST_BYTE_ID + b, then what the test adds. Owns copies of all it is given; the spec is
 * valid until the next addition. Running out of room fails the process: it is the test's fault. */
#ifndef SOLFLEET_TESTS_SUPPORT_TINY_VOCABULARY_H
#define SOLFLEET_TESTS_SUPPORT_TINY_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"

enum {
    TINY_END_OF_TEXT_ID = 0,
    TINY_START_ID = 1,
    TINY_END_ID = 2,
    TINY_FIRST_BYTE_ID = 3,
    TINY_FIRST_ADDED_ID = TINY_FIRST_BYTE_ID + 256,
    TINY_TOKENS_MAX = 1024,
};

struct tiny_vocabulary {
    struct tokenizer_spec spec;
    struct text_span tokens[TINY_TOKENS_MAX];
    int32_t types[TINY_TOKENS_MAX];
    struct text_span merges[TINY_TOKENS_MAX];
};

/* The caller deinits. Pre-tokenizer smollm, no merges. */
void tiny_vocabulary_init(struct tiny_vocabulary *tiny);
void tiny_vocabulary_deinit(struct tiny_vocabulary *tiny);

/* Spelled as in a file. Gives the id. */
uint32_t tiny_vocabulary_add(struct tiny_vocabulary *tiny, const char *spelled, int32_t type);

/* The token of these plain bytes, added if it is new. Gives the id. */
uint32_t tiny_vocabulary_add_bytes(struct tiny_vocabulary *tiny, const char *plain);

/* Joins two sequences of plain bytes, each already a token: adds the merge, and the token if it is
 * new. Gives the id of the whole. */
uint32_t tiny_vocabulary_merge(struct tiny_vocabulary *tiny, const char *left, const char *right);

/* Fails the process if the spec is not accepted. The caller closes. */
struct tokenizer *tiny_vocabulary_open(const struct tiny_vocabulary *tiny);

#endif
