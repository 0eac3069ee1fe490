/* A prompt of a known number of tokens: random common English words, each a token of its own in the
 * byte-level vocabularies in use.
 *
 * No two seeds share a beginning, so that nothing can be reused between jobs. Any thread. How many
 * tokens a model really counts, its results tell. */
#ifndef SOLFLEET_CONSUMER_BENCH_PROMPT_H
#define SOLFLEET_CONSUMER_BENCH_PROMPT_H

#include <stdint.h>

/* The caller's to free; NULL when memory ran out. tokens >= 1. */
char *bench_prompt_make(uint32_t tokens, uint64_t seed);

#endif
