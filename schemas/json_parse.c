/* From text to nodes, in one pass: json_scan reads the words, here is which may follow which. All
 * texts of the nodes stand in one buffer, the one that the document was copied to. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "schemas/json_scan.h"
#include "schemas/utf8.h"

#define NODE_BYTES_GUESS 16 /* of a document, for each of its values and keys */

struct parser {
    struct json *json;
    uint32_t node_capacity;
    struct json_scan scan;
    uint32_t depth, depth_max;
    enum json_scan_fault fault; /* the first string with one... */
    uint32_t fault_node;        /* ...and its node */
};

static bool out_of_memory(struct job_error *error) {
    error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    return false;
}

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

/* ---- values ---- */

/* The next node, NULL when memory ran out. Nodes move: their places are kept, not their addresses.
 */
static struct json_node *add_node(struct parser *parser, enum json_type type) {
    struct json *json = parser->json;
    if (json->node_count == parser->node_capacity) {
        const uint32_t capacity = 2 * parser->node_capacity;
        struct json_node *nodes = realloc(json->nodes, capacity * sizeof *nodes);
        if (nodes == NULL) {
            out_of_memory(parser->scan.error);
            return NULL;
        }
        json->nodes = nodes;
        parser->node_capacity = capacity;
    }
    const uint32_t index = json->node_count++;
    json->nodes[index] = (struct json_node){.span = 1, .index = index, .type = type};
    return &json->nodes[index];
}

static bool parse_string(struct parser *parser) {
    struct json_scan_word word;
    struct json_node *node = add_node(parser, JSON_STRING);
    if (node == NULL || !json_scan_string(&parser->scan, &word)) {
        return false;
    }
    node->text = word.text;
    node->size = word.bytes;
    if (word.fault != JSON_SCAN_NO_FAULT && parser->fault == JSON_SCAN_NO_FAULT) {
        parser->fault = word.fault;
        parser->fault_node = node->index;
    }
    return true;
}

/* Whole numbers that a double holds need no strtod, and most are such. */
static double value_of(const struct json_scan_word *word) {
    const char *digits = word->text + (word->text[0] == '-');
    const size_t count = strspn(digits, "0123456789");
    if (digits + count != word->text + word->bytes || count > 15) {
        return strtod(word->text, NULL); /* never another locale's: nobody calls setlocale */
    }
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        value = 10 * value + (digits[i] - '0');
    }
    return digits == word->text ? (double)value : -(double)value;
}

static bool parse_number(struct parser *parser) {
    struct json_scan_word word;
    struct json_node *node = add_node(parser, JSON_NUMBER);
    if (node == NULL || !json_scan_number(&parser->scan, &word)) {
        return false;
    }
    node->text = word.text;
    node->size = word.bytes;
    node->number = value_of(&word);
    return true;
}

static bool parse_name(struct parser *parser, const char *name, enum json_type type,
                       uint32_t size) {
    struct json_node *node = add_node(parser, type);
    if (node == NULL) {
        return false;
    }
    node->size = size;
    return json_scan_name(&parser->scan, name) ||
           json_scan_refuse(&parser->scan, parser->scan.at, "an unknown name");
}

static bool parse_container(struct parser *parser, enum json_type type);

static bool parse_value(struct parser *parser) {
    struct json_scan *scan = &parser->scan;
    const char c = json_scan_peek(scan);
    switch (c) {
    case '"': return parse_string(parser);
    case '{': return parse_container(parser, JSON_OBJECT);
    case '[': return parse_container(parser, JSON_ARRAY);
    case 't': return parse_name(parser, "true", JSON_BOOL, 1);
    case 'f': return parse_name(parser, "false", JSON_BOOL, 0);
    case 'n': return parse_name(parser, "null", JSON_NULL, 0);
    default:
        return c == '-' || (c >= '0' && c <= '9')
                   ? parse_number(parser)
                   : json_scan_refuse(scan, scan->at,
                                      scan->at == scan->end ? "the end where a value must stand"
                                                            : "no value");
    }
}

/* ---- containers ---- */

static bool parse_key(struct parser *parser) {
    struct json_scan *scan = &parser->scan;
    if (json_scan_peek(scan) != '"') {
        return json_scan_refuse(scan, scan->at, "no key of a member");
    }
    return parse_string(parser) &&
           (json_scan_take(scan, ':') || json_scan_refuse(scan, scan->at, "no colon after a key"));
}

/* The content up to the closing bracket; gives the count of elements or members. */
static bool parse_content(struct parser *parser, enum json_type type, uint32_t *count) {
    struct json_scan *scan = &parser->scan;
    const char closing = type == JSON_OBJECT ? '}' : ']';
    *count = 0;
    if (json_scan_take(scan, closing)) {
        return true;
    }
    do {
        if ((type == JSON_OBJECT && !parse_key(parser)) || !parse_value(parser)) {
            return false;
        }
        ++*count;
    } while (json_scan_take(scan, ','));
    return json_scan_take(scan, closing) ||
           json_scan_refuse(scan, scan->at, "neither a comma nor the end of a container");
}

/* At its opening bracket. Recursion is bounded by depth_max. */
static bool parse_container(struct parser *parser, enum json_type type) {
    struct json_scan *scan = &parser->scan;
    if (parser->depth == parser->depth_max) {
        error_set(scan->error, ERROR_INVALID_JSON, NULL,
                  "nested more than %u levels deep at byte %zu", parser->depth_max,
                  (size_t)(scan->at - scan->text));
        return false;
    }
    const struct json_node *node = add_node(parser, type);
    if (node == NULL) {
        return false;
    }
    const uint32_t index = node->index;
    uint32_t count;
    scan->at++;
    parser->depth++;
    if (!parse_content(parser, type, &count)) {
        return false;
    }
    parser->depth--;
    parser->json->nodes[index].size = count;
    parser->json->nodes[index].span = parser->json->node_count - index;
    return true;
}

/* ---- what a well-formed document may not hold ---- */

static bool refuse(const struct json_node *node, const char *reason, struct job_error *error) {
    json_fail(error, ERROR_INVALID_FIELD, node, NULL, "%s", reason);
    return false;
}

static bool check_strings(const struct parser *parser) {
    return parser->fault == JSON_SCAN_NO_FAULT ||
           refuse(&parser->json->nodes[parser->fault_node],
                  parser->fault == JSON_SCAN_NUL ? "the character U+0000 is not accepted"
                                                 : "half of a surrogate pair is not a character",
                  parser->scan.error);
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

static bool parse_document(struct parser *parser) {
    if (!parse_value(parser)) {
        return false;
    }
    (void)json_scan_peek(&parser->scan);
    return parser->scan.at == parser->scan.end ||
           json_scan_refuse(&parser->scan, parser->scan.at, "something behind the value");
}

static void parse(struct json *json, const void *bytes, size_t size,
                  const struct json_limits *limits, struct job_error *error) {
    struct parser parser = {.json = json,
                            .node_capacity = (uint32_t)(size / NODE_BYTES_GUESS) + 8,
                            .depth_max = limits->depth_max};
    json->texts = malloc(size + JSON_SCAN_SPARE_BYTES);
    json->nodes = malloc(parser.node_capacity * sizeof *json->nodes);
    if (json->texts == NULL || json->nodes == NULL) {
        out_of_memory(error);
        return;
    }
    if (size > 0) {
        memcpy(json->texts + 1, bytes, size);
    }
    parser.scan = json_scan_of(json->texts, size, error);
    if (parse_document(&parser) && !limits->tolerant && check_strings(&parser)) {
        (void)check_keys(json, error);
    }
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
