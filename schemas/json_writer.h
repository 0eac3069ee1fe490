/* A JSON text being written: compact, fields in the order they are given.
 *
 * Values go straight into the text; strings are escaped by cJSON. A failed allocation is remembered
 * and told by json_writer_finish, so the calls between need no checks. Strings must be UTF-8; only
 * what JSON demands is escaped. Owns its text until json_writer_finish. One thread a writer. */
#ifndef SOLFLEET_SCHEMAS_JSON_WRITER_H
#define SOLFLEET_SCHEMAS_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/json.h"

#define JSON_WRITER_DEPTH_MAX (2 * JSON_DEPTH_MAX) /* room for a parsed value in a text of ours */

struct json_writer {
    char *text; /* owned; NULL before the first byte */
    size_t size, capacity;
    uint32_t depth;   /* of containers that are open */
    bool needs_comma; /* before the next key or value */
    bool failed;      /* memory ran out */
};

/* `capacity` is a guess of the size that saves growing; 0 is fine. */
void json_writer_init(struct json_writer *writer, size_t capacity);
/* Gives the NUL-terminated text to the caller (free()), its length in *size if not NULL; NULL when
 * memory ran out. The writer is then zeroed. */
char *json_writer_finish(struct json_writer *writer, size_t *size)
    __attribute__((warn_unused_result));

/* In an object: json_writer_key, then one value. In an array: values. */
void json_writer_begin_object(struct json_writer *writer);
void json_writer_end_object(struct json_writer *writer);
void json_writer_begin_array(struct json_writer *writer);
void json_writer_end_array(struct json_writer *writer);
void json_writer_key(struct json_writer *writer, const char *key);

void json_writer_null(struct json_writer *writer);
void json_writer_bool(struct json_writer *writer, bool value);
void json_writer_int(struct json_writer *writer, int64_t value);
void json_writer_uint(struct json_writer *writer, uint64_t value);
/* The shortest digits that give the same float (double) back; NaN and infinities become null. */
void json_writer_float(struct json_writer *writer, float value);
void json_writer_double(struct json_writer *writer, double value);
/* NULL becomes null. */
void json_writer_string(struct json_writer *writer, const char *text);
/* Text that is JSON already, as it stands; NULL becomes null. */
void json_writer_raw(struct json_writer *writer, const char *json);
/* A parsed value, numbers digit for digit as they were written. */
void json_writer_node(struct json_writer *writer, const struct json_node *node);

#endif
