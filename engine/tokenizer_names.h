#ifndef SOLFLEET_ENGINE_TOKENIZER_NAMES_H
#define SOLFLEET_ENGINE_TOKENIZER_NAMES_H

/* An index of the normal tokens by their spelling, needed only while a merge table is built.
 *
 * Threads: one. Memory: owns its slots, borrows the spec. Refuses to know what spellings mean. */

#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"

struct tokenizer_names {
    const struct tokenizer_spec *spec;
    uint32_t *slots; /* [slot_count] ids, TOKENIZER_NO_ID where free */
    size_t slot_count;
};

/* BAD: two normal tokens are spelled alike, so text would not say which is meant. */
__attribute__((warn_unused_result)) enum text_status
tokenizer_names_init(struct tokenizer_names *names, const struct tokenizer_spec *spec, char *err,
                     size_t err_bytes);

void tokenizer_names_deinit(struct tokenizer_names *names);

/* The id of the normal token so spelled, or TOKENIZER_NO_ID. */
uint32_t tokenizer_names_find(const struct tokenizer_names *names, const char *spelled,
                              size_t bytes);

#endif
