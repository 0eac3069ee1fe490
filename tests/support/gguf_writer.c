#include "tests/support/gguf_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

void gguf_writer_deinit(struct gguf_writer *writer) {
    free(writer->bytes);
    *writer = (struct gguf_writer){0};
}

void gguf_writer_raw(struct gguf_writer *writer, const void *bytes, size_t size) {
    if (writer->size + size > writer->capacity) {
        writer->capacity = 2 * (writer->size + size);
        writer->bytes = realloc(writer->bytes, writer->capacity);
        assert(writer->bytes != NULL);
    }
    memcpy(writer->bytes + writer->size, bytes, size);
    writer->size += size;
}

void gguf_writer_u32(struct gguf_writer *writer, uint32_t value) {
    gguf_writer_raw(writer, &value, sizeof value);
}

void gguf_writer_u64(struct gguf_writer *writer, uint64_t value) {
    gguf_writer_raw(writer, &value, sizeof value);
}

void gguf_writer_string(struct gguf_writer *writer, const char *text) {
    gguf_writer_u64(writer, strlen(text));
    gguf_writer_raw(writer, text, strlen(text));
}

void gguf_writer_align(struct gguf_writer *writer, size_t alignment) {
    while (writer->size % alignment != 0) {
        gguf_writer_raw(writer, "", 1);
    }
}

void gguf_writer_header(struct gguf_writer *writer, uint64_t tensors, uint64_t keys) {
    gguf_writer_raw(writer, "GGUF", 4);
    gguf_writer_u32(writer, 3);
    gguf_writer_u64(writer, tensors);
    gguf_writer_u64(writer, keys);
}

void gguf_writer_key(struct gguf_writer *writer, const char *key, enum gguf_type type) {
    gguf_writer_string(writer, key);
    gguf_writer_u32(writer, type);
}

void gguf_writer_key_u32(struct gguf_writer *writer, const char *key, uint32_t value) {
    gguf_writer_key(writer, key, GGUF_U32);
    gguf_writer_u32(writer, value);
}

void gguf_writer_key_f32(struct gguf_writer *writer, const char *key, float value) {
    gguf_writer_key(writer, key, GGUF_F32);
    gguf_writer_raw(writer, &value, sizeof value);
}

void gguf_writer_key_bool(struct gguf_writer *writer, const char *key, bool value) {
    uint8_t byte = value;
    gguf_writer_key(writer, key, GGUF_BOOL);
    gguf_writer_raw(writer, &byte, 1);
}

void gguf_writer_key_string(struct gguf_writer *writer, const char *key, const char *value) {
    gguf_writer_key(writer, key, GGUF_STRING);
    gguf_writer_string(writer, value);
}

void gguf_writer_key_strings(struct gguf_writer *writer, const char *key, const char *const *values,
                             size_t count) {
    gguf_writer_key(writer, key, GGUF_ARRAY);
    gguf_writer_u32(writer, GGUF_STRING);
    gguf_writer_u64(writer, count);
    for (size_t i = 0; i < count; i++) {
        gguf_writer_string(writer, values[i]);
    }
}

void gguf_writer_key_i32s(struct gguf_writer *writer, const char *key, const int32_t *values,
                          size_t count) {
    gguf_writer_key(writer, key, GGUF_ARRAY);
    gguf_writer_u32(writer, GGUF_I32);
    gguf_writer_u64(writer, count);
    gguf_writer_raw(writer, values, count * sizeof *values);
}

void gguf_writer_tensor(struct gguf_writer *writer, const char *name, uint64_t columns,
                        uint64_t rows, uint32_t format, uint64_t offset) {
    gguf_writer_string(writer, name);
    gguf_writer_u32(writer, rows > 0 ? 2 : 1);
    gguf_writer_u64(writer, columns);
    if (rows > 0) {
        gguf_writer_u64(writer, rows);
    }
    gguf_writer_u32(writer, format);
    gguf_writer_u64(writer, offset);
}

char *gguf_writer_save(const struct gguf_writer *writer, const char *name) {
    char *path = test_tmp_path(name);
    FILE *file = fopen(path, "wb");
    assert(file != NULL);
    size_t written = fwrite(writer->bytes, 1, writer->size, file);
    int closed = fclose(file);
    assert(written == writer->size && closed == 0);
    return path;
}
