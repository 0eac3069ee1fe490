#ifndef SOLFLEET_ENGINE_TOKENIZER_VOCABULARY_H
#define SOLFLEET_ENGINE_TOKENIZER_VOCABULARY_H

/* A vocabulary: what each token id of a byte-level model stands for.
 *
 * Threads: immutable after init. Memory: owns copies of all it keeps. Refuses to know merges and
 * words.
 *
 * Files spell a byte-level token in an alphabet of 256 printable characters, one a byte (GPT-2's);
 * control and user-defined tokens stand there as they are. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"

enum {
    TOKENIZER_VOCABULARY_USER_DEFINED_MAX = 256,
};

struct tokenizer_vocabulary {
    size_t count;
    uint8_t *types;    /* [count] enum token_type */
    uint32_t *offsets; /* [count + 1] into bytes */
    char *bytes;
    size_t token_bytes_max; /* of those that stand for text */
    uint32_t byte_ids[256]; /* TOKENIZER_NO_ID where no token is that one byte */

    uint32_t user_defined[TOKENIZER_VOCABULARY_USER_DEFINED_MAX]; /* longest first */
    size_t user_defined_count;
};

__attribute__((warn_unused_result)) enum text_status
tokenizer_vocabulary_init(struct tokenizer_vocabulary *vocabulary,
                          const struct tokenizer_spec *spec, char *err, size_t err_bytes);

void tokenizer_vocabulary_deinit(struct tokenizer_vocabulary *vocabulary);

struct text_span tokenizer_vocabulary_bytes(const struct tokenizer_vocabulary *vocabulary,
                                            uint32_t id);

/* The longest user-defined token that the text begins with, or TOKENIZER_NO_ID. */
uint32_t tokenizer_vocabulary_user_defined_at(const struct tokenizer_vocabulary *vocabulary,
                                              const char *text, size_t bytes);

#endif
