/* A GGUF file under construction, for tests: good ones and bad ones, byte by byte.
 *
 * Not for threads. The writer owns its bytes until gguf_writer_deinit. Out of memory is an
 * assert. */
#ifndef SOLFLEET_TESTS_SUPPORT_GGUF_WRITER_H
#define SOLFLEET_TESTS_SUPPORT_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/gguf.h"

struct gguf_writer {
    uint8_t *bytes;
    size_t size, capacity;
};

void gguf_writer_deinit(struct gguf_writer *writer);

void gguf_writer_raw(struct gguf_writer *writer, const void *bytes, size_t size);
void gguf_writer_u32(struct gguf_writer *writer, uint32_t value);
void gguf_writer_u64(struct gguf_writer *writer, uint64_t value);
void gguf_writer_string(struct gguf_writer *writer, const char *text);
void gguf_writer_align(struct gguf_writer *writer, size_t alignment);

/* Magic, version 3 and the two counts. */
void gguf_writer_header(struct gguf_writer *writer, uint64_t tensors, uint64_t keys);

/* Whole keys. */
void gguf_writer_key(struct gguf_writer *writer, const char *key, enum gguf_type type);
void gguf_writer_key_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_writer_key_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_writer_key_bool(struct gguf_writer *writer, const char *key, bool value);
void gguf_writer_key_string(struct gguf_writer *writer, const char *key, const char *value);
void gguf_writer_key_strings(struct gguf_writer *writer, const char *key, const char *const *values,
                             size_t count);
void gguf_writer_key_i32s(struct gguf_writer *writer, const char *key, const int32_t *values,
                          size_t count);

/* The description of a tensor of one or two dimensions (rows = 0: one). */
void gguf_writer_tensor(struct gguf_writer *writer, const char *name, uint64_t columns,
                        uint64_t rows, uint32_t format, uint64_t offset);

/* Writes the bytes to a file; the caller frees the path. */
char *gguf_writer_save(const struct gguf_writer *writer, const char *name);

#endif
