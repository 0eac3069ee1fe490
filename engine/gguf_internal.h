/* A parsed GGUF file's tables, shared by engine/gguf.c (access) and engine/gguf_parse.c (checks)
 * and nobody else. Threads and memory as in engine/gguf.h. Refuses to know where the bytes came
 * from. */
#ifndef SOLFLEET_ENGINE_GGUF_INTERNAL_H
#define SOLFLEET_ENGINE_GGUF_INTERNAL_H

#include "engine/gguf.h"

struct gguf_entry {
    struct gguf_string key;
    enum gguf_type type;
    const uint8_t *value;    /* scalars: the value's bytes in the file */
    struct gguf_string text; /* GGUF_STRING */
    struct gguf_array array; /* GGUF_ARRAY */
};

struct gguf {
    const uint8_t *bytes;
    size_t size;
    void *mapping; /* owned: [size]; NULL when the bytes are borrowed */

    struct gguf_entry *entries; /* owned: [entry_count] */
    size_t entry_count;
    struct gguf_tensor *tensors; /* owned: [tensor_count] */
    size_t tensor_count;

    /* Positions in the order of names. Sorted, not hashed: no choice of names by the author of a
     * file makes a look-up slow. */
    uint32_t *entry_order;  /* owned */
    uint32_t *tensor_order; /* owned */
};

extern const uint8_t gguf_parse_type_bytes[GGUF_TYPE_COUNT]; /* 0 for strings and arrays */
extern const char *const gguf_parse_type_names[GGUF_TYPE_COUNT];

/* Fills the tables from gguf->bytes. Whatever it returns, gguf_close frees what was allocated. */
enum gguf_status gguf_parse_file(struct gguf *gguf, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Of names, as memcmp orders them, a prefix first. */
int gguf_parse_compare(struct gguf_string a, struct gguf_string b);

#endif
