/* A GGUF file: typed metadata and the whereabouts of tensors, checked before anyone looks.
 *
 * Versions 2 and 3, little endian. The file is hostile until proven otherwise: every count, length,
 * product, type, offset and name is checked at open, so that whatever a getter or a tensor points
 * to lies inside the file. Immutable after open; any thread may read it. gguf_open maps the file
 * (owned until gguf_close; it must not shrink meanwhile), gguf_parse borrows the caller's bytes
 * until gguf_close. Strings, arrays and tensor data are borrowed from there. Refuses to know
 * architectures, shapes that make sense, and devices. */
#ifndef SOLFLEET_ENGINE_GGUF_H
#define SOLFLEET_ENGINE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/block_format.h"

enum {
    GGUF_KEYS_MAX = 1 << 16,    /* real files hold fewer than 100 */
    GGUF_TENSORS_MAX = 1 << 16, /* the largest models hold a few thousand */
    GGUF_NAME_BYTES_MAX = 255,  /* of a key or a tensor */
    GGUF_RANK_MAX = 4,
    GGUF_NESTING_MAX = 4, /* arrays in arrays */
    GGUF_ALIGNMENT_MAX = 1 << 16,
};

enum gguf_status {
    GGUF_OK = 0,
    GGUF_UNREADABLE, /* the file cannot be opened or mapped; err has the system's reason */
    GGUF_MALFORMED,  /* err names the key or tensor and what is wrong with it */
    GGUF_NO_MEMORY
};

enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

/* Bytes of the file; not terminated. */
struct gguf_string {
    const char *data;
    size_t bytes;
};

struct gguf_array {
    enum gguf_type type; /* of the elements */
    size_t count;
    const uint8_t *data; /* [bytes], unaligned */
    size_t bytes;
};

struct gguf_tensor {
    struct gguf_string name;
    const struct block_format *format;
    uint32_t rank;
    uint64_t dims[GGUF_RANK_MAX]; /* dims[0] is contiguous; 1 past the rank */
    const uint8_t *data;          /* [bytes] */
    size_t bytes;
};

struct gguf;

enum gguf_status gguf_open(const char *path, struct gguf **out, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
enum gguf_status gguf_parse(const uint8_t *bytes, size_t size, struct gguf **out, char *err,
                            size_t err_bytes) __attribute__((warn_unused_result));
void gguf_close(struct gguf *gguf); /* accepts NULL */

/* Of a mapped file: `bytes` from `data` on have been read for now, and need no memory of ours until
 * they are read again. */
void gguf_rest(const struct gguf *gguf, const uint8_t *data, size_t bytes);

/* The whole file. */
const uint8_t *gguf_bytes(const struct gguf *gguf, size_t *size);

enum gguf_lookup {
    GGUF_FOUND = 0,
    GGUF_ABSENT,
    GGUF_WRONG_TYPE,  /* the key holds another type: gguf_type_name tells which */
    GGUF_OUT_OF_RANGE /* an integer that the result cannot hold */
};

/* *out is untouched unless the key was GGUF_FOUND. Integers are taken from any integer type, floats
 * from f32 or f64. */
enum gguf_lookup gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out)
    __attribute__((warn_unused_result));
enum gguf_lookup gguf_get_f32(const struct gguf *gguf, const char *key, float *out)
    __attribute__((warn_unused_result));
enum gguf_lookup gguf_get_bool(const struct gguf *gguf, const char *key, bool *out)
    __attribute__((warn_unused_result));
enum gguf_lookup gguf_get_string(const struct gguf *gguf, const char *key, struct gguf_string *out)
    __attribute__((warn_unused_result));
enum gguf_lookup gguf_get_array(const struct gguf *gguf, const char *key, struct gguf_array *out)
    __attribute__((warn_unused_result));

/* "u32", "string", "array"; "nothing" where the key is absent. */
const char *gguf_type_name(const struct gguf *gguf, const char *key);

/* Of an array of integers (false: it holds something else). index < array->count. */
bool gguf_array_integer(const struct gguf_array *array, size_t index, int64_t *out);
/* Fills out[array->count] (false: the array holds no strings). */
bool gguf_array_strings(const struct gguf_array *array, struct gguf_string *out);

bool gguf_string_is(struct gguf_string string, const char *text);

size_t gguf_key_count(const struct gguf *gguf);
struct gguf_string gguf_key_at(const struct gguf *gguf, size_t index); /* in the file's order */

size_t gguf_tensor_count(const struct gguf *gguf);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *gguf, size_t index);
/* NULL if there is none of this name. */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *gguf, const char *name);

#endif
