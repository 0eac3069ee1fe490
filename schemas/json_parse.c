/* The parser. It works on a private copy of the text with a few zero bytes behind it: strings are
 * unescaped in place, and the end needs no check of its own because a zero byte is never part of
 * a token. A container's node is written when it opens and its span filled in when it closes; the
 * open ones are a small stack of indices, which is also the limit on nesting. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "schemas/json_scan.h"
#include "schemas/utf8.h"

enum {
    PADDING_BYTES = JSON_SCAN_BYTES,
    NODES_AT_FIRST = 48,   /* an ordinary job */
    PAIRWISE_MEMBERS = 16, /* up to here comparing all pairs is cheaper than sorting */
};

/* What is wrong with a field of a well-formed document; told only after the whole of it was read,
 * because malformed JSON comes first and because a path needs the nodes. */
enum fault { FAULT_NONE, FAULT_DUPLICATE_KEY, FAULT_NUL, FAULT_SURROGATE };

struct parser {
    char *text;
    char *at;
    const char *end;
    struct json_node *nodes;
    uint32_t node_count, node_capacity;
    uint32_t open[JSON_DEPTH_MAX];
    uint32_t depth, depth_max;
    enum fault fault;
    uint32_t fault_index;
    struct job_error *error;
};

static bool refuse(struct parser *parser, const char *at, const char *what) {
    error_set(parser->error, ERROR_INVALID_JSON, NULL, "%s at byte %zu", what,
              (size_t)(at - parser->text));
    return false;
}

static bool out_of_memory(struct parser *parser) {
    error_set(parser->error, ERROR_INTERNAL, NULL, "out of memory");
    return false;
}

static void note_fault(struct parser *parser, enum fault fault, uint32_t index) {
    if (parser->fault == FAULT_NONE) {
        parser->fault = fault;
        parser->fault_index = index;
    }
}

/* ---- nodes ---- */

static bool grow_nodes(struct parser *parser) {
    const uint32_t capacity =
        parser->node_capacity == 0 ? NODES_AT_FIRST : parser->node_capacity * 2;
    struct json_node *nodes = realloc(parser->nodes, capacity * sizeof *nodes);
    if (nodes == NULL) {
        return out_of_memory(parser);
    }
    parser->nodes = nodes;
    parser->node_capacity = capacity;
    return true;
}

/* Appends a scalar's or container's node and counts it in the container it stands in. */
static bool add_node(struct parser *parser, enum json_type type, const char *text, size_t size) {
    if (parser->node_count == parser->node_capacity && !grow_nodes(parser)) {
        return false;
    }
    const uint32_t index = parser->node_count++;
    parser->nodes[index] = (struct json_node){text, (uint32_t)size, 1, index, type};
    return true;
}

static void count_in_parent(struct parser *parser) {
    if (parser->depth > 0) {
        parser->nodes[parser->open[parser->depth - 1]].size++;
    }
}

/* ---- scalars ---- */

static void skip_space(struct parser *parser) {
    while (*parser->at == ' ' || *parser->at == '\n' || *parser->at == '\r' ||
           *parser->at == '\t') {
        parser->at++;
    }
}

/* The first byte that a string cannot simply contain: a quote, a backslash, a control character. */
static char *skip_plain(char *at) {
    size_t plain;
    do {
        plain = json_scan_plain(at);
        at += plain;
    } while (plain == JSON_SCAN_BYTES);
    return at;
}

/* The value of four hexadecimal digits, or -1. */
static int32_t read_hex4(const char *at) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        int32_t digit;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (c | 0x20) - 'a' + 10;
        } else {
            return -1; /* also at the closing zero, so nothing behind it is read */
        }
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *out, uint32_t code_point) {
    if (code_point < 0x80) {
        *out++ = (char)code_point;
    } else if (code_point < 0x800) {
        *out++ = (char)(0xC0 | code_point >> 6);
        *out++ = (char)(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        *out++ = (char)(0xE0 | code_point >> 12);
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code_point & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code_point >> 18);
        *out++ = (char)(0x80 | (code_point >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code_point & 0x3F));
    }
    return out;
}

/* Reads \uXXXX, or a pair of them, at `in` (the backslash); gives what follows, NULL if bad. */
static char *unescape_unicode(struct parser *parser, char *in, char **out) {
    const int32_t unit = read_hex4(in + 2);
    if (unit < 0) {
        refuse(parser, in, "a \\u without four hexadecimal digits");
        return NULL;
    }
    char *rest = in + 6;
    uint32_t code_point = (uint32_t)unit;
    if (unit >= 0xD800 && unit <= 0xDFFF) {
        const bool low_follows = unit < 0xDC00 && rest[0] == '\\' && rest[1] == 'u';
        const int32_t low = low_follows ? read_hex4(rest + 2) : -1;
        if (low >= 0xDC00 && low <= 0xDFFF) {
            code_point = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
            rest += 6;
        } else {
            note_fault(parser, FAULT_SURROGATE, parser->node_count - 1);
            code_point = 0xFFFD;
        }
    } else if (unit == 0) {
        note_fault(parser, FAULT_NUL, parser->node_count - 1);
    }
    *out = put_utf8(*out, code_point);
    return rest;
}

static char *unescape(struct parser *parser, char *in, char **out) {
    char c;
    switch (in[1]) {
    case 'u': return unescape_unicode(parser, in, out);
    case 'n': c = '\n'; break;
    case 't': c = '\t'; break;
    case 'r': c = '\r'; break;
    case 'b': c = '\b'; break;
    case 'f': c = '\f'; break;
    case '"':
    case '\\':
    case '/': c = in[1]; break;
    default: refuse(parser, in, "an unknown escape"); return NULL;
    }
    *(*out)++ = c;
    return in + 2;
}

/* At the opening quote. The unescaped text is never longer than what it came from, and its NUL
 * falls on the closing quote or before it. */
static bool parse_string(struct parser *parser) {
    char *const start = parser->at + 1;
    if (!add_node(parser, JSON_STRING, start, 0)) {
        return false;
    }
    char *in = skip_plain(start);
    char *out = in;
    while (*in != '"') {
        if (*in != '\\') {
            return refuse(parser, in,
                          in == parser->end ? "an unclosed string"
                                            : "a control character in a string");
        }
        in = unescape(parser, in, &out);
        if (in == NULL) {
            return false;
        }
        char *const run_end = skip_plain(in);
        memmove(out, in, (size_t)(run_end - in));
        out += run_end - in;
        in = run_end;
    }
    *out = '\0';
    parser->nodes[parser->node_count - 1].size = (uint32_t)(out - start);
    parser->at = in + 1;
    return true;
}

/* True if there was at least one digit. */
static bool skip_digits(struct parser *parser) {
    const char *start = parser->at;
    while (*parser->at >= '0' && *parser->at <= '9') {
        parser->at++;
    }
    return parser->at != start;
}

static bool parse_number(struct parser *parser) {
    const char *start = parser->at;
    parser->at += *parser->at == '-';
    if (*parser->at == '0') {
        parser->at++; /* nothing may follow a leading zero; a digit there is refused later */
    } else if (!skip_digits(parser)) {
        return refuse(parser, start, "a minus sign without a number");
    }
    if (*parser->at == '.') {
        parser->at++;
        if (!skip_digits(parser)) {
            return refuse(parser, start, "a number without digits after its point");
        }
    }
    if (*parser->at == 'e' || *parser->at == 'E') {
        parser->at++;
        parser->at += *parser->at == '+' || *parser->at == '-';
        if (!skip_digits(parser)) {
            return refuse(parser, start, "a number without digits in its exponent");
        }
    }
    return add_node(parser, JSON_NUMBER, start, (size_t)(parser->at - start));
}

static bool parse_word(struct parser *parser, const char *word, enum json_type type, size_t size) {
    const size_t length = strlen(word);
    if (strncmp(parser->at, word, length) != 0) {
        return refuse(parser, parser->at, "an unknown word");
    }
    parser->at += length;
    return add_node(parser, type, NULL, size);
}

/* ---- containers ---- */

static bool keys_equal(const struct json_node *a, const struct json_node *b) {
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* Orders keys by size, bytes, place: of equal ones the later comes later. */
static int compare_keys(const void *left, const void *right) {
    const struct json_node *a = *(const struct json_node *const *)left;
    const struct json_node *b = *(const struct json_node *const *)right;
    if (a->size != b->size) {
        return a->size < b->size ? -1 : 1;
    }
    const int order = memcmp(a->text, b->text, a->size);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static void list_keys(const struct json_node *object, const struct json_node **keys) {
    const struct json_node *value = json_first(object);
    for (uint32_t i = 0; i < object->size; i++) {
        keys[i] = json_key(value);
        value = json_next(object, value);
    }
}

/* Sorting keeps an object of a hundred thousand keys from costing their square. */
static bool check_keys(struct parser *parser, const struct json_node *object) {
    const struct json_node *few[PAIRWISE_MEMBERS];
    if (object->size <= PAIRWISE_MEMBERS) {
        list_keys(object, few);
        for (uint32_t i = 1; i < object->size; i++) {
            for (uint32_t j = 0; j < i; j++) {
                if (keys_equal(few[i], few[j])) {
                    note_fault(parser, FAULT_DUPLICATE_KEY, few[i]->index);
                }
            }
        }
        return true;
    }
    const struct json_node **keys = malloc(object->size * sizeof *keys);
    if (keys == NULL) {
        return out_of_memory(parser);
    }
    list_keys(object, keys);
    qsort(keys, object->size, sizeof *keys, compare_keys);
    for (uint32_t i = 1; i < object->size; i++) {
        if (keys_equal(keys[i - 1], keys[i])) {
            note_fault(parser, FAULT_DUPLICATE_KEY, keys[i]->index);
        }
    }
    free(keys);
    return true;
}

static bool open_container(struct parser *parser, enum json_type type) {
    if (parser->depth == parser->depth_max) {
        error_set(parser->error, ERROR_INVALID_JSON, NULL,
                  "nested more than %u levels deep at byte %zu", parser->depth_max,
                  (size_t)(parser->at - parser->text));
        return false;
    }
    if (!add_node(parser, type, NULL, 0)) {
        return false;
    }
    parser->open[parser->depth++] = parser->node_count - 1;
    parser->at++;
    skip_space(parser);
    return true;
}

static bool close_container(struct parser *parser) {
    struct json_node *node = &parser->nodes[parser->open[--parser->depth]];
    node->span = parser->node_count - node->index;
    parser->at++;
    return node->type == JSON_ARRAY || check_keys(parser, node);
}

static bool parse_key(struct parser *parser) {
    skip_space(parser);
    if (*parser->at != '"') {
        return refuse(parser, parser->at, "no key where one must stand,");
    }
    if (!parse_string(parser)) {
        return false;
    }
    skip_space(parser);
    if (*parser->at != ':') {
        return refuse(parser, parser->at, "no colon after a key,");
    }
    parser->at++;
    return true;
}

/* ---- the document ---- */

/* Reads a scalar or opens a container. *entered: a container was opened and is not empty, so a
 * value (of an array) or a key (of an object) must come next. */
static bool parse_value(struct parser *parser, bool *entered) {
    *entered = false;
    skip_space(parser);
    count_in_parent(parser);
    switch (*parser->at) {
    case '"': return parse_string(parser);
    case 't': return parse_word(parser, "true", JSON_BOOL, 1);
    case 'f': return parse_word(parser, "false", JSON_BOOL, 0);
    case 'n': return parse_word(parser, "null", JSON_NULL, 0);
    case '{':
    case '[': {
        const bool object = *parser->at == '{';
        if (!open_container(parser, object ? JSON_OBJECT : JSON_ARRAY)) {
            return false;
        }
        *entered = *parser->at != (object ? '}' : ']');
        return *entered || close_container(parser);
    }
    default:
        if (*parser->at == '-' || (*parser->at >= '0' && *parser->at <= '9')) {
            return parse_number(parser);
        }
        return refuse(parser, parser->at, "no value where one must stand,");
    }
}

/* After a value: closes what closes here. *more: a comma says that another value follows. */
static bool parse_ends(struct parser *parser, bool *more) {
    *more = false;
    while (parser->depth > 0) {
        const bool object = parser->nodes[parser->open[parser->depth - 1]].type == JSON_OBJECT;
        skip_space(parser);
        if (*parser->at == ',') {
            parser->at++;
            *more = true;
            return true;
        }
        if (*parser->at != (object ? '}' : ']')) {
            return refuse(parser, parser->at,
                          object ? "no comma or } after a member,"
                                 : "no comma or ] after an element,");
        }
        if (!close_container(parser)) {
            return false;
        }
    }
    return true;
}

static bool parse_document(struct parser *parser) {
    bool more = true;
    while (more) {
        const bool in_object =
            parser->depth > 0 && parser->nodes[parser->open[parser->depth - 1]].type == JSON_OBJECT;
        if (in_object && !parse_key(parser)) {
            return false;
        }
        if (!parse_value(parser, &more)) {
            return false;
        }
        if (!more && !parse_ends(parser, &more)) {
            return false;
        }
    }
    skip_space(parser);
    return parser->at == parser->end ||
           refuse(parser, parser->at, "something after the end of the value,");
}

static bool refuse_fault(struct parser *parser) {
    static const char *const reasons[] = {
        [FAULT_DUPLICATE_KEY] = "the key stands twice in its object",
        [FAULT_NUL] = "the character U+0000 is not accepted",
        [FAULT_SURROGATE] = "half of a surrogate pair is not a character",
    };
    json_fail(parser->error, ERROR_INVALID_FIELD, &parser->nodes[parser->fault_index], NULL, "%s",
              reasons[parser->fault]);
    return false;
}

static enum error_code check_bytes(const void *bytes, size_t size, const struct json_limits *limits,
                                   struct job_error *error) {
    size_t bad_at = 0;
    if (size > limits->bytes_max) {
        return error_set(error, ERROR_TOO_LARGE, NULL, "%zu bytes where at most %zu are accepted",
                         size, limits->bytes_max);
    }
    if (!utf8_is_valid(bytes, size, &bad_at)) {
        return error_set(error, ERROR_INVALID_UTF8, NULL, "not UTF-8 at byte %zu", bad_at);
    }
    return ERROR_NONE;
}

enum error_code json_parse(struct json *json, const void *bytes, size_t size,
                           const struct json_limits *limits, struct job_error *error) {
    assert(limits->bytes_max <= JSON_BYTES_MAX && limits->depth_max <= JSON_DEPTH_MAX);
    *json = (struct json){0};
    error->code = ERROR_NONE;
    if (check_bytes(bytes, size, limits, error) != ERROR_NONE) {
        return error->code;
    }
    char *text = malloc(size + PADDING_BYTES);
    if (text == NULL) {
        return error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    }
    if (size > 0) {
        memcpy(text, bytes, size);
    }
    memset(text + size, 0, PADDING_BYTES);

    struct parser parser = {.text = text,
                            .at = text,
                            .end = text + size,
                            .depth_max = limits->depth_max,
                            .error = error};
    const bool read = parse_document(&parser) &&
                      (parser.fault == FAULT_NONE || limits->tolerant || refuse_fault(&parser));
    *json = (struct json){text, parser.nodes, parser.node_count};
    if (!read) {
        json_deinit(json);
        return error->code;
    }
    return ERROR_NONE;
}
