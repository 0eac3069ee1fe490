/* A tiny random Llama as a GGUF file: everything that a real checkpoint has, in about 100 KB.
 *
 * The same options give the same bytes everywhere. Two layers, grouped heads, a feed-forward width
 * that is no power of two, a vocabulary of three control tokens, 256 bytes and some merges, ChatML.
 * The control tokens' head rows are zero, so that greedy decoding practically never ends by one.
 * Not for threads. */
#ifndef SOLFLEET_TESTS_SUPPORT_TINY_LLAMA_H
#define SOLFLEET_TESTS_SUPPORT_TINY_LLAMA_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/block_format.h"
#include "tests/support/gguf_writer.h"

/* Zero means the value named. */
struct tiny_llama_options {
    uint64_t seed;
    enum block_format_number format; /* of the matrices: any that can be read */
    bool untied;                     /* a head of its own */
    bool no_template;
    uint32_t context_tokens; /* 1024 */
    uint32_t layers;         /* 2 */
    uint32_t heads;          /* 4 */
    uint32_t kv_heads;       /* 2 */
    uint32_t head_dim;       /* 16; heads * head_dim is the width, whole blocks of the format */
    uint32_t ffn_dim;        /* 96; whole blocks of the format */
    bool no_data;            /* ends before the tensors' data */
    /* Writes further keys, as many as extra_key_count says. */
    void (*add_keys)(struct gguf_writer *writer);
    uint32_t extra_key_count;
};

enum {
    TINY_LLAMA_ENDOFTEXT = 0,
    TINY_LLAMA_IM_START = 1,
    TINY_LLAMA_IM_END = 2,
    TINY_LLAMA_FIRST_BYTE = 3, /* the byte tokens, in the order of the bytes */
    TINY_LLAMA_FIRST_MERGE = TINY_LLAMA_FIRST_BYTE + 256,
};

uint32_t tiny_llama_vocabulary(void);

/* Writes the file to the test's temporary folder; the caller frees the path. A NULL is all zero. */
char *tiny_llama_write(const struct tiny_llama_options *options);

/* The same bytes in memory, for tests that spoil them. */
void tiny_llama_build(const struct tiny_llama_options *options, struct gguf_writer *writer);

#endif
