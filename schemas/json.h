/* A JSON document: what cJSON read, as one flat array of nodes, with typed, bounded getters.
 *
 * Strict RFC 8259, and narrower where a lenient reader would let two programs see two documents:
 * duplicate keys, U+0000 and lone surrogates are refused, naming the field; size and nesting are
 * bounded before anything is built. Numbers keep their digits beside their value, so that a
 * document is echoed as it came. Time O(n log n) for any input. A document owns its nodes; nodes
 * and their text are borrowed until json_deinit. Any thread. Knows no job and no model. */
#ifndef SOLFLEET_SCHEMAS_JSON_H
#define SOLFLEET_SCHEMAS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define JSON_DEPTH_MAX 64               /* most levels a caller may allow */
#define JSON_BYTES_MAX ((1u << 30) - 1) /* largest document a caller may allow */
/* 2^53 - 1: numbers are doubles, which skip integers from 2^53 on. */
#define JSON_INTEGER_MAX 9007199254740991

struct json_limits {
    size_t bytes_max;   /* <= JSON_BYTES_MAX */
    uint32_t depth_max; /* <= JSON_DEPTH_MAX; [[1]] is two levels deep */
    /* Accept duplicate keys (the first counts), U+0000 and lone surrogates (both as U+FFFD): for
     * reading what little can be read of a document that is refused. */
    bool tolerant;
};

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* One value. A container is followed by its content: elements, or for each member its key (a
 * JSON_STRING node) and then its value. */
struct json_node {
    const char *text; /* string: unescaped UTF-8; number: as written; both with a NUL */
    double number;    /* of a number; infinite where a double cannot hold it */
    uint32_t size;    /* string, number: bytes; array, object: elements, members; bool: 0 or 1 */
    uint32_t span;    /* nodes of the whole value, itself included */
    uint32_t index;   /* of this node; node - index is the root */
    enum json_type type;
};

struct json {
    struct cJSON *tree;      /* owned: the strings of the nodes */
    char *numbers;           /* owned: the numbers as they were written */
    struct json_node *nodes; /* owned; nodes[0] is the root */
    uint32_t node_count;
};

/* Reads one document, nothing but white space before and after it. The checks come in this order:
 * ERROR_TOO_LARGE, ERROR_INVALID_UTF8, ERROR_INVALID_JSON (both with the byte offset in the
 * message), ERROR_INVALID_FIELD with the path of the field. ERROR_INTERNAL when memory ran out.
 * Anything but ERROR_NONE leaves *json zeroed. */
enum error_code json_parse(struct json *json, const void *bytes, size_t size,
                           const struct json_limits *limits, struct job_error *error)
    __attribute__((warn_unused_result));

/* Accepts a zeroed document. */
void json_deinit(struct json *json);

/* The first element or member value; NULL when there is none or the node is no container. */
const struct json_node *json_first(const struct json_node *container);
/* The one after `value`; NULL at the end. */
const struct json_node *json_next(const struct json_node *container, const struct json_node *value);
/* The key of a member's value. */
const struct json_node *json_key(const struct json_node *member_value);

/* The value of a member; NULL when it is absent or null, or `object` is NULL or no object. */
const struct json_node *json_member(const struct json_node *object, const char *name);

bool json_text_equals(const struct json_node *string, const char *text);

/* The getters below share one habit: the error is sticky. A getter called with an error already
 * set does nothing and gives the absent value, so a decoder reads straight on and looks once at
 * the end. A value of a wrong type or out of bounds sets ERROR_INVALID_FIELD.
 *
 * json_fail is for checks of the caller's own: it blames `node`, or its member `name` if that is
 * not NULL, by its path, e.g. "messages[3].role". */
void json_fail(struct job_error *error, enum error_code code, const struct json_node *node,
               const char *name, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Of a node. Integers may be written as 1.0 or 1e3 as long as they are integral; their bounds lie
 * within JSON_INTEGER_MAX, so that no digit is lost. */
int64_t json_to_int(const struct json_node *node, int64_t min, int64_t max,
                    struct job_error *error);
double json_to_double(const struct json_node *node, double min, double max,
                      struct job_error *error);
/* A copy owned by the caller; NULL on an error. */
char *json_to_text(const struct json_node *node, size_t bytes_max, struct job_error *error);

/* Of a member: absent and null alike give `absent`. */
int64_t json_get_int(const struct json_node *object, const char *name, int64_t min, int64_t max,
                     int64_t absent, struct job_error *error);
double json_get_double(const struct json_node *object, const char *name, double min, double max,
                       double absent, struct job_error *error);
bool json_get_bool(const struct json_node *object, const char *name, bool absent,
                   struct job_error *error);
/* The index of the string among `choices`. */
uint32_t json_get_choice(const struct json_node *object, const char *name,
                         const char *const *choices, uint32_t choice_count, uint32_t absent,
                         struct job_error *error);
/* These give NULL for absent. The string and the containers are borrowed, the text is owned. */
const struct json_node *json_get_string(const struct json_node *object, const char *name,
                                        size_t bytes_max, struct job_error *error);
char *json_get_text(const struct json_node *object, const char *name, size_t bytes_max,
                    struct job_error *error);
const struct json_node *json_get_object(const struct json_node *object, const char *name,
                                        struct job_error *error);
const struct json_node *json_get_array(const struct json_node *object, const char *name,
                                       uint32_t count_max, struct job_error *error);
/* Copies a string into the caller's buffer of out_bytes, NUL included; leaves it when absent. */
void json_get_name(const struct json_node *object, const char *name, char *out, size_t out_bytes,
                   struct job_error *error);

/* Sets "is required" when the member is absent or null. */
void json_require(const struct json_node *object, const char *name, struct job_error *error);

#endif
