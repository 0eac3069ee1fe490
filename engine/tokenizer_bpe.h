#ifndef SOLFLEET_ENGINE_TOKENIZER_BPE_H
#define SOLFLEET_ENGINE_TOKENIZER_BPE_H

/* A merge table: which two neighbouring tokens join into which third, and which pair goes first.
 *
 * Threads: immutable after init; each encoding thread has a scratch of its own. Memory: the table
 * owns its slots, 16 bytes each at a load of at most one half; a scratch grows to 28 bytes for each
 * byte of the longest word it has seen. Refuses to know how text is cut into words. */

#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"
#include "engine/tokenizer_vocabulary.h"

struct tokenizer_bpe_slot;
struct tokenizer_bpe_symbol;

struct tokenizer_bpe {
    const uint32_t *byte_ids;         /* [256] borrowed from the vocabulary */
    struct tokenizer_bpe_slot *slots; /* [slot_count], a power of two */
    size_t slot_count;
};

struct tokenizer_bpe_scratch {
    struct tokenizer_bpe_symbol *symbols; /* [capacity] */
    uint64_t *heap;                       /* [2 * capacity] */
    size_t capacity;
};

/* The vocabulary must outlive the table. BAD names the merge whose parts or whole are no normal
 * tokens, or that comes twice. */
__attribute__((warn_unused_result)) enum text_status
tokenizer_bpe_init(struct tokenizer_bpe *bpe, const struct tokenizer_vocabulary *vocabulary,
                   const struct tokenizer_spec *spec, char *err, size_t err_bytes);

void tokenizer_bpe_deinit(struct tokenizer_bpe *bpe);

/* Appends the tokens of one word: of all pairs that can join, again and again the best joins first,
 * of equals the leftmost. Bytes without a token are left out, as if they were not there. A scratch
 * starts zeroed. */
__attribute__((warn_unused_result)) enum text_status
tokenizer_bpe_encode_word(const struct tokenizer_bpe *bpe, const char *text, size_t bytes,
                          struct tokenizer_bpe_scratch *scratch, struct token_buffer *out);

void tokenizer_bpe_scratch_deinit(struct tokenizer_bpe_scratch *scratch);

#endif
