#ifndef SOLFLEET_ENGINE_TOKENIZER_WORDS_H
#define SOLFLEET_ENGINE_TOKENIZER_WORDS_H

/* A word: the stretch of text inside which a tokenizer may join bytes into tokens. The rule that
 * cuts text into words is called a pre-tokenizer in model files.
 *
 * Pure; any thread; no memory. Refuses to know tokens. */

#include <stdbool.h>
#include <stddef.h>

#include "engine/tokenizer.h"

enum tokenizer_words_rule {
    /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
    TOKENIZER_WORDS_GPT2,
    /* Each number character stands alone, and the rule above cuts what lies between them. */
    TOKENIZER_WORDS_DIGITS_THEN_GPT2,
};

/* Finds the rule by the name that model files use (tokenizer.ggml.pre). */
bool tokenizer_words_find(struct text_span name, enum tokenizer_words_rule *rule);

/* The bytes of the first word of a text that is not empty; at least 1. Cutting from the front,
 * word by word, is linear in the text. Bytes that are no UTF-8 count as punctuation. */
size_t tokenizer_words_next(enum tokenizer_words_rule rule, const char *text, size_t bytes);

#endif
