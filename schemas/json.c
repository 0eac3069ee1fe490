#include "schemas/json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_deinit(struct json *json) {
    cJSON_Delete(json->tree);
    free(json->numbers);
    free(json->nodes);
    *json = (struct json){0};
}

/* ---- walking ---- */

static bool is_container(const struct json_node *node) {
    return node->type == JSON_ARRAY || node->type == JSON_OBJECT;
}

const struct json_node *json_first(const struct json_node *container) {
    if (!is_container(container) || container->size == 0) {
        return NULL;
    }
    return container + (container->type == JSON_OBJECT ? 2 : 1);
}

const struct json_node *json_next(const struct json_node *container,
                                  const struct json_node *value) {
    const struct json_node *next = value + value->span;
    if (next >= container + container->span) {
        return NULL;
    }
    return next + (container->type == JSON_OBJECT ? 1 : 0);
}

const struct json_node *json_key(const struct json_node *member_value) {
    return member_value - 1;
}

static bool equals(const struct json_node *string, const char *text, size_t size) {
    return string->size == size && memcmp(string->text, text, size) == 0;
}

bool json_text_equals(const struct json_node *string, const char *text) {
    return string->type == JSON_STRING && equals(string, text, strlen(text));
}

const struct json_node *json_member(const struct json_node *object, const char *name) {
    if (object == NULL || object->type != JSON_OBJECT) {
        return NULL;
    }
    const size_t size = strlen(name);
    for (const struct json_node *value = json_first(object); value != NULL;
         value = json_next(object, value)) {
        if (equals(json_key(value), name, size)) {
            return value->type == JSON_NULL ? NULL : value;
        }
    }
    return NULL;
}

/* ---- paths and errors ---- */

struct path {
    char *out;
    size_t used, out_bytes;
};

static void path_add(struct path *path, const char *text) {
    const int written = snprintf(path->out + path->used, path->out_bytes - path->used, "%s", text);
    path->used += (size_t)written;
    if (path->used >= path->out_bytes) {
        path->used = path->out_bytes - 1;
    }
}

/* Goes from the root down to the value whose span holds the node; a key stands for its value. */
static void path_of(const struct json_node *node, struct path *path) {
    const struct json_node *container = node - node->index;
    while (container != node) {
        uint32_t place = 0;
        const struct json_node *value = json_first(container);
        while (node >= value + value->span) {
            value = json_next(container, value);
            place++;
        }
        if (container->type == JSON_OBJECT) {
            path_add(path, path->used > 0 ? "." : "");
            path_add(path, json_key(value)->text);
        } else {
            char index[16];
            snprintf(index, sizeof index, "[%u]", place);
            path_add(path, index);
        }
        if (node < value) {
            return;
        }
        container = value;
    }
}

void json_fail(struct job_error *error, enum error_code code, const struct json_node *node,
               const char *name, const char *format, ...) {
    if (error->code != ERROR_NONE) {
        return;
    }
    char field[ERROR_FIELD_BYTES_MAX + 8]; /* error_set cuts it, at a code point */
    char message[ERROR_MESSAGE_BYTES_MAX + 8];
    field[0] = '\0';
    struct path path = {field, 0, sizeof field};
    path_of(node, &path);
    if (name != NULL) {
        path_add(&path, path.used > 0 ? "." : "");
        path_add(&path, name);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(error, code, field, "%s", message);
}

#define FAIL(error, node, ...) json_fail(error, ERROR_INVALID_FIELD, node, NULL, __VA_ARGS__)

/* ---- values of nodes ---- */

int64_t json_to_int(const struct json_node *node, int64_t min, int64_t max,
                    struct job_error *error) {
    assert(min >= -JSON_INTEGER_MAX && max <= JSON_INTEGER_MAX);
    if (error->code != ERROR_NONE) {
        return min;
    }
    const double value = node->type == JSON_NUMBER ? node->number : (double)NAN;
    if (!(value >= (double)min && value <= (double)max && value == rint(value))) {
        FAIL(error, node, "must be an integer from %lld to %lld", (long long)min, (long long)max);
        return min;
    }
    return (int64_t)value;
}

double json_to_double(const struct json_node *node, double min, double max,
                      struct job_error *error) {
    if (error->code != ERROR_NONE) {
        return min;
    }
    const double value = node->type == JSON_NUMBER ? node->number : (double)NAN;
    if (!(value >= min && value <= max)) {
        FAIL(error, node, "must be a number from %.17g to %.17g", min, max);
        return min;
    }
    return value + 0.0; /* turns -0 into +0 */
}

static bool check_string(const struct json_node *node, size_t bytes_max, struct job_error *error) {
    if (error->code != ERROR_NONE) {
        return false;
    }
    if (node->type != JSON_STRING) {
        FAIL(error, node, "must be a string");
    } else if (node->size > bytes_max) {
        FAIL(error, node, "must be at most %zu bytes long, not %u", bytes_max, node->size);
    }
    return error->code == ERROR_NONE;
}

char *json_to_text(const struct json_node *node, size_t bytes_max, struct job_error *error) {
    if (!check_string(node, bytes_max, error)) {
        return NULL;
    }
    char *copy = malloc((size_t)node->size + 1);
    if (copy == NULL) {
        error_set(error, ERROR_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    return memcpy(copy, node->text, (size_t)node->size + 1);
}

/* ---- members ---- */

int64_t json_get_int(const struct json_node *object, const char *name, int64_t min, int64_t max,
                     int64_t absent, struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    return node == NULL || error->code != ERROR_NONE ? absent : json_to_int(node, min, max, error);
}

double json_get_double(const struct json_node *object, const char *name, double min, double max,
                       double absent, struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    return node == NULL || error->code != ERROR_NONE ? absent
                                                     : json_to_double(node, min, max, error);
}

bool json_get_bool(const struct json_node *object, const char *name, bool absent,
                   struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    if (node == NULL || error->code != ERROR_NONE) {
        return absent;
    }
    if (node->type != JSON_BOOL) {
        FAIL(error, node, "must be true or false");
        return absent;
    }
    return node->size != 0;
}

uint32_t json_get_choice(const struct json_node *object, const char *name,
                         const char *const *choices, uint32_t choice_count, uint32_t absent,
                         struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    if (node == NULL || error->code != ERROR_NONE) {
        return absent;
    }
    char list[128] = "";
    struct path path = {list, 0, sizeof list};
    for (uint32_t i = 0; i < choice_count; i++) {
        if (json_text_equals(node, choices[i])) {
            return i;
        }
        path_add(&path, i == 0 ? "" : ", ");
        path_add(&path, choices[i]);
    }
    FAIL(error, node, "must be one of: %s", list);
    return absent;
}

const struct json_node *json_get_string(const struct json_node *object, const char *name,
                                        size_t bytes_max, struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    return node != NULL && check_string(node, bytes_max, error) ? node : NULL;
}

char *json_get_text(const struct json_node *object, const char *name, size_t bytes_max,
                    struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    return node != NULL ? json_to_text(node, bytes_max, error) : NULL;
}

void json_get_name(const struct json_node *object, const char *name, char *out, size_t out_bytes,
                   struct job_error *error) {
    const struct json_node *node = json_get_string(object, name, out_bytes - 1, error);
    if (node != NULL) {
        memcpy(out, node->text, (size_t)node->size + 1);
    }
}

const struct json_node *json_get_object(const struct json_node *object, const char *name,
                                        struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    if (node == NULL || error->code != ERROR_NONE) {
        return NULL;
    }
    if (node->type != JSON_OBJECT) {
        FAIL(error, node, "must be an object");
        return NULL;
    }
    return node;
}

const struct json_node *json_get_array(const struct json_node *object, const char *name,
                                       uint32_t count_max, struct job_error *error) {
    const struct json_node *node = json_member(object, name);
    if (node == NULL || error->code != ERROR_NONE) {
        return NULL;
    }
    if (node->type != JSON_ARRAY) {
        FAIL(error, node, "must be an array");
        return NULL;
    }
    if (node->size > count_max) {
        FAIL(error, node, "must have at most %u elements, not %u", count_max, node->size);
        return NULL;
    }
    return node;
}

void json_require(const struct json_node *object, const char *name, struct job_error *error) {
    if (json_member(object, name) == NULL) {
        json_fail(error, ERROR_INVALID_FIELD, object, name, "is required");
    }
}
