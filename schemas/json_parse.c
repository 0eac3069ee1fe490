/* From text to nodes: json_scan looks at the text, cJSON reads it into a tree, and the tree is
 * written out flat. The nodes borrow their strings from the tree and their numbers' digits from
 * what the scan set aside. cJSON keeps the place of its last error in a global variable; nothing
 * here looks at it. */
#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "schemas/json_scan.h"
#include "schemas/utf8.h"

static bool out_of_memory(struct job_error *error) {
    error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    return false;
}

/* ---- reading ---- */

static bool check_bytes(const void *bytes, size_t size, const struct json_limits *limits,
                        struct job_error *error) {
    size_t bad_at = 0;
    if (size > limits->bytes_max) {
        error_set(error, ERROR_TOO_LARGE, NULL, "%zu bytes where at most %zu are accepted", size,
                  limits->bytes_max);
    } else if (!utf8_is_valid(bytes, size, &bad_at)) {
        error_set(error, ERROR_INVALID_UTF8, NULL, "not UTF-8 at byte %zu", bad_at);
    }
    return error->code == ERROR_NONE;
}

/* cJSON does not tell a failed allocation from a malformed text, but the C library does. Where a
 * key is missing, cJSON points one byte too far. */
static bool read_tree(struct json *json, const char *text, size_t size, struct job_error *error) {
    const char *end = text;
    errno = 0;
    json->tree = cJSON_ParseWithLengthOpts(text, size + 1, &end, true);
    if (json->tree != NULL) {
        return true;
    }
    if (errno == ENOMEM) {
        return out_of_memory(error);
    }
    error_set(error, ERROR_INVALID_JSON, NULL, "not well-formed, noticed at byte %zu",
              (size_t)(end - text));
    return false;
}

/* ---- flattening ---- */

static enum json_type type_of(const cJSON *item) {
    switch (item->type & 0xFF) {
    case cJSON_NULL: return JSON_NULL;
    case cJSON_Number: return JSON_NUMBER;
    case cJSON_String: return JSON_STRING;
    case cJSON_Array: return JSON_ARRAY;
    case cJSON_Object: return JSON_OBJECT;
    default: return JSON_BOOL;
    }
}

static struct json_node *add_node(struct json *json, enum json_type type, const char *text) {
    const uint32_t index = json->node_count++;
    json->nodes[index] = (struct json_node){.text = text,
                                            .size = text == NULL ? 0 : (uint32_t)strlen(text),
                                            .span = 1,
                                            .index = index,
                                            .type = type};
    return &json->nodes[index];
}

/* Recursion is bounded: the scan let nothing deeper than JSON_DEPTH_MAX through. */
static void flatten(struct json *json, const cJSON *item, const char **number) {
    struct json_node *node = add_node(json, type_of(item), item->valuestring);
    switch (node->type) {
    case JSON_NULL:
    case JSON_STRING: break;
    case JSON_BOOL: node->size = cJSON_IsTrue(item) ? 1 : 0; break;
    case JSON_NUMBER:
        node->number = item->valuedouble;
        node->text = *number;
        node->size = (uint32_t)strlen(*number);
        *number += node->size + 1;
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        for (const cJSON *child = item->child; child != NULL; child = child->next) {
            if (node->type == JSON_OBJECT) {
                add_node(json, JSON_STRING, child->string);
            }
            flatten(json, child, number);
            node->size++;
        }
        node->span = json->node_count - node->index;
        break;
    }
}

static bool make_nodes(struct json *json, const struct json_scan *scan, struct job_error *error) {
    json->nodes = calloc(scan->values_max, sizeof *json->nodes);
    if (json->nodes == NULL) {
        return out_of_memory(error);
    }
    const char *number = json->numbers;
    flatten(json, json->tree, &number);
    assert(json->node_count <= scan->values_max);
    return true;
}

/* ---- what a well-formed document may not hold ---- */

static bool refuse(const struct json_node *node, const char *reason, struct job_error *error) {
    json_fail(error, ERROR_INVALID_FIELD, node, NULL, "%s", reason);
    return false;
}

static bool check_strings(const struct json *json, const struct json_scan *scan,
                          struct job_error *error) {
    if (scan->fault == JSON_SCAN_NO_FAULT) {
        return true;
    }
    const struct json_node *node = json->nodes;
    for (uint32_t strings = 0;; node++) {
        if (node->type == JSON_STRING && strings++ == scan->fault_string) {
            break;
        }
    }
    return refuse(node,
                  scan->fault == JSON_SCAN_NUL ? "the character U+0000 is not accepted"
                                               : "half of a surrogate pair is not a character",
                  error);
}

struct key {
    uint32_t object; /* the index of the object it stands in */
    const struct json_node *node;
};

/* Of one object first, then by size, bytes, place: of equal ones the later comes later. */
static int compare_keys(const void *left, const void *right) {
    const struct key *a = left;
    const struct key *b = right;
    if (a->object != b->object) {
        return a->object < b->object ? -1 : 1;
    }
    if (a->node->size != b->node->size) {
        return a->node->size < b->node->size ? -1 : 1;
    }
    const int order = memcmp(a->node->text, b->node->text, a->node->size);
    return order != 0 ? order
                      : (a->node->index > b->node->index) - (a->node->index < b->node->index);
}

static bool keys_equal(const struct key *a, const struct key *b) {
    return a->object == b->object && a->node->size == b->node->size &&
           memcmp(a->node->text, b->node->text, a->node->size) == 0;
}

static uint32_t list_keys(const struct json *json, struct key *keys) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < json->node_count; i++) {
        const struct json_node *object = &json->nodes[i];
        if (object->type != JSON_OBJECT) {
            continue;
        }
        for (const struct json_node *value = json_first(object); value != NULL;
             value = json_next(object, value)) {
            keys[count++] = (struct key){i, json_key(value)};
        }
    }
    return count;
}

/* Sorting keeps an object of a hundred thousand keys from costing their square. Blames the first
 * key of the document that stood before. */
static bool check_keys(const struct json *json, struct job_error *error) {
    struct key *keys = malloc((json->node_count / 2 + 1) * sizeof *keys);
    if (keys == NULL) {
        return out_of_memory(error);
    }
    const uint32_t count = list_keys(json, keys);
    qsort(keys, count, sizeof *keys, compare_keys);
    const struct json_node *twin = NULL;
    for (uint32_t i = 1; i < count; i++) {
        if (keys_equal(&keys[i - 1], &keys[i]) && (twin == NULL || keys[i].node < twin)) {
            twin = keys[i].node;
        }
    }
    free(keys);
    return twin == NULL || refuse(twin, "the key stands twice in its object", error);
}

/* ---- the document ---- */

static void parse(struct json *json, const void *bytes, size_t size,
                  const struct json_limits *limits, struct job_error *error) {
    char *text = malloc(size + 1); /* the scan writes in it, and cJSON wants the NUL */
    json->numbers = malloc(size + 2);
    if (text == NULL || json->numbers == NULL) {
        free(text);
        out_of_memory(error);
        return;
    }
    if (size > 0) {
        memcpy(text, bytes, size);
    }
    text[size] = '\0';
    struct json_scan scan;
    if (json_scan(text, size, limits->depth_max, json->numbers, &scan, error) &&
        read_tree(json, text, size, error) && make_nodes(json, &scan, error) && !limits->tolerant &&
        check_strings(json, &scan, error)) {
        (void)check_keys(json, error);
    }
    free(text);
}

enum error_code json_parse(struct json *json, const void *bytes, size_t size,
                           const struct json_limits *limits, struct job_error *error) {
    assert(limits->bytes_max <= JSON_BYTES_MAX && limits->depth_max <= JSON_DEPTH_MAX);
    *json = (struct json){0};
    error->code = ERROR_NONE;
    if (check_bytes(bytes, size, limits, error)) {
        parse(json, bytes, size, limits, error);
    }
    if (error->code != ERROR_NONE) {
        json_deinit(json);
    }
    return error->code;
}
