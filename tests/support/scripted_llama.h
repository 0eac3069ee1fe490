/* A tiny Llama that says what a test wants: for each token, which tokens may follow it.
 *
 * Attention and feed-forward add nothing, so the last token alone decides: its embedding is what
 * the head's rows of its successors are made of. Greedy decoding follows the script; sampling
 * chooses evenly among several successors and practically never leaves it. Not for threads. */
#ifndef SOLFLEET_TESTS_SUPPORT_SCRIPTED_LLAMA_H
#define SOLFLEET_TESTS_SUPPORT_SCRIPTED_LLAMA_H

#include <stdint.h>

#include "tests/support/tiny_llama.h"

/* A model under construction. The rows are [vocabulary, dim] inside the writer's bytes, for tests
 * that spoil some of them. */
struct scripted_llama {
    struct gguf_writer writer;
    uint32_t dim, vocabulary;
    float *embedding, *head;
};

/* The token of a byte. */
int32_t scripted_token(char byte);

/* A model without a script, to be saved or deinitialised. `options` as for tiny_llama_write, always
 * f32 and untied. */
void scripted_llama_init(struct scripted_llama *model, const struct tiny_llama_options *options);
/* Lets `next` follow `token`. */
void scripted_llama_add(struct scripted_llama *model, int32_t token, int32_t next);
/* Lets each byte of a text follow the one before it. */
void scripted_llama_add_text(struct scripted_llama *model, const char *text);
/* Writes the file and deinitialises; the caller frees the path. */
char *scripted_llama_save(struct scripted_llama *model, const char *name);

#endif
