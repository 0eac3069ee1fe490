#include "consumer/bench_prompt.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_random.h"

#define BENCH_PROMPT_WORD_BYTES 9 /* the longest, with the blank before it */

static const char *const bench_prompt_words[64] = {
    "the",   "of",    "and",   "to",    "in",    "is",    "that",  "for",   "it",    "as",
    "was",   "with",  "be",    "by",    "on",    "not",   "he",    "his",   "but",   "at",
    "are",   "this",  "have",  "from",  "which", "one",   "had",   "all",   "they",  "her",
    "were",  "been",  "their", "has",   "would", "what",  "will",  "there", "if",    "can",
    "more",  "who",   "out",   "so",    "up",    "said",  "about", "some",  "them",  "time",
    "into",  "only",  "could", "new",   "then",  "other", "two",   "now",   "these", "people",
    "first", "world", "water", "number"};

char *bench_prompt_make(uint32_t tokens, uint64_t seed) {
    assert(tokens >= 1);
    char *text = malloc((size_t)tokens * BENCH_PROMPT_WORD_BYTES + 1);
    char *at = text;
    for (uint32_t i = 0; i < tokens && text; i++) {
        const char *word = bench_prompt_words[bench_random_next(&seed) >> 58];
        size_t bytes = strlen(word);
        assert(bytes < BENCH_PROMPT_WORD_BYTES);
        if (i > 0) {
            *at++ = ' ';
        }
        memcpy(at, word, bytes);
        at += bytes;
    }
    if (text) {
        *at = '\0';
    }
    return text;
}
