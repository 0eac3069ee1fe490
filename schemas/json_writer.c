#include "schemas/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json_scan.h"

enum {
    CAPACITY_AT_FIRST = 256,
    NUMBER_BYTES_MAX = 32,
};

/* ---- the buffer ---- */

static bool grow(struct json_writer *writer, size_t needed) {
    size_t capacity = writer->capacity < CAPACITY_AT_FIRST ? CAPACITY_AT_FIRST : writer->capacity;
    while (capacity - writer->size < needed) {
        capacity *= 2;
    }
    char *text = writer->failed ? NULL : realloc(writer->text, capacity);
    if (text == NULL) {
        writer->failed = true;
        return false;
    }
    writer->text = text;
    writer->capacity = capacity;
    return true;
}

/* Room for `bytes`, not yet counted; NULL when memory ran out. */
static char *reserve(struct json_writer *writer, size_t bytes) {
    if (writer->capacity - writer->size < bytes && !grow(writer, bytes)) {
        return NULL;
    }
    return writer->text + writer->size;
}

static void put(struct json_writer *writer, const char *bytes, size_t size) {
    char *out = reserve(writer, size);
    if (out != NULL) {
        memcpy(out, bytes, size);
        writer->size += size;
    }
}

void json_writer_init(struct json_writer *writer, size_t capacity) {
    *writer = (struct json_writer){0};
    if (capacity > 0) {
        (void)reserve(writer, capacity);
    }
}

char *json_writer_finish(struct json_writer *writer, size_t *size) {
    put(writer, "", 1);
    char *text = writer->text;
    if (writer->failed) {
        free(text);
        text = NULL;
    } else if (size != NULL) {
        *size = writer->size - 1;
    }
    *writer = (struct json_writer){0};
    return text;
}

/* ---- structure ---- */

/* Before a key or an element. */
static void separate(struct json_writer *writer) {
    if (writer->comma) {
        put(writer, ",", 1);
    }
    writer->comma = true;
}

static void begin(struct json_writer *writer, char bracket) {
    separate(writer);
    put(writer, &bracket, 1);
    writer->comma = false;
}

static void end(struct json_writer *writer, char bracket) {
    put(writer, &bracket, 1);
    writer->comma = true;
}

void json_writer_begin_object(struct json_writer *writer) {
    begin(writer, '{');
}

void json_writer_end_object(struct json_writer *writer) {
    end(writer, '}');
}

void json_writer_begin_array(struct json_writer *writer) {
    begin(writer, '[');
}

void json_writer_end_array(struct json_writer *writer) {
    end(writer, ']');
}

/* ---- strings ---- */

static bool must_escape(char c) {
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

static void put_escape(struct json_writer *writer, char c) {
    static const char short_names[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    static const char digits[] = "0123456789abcdef";
    const char name = (unsigned char)c < 0x20 ? short_names[(unsigned char)c] : c;
    if (name != 0) {
        put(writer, (char[]){'\\', name}, 2);
    } else {
        put(writer, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
    }
}

/* How much of the text can stand as it is. */
static size_t plain_length(const char *text, size_t size) {
    size_t length = 0;
    while (size - length >= JSON_SCAN_BYTES) {
        const size_t plain = json_scan_plain(text + length);
        length += plain;
        if (plain < JSON_SCAN_BYTES) {
            return length;
        }
    }
    while (length < size && !must_escape(text[length])) {
        length++;
    }
    return length;
}

static void put_quoted(struct json_writer *writer, const char *text, size_t size) {
    put(writer, "\"", 1);
    for (;;) {
        const size_t plain = plain_length(text, size);
        put(writer, text, plain);
        if (plain == size) {
            break;
        }
        put_escape(writer, text[plain]);
        text += plain + 1;
        size -= plain + 1;
    }
    put(writer, "\"", 1);
}

static void put_key(struct json_writer *writer, const char *key, size_t size) {
    separate(writer);
    put_quoted(writer, key, size);
    put(writer, ":", 1);
    writer->comma = false;
}

void json_writer_key(struct json_writer *writer, const char *key) {
    put_key(writer, key, strlen(key));
}

void json_writer_string(struct json_writer *writer, const char *text) {
    if (text == NULL) {
        json_writer_null(writer);
        return;
    }
    separate(writer);
    put_quoted(writer, text, strlen(text));
}

void json_writer_raw(struct json_writer *writer, const char *json) {
    separate(writer);
    put(writer, json == NULL ? "null" : json, json == NULL ? 4 : strlen(json));
}

void json_writer_null(struct json_writer *writer) {
    json_writer_raw(writer, "null");
}

void json_writer_bool(struct json_writer *writer, bool value) {
    json_writer_raw(writer, value ? "true" : "false");
}

/* ---- numbers ---- */

static void put_integer(struct json_writer *writer, bool negative, uint64_t magnitude) {
    char digits[NUMBER_BYTES_MAX];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative) {
        *--at = '-';
    }
    separate(writer);
    put(writer, at, (size_t)(digits + sizeof digits - at));
}

void json_writer_int(struct json_writer *writer, int64_t value) {
    put_integer(writer, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_writer_uint(struct json_writer *writer, uint64_t value) {
    put_integer(writer, false, value);
}

/* Writes value as digits with up to four decimals when that is exact, which covers almost every
 * parameter a person gives and costs no printf. Below 10^7 a decimal of so few digits is far from
 * the middle between two floats, so readers of floats and readers of doubles agree on it. */
static bool put_plain_float(struct json_writer *writer, float value) {
    static const double scales[] = {1, 10, 100, 1000, 10000};
    const double magnitude = fabs((double)value);
    if (!(magnitude < 1000.0)) {
        return false;
    }
    for (unsigned decimals = 0; decimals < 5; decimals++) {
        const double whole = rint(magnitude * scales[decimals]);
        if ((float)(whole / scales[decimals]) != (float)magnitude) {
            continue;
        }
        char text[NUMBER_BYTES_MAX];
        char *at = text + sizeof text;
        uint32_t rest = (uint32_t)whole;
        for (unsigned i = 0; i < decimals; i++, rest /= 10) {
            *--at = (char)('0' + rest % 10);
        }
        if (decimals > 0) {
            *--at = '.';
        }
        do {
            *--at = (char)('0' + rest % 10);
            rest /= 10;
        } while (rest > 0);
        if (value < 0) {
            *--at = '-';
        }
        separate(writer);
        put(writer, at, (size_t)(text + sizeof text - at));
        return true;
    }
    return false;
}

void json_writer_float(struct json_writer *writer, float value) {
    if (!isfinite(value)) {
        json_writer_null(writer);
        return;
    }
    if (put_plain_float(writer, value)) {
        return;
    }
    char text[NUMBER_BYTES_MAX];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) {
            break;
        }
    }
    json_writer_raw(writer, text);
}

void json_writer_double(struct json_writer *writer, double value) {
    if (!isfinite(value)) {
        json_writer_null(writer);
        return;
    }
    char text[NUMBER_BYTES_MAX];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    json_writer_raw(writer, text);
}

/* ---- parsed values ---- */

/* Recursion is bounded by JSON_DEPTH_MAX: the parser lets nothing deeper through. */
static void put_content(struct json_writer *writer, const struct json_node *container) {
    for (const struct json_node *value = json_first(container); value != NULL;
         value = json_next(container, value)) {
        if (container->type == JSON_OBJECT) {
            put_key(writer, json_key(value)->text, json_key(value)->size);
        }
        json_writer_node(writer, value);
    }
}

void json_writer_node(struct json_writer *writer, const struct json_node *node) {
    switch (node->type) {
    case JSON_NULL: json_writer_null(writer); break;
    case JSON_BOOL: json_writer_bool(writer, node->size != 0); break;
    case JSON_NUMBER:
        separate(writer);
        put(writer, node->text, node->size);
        break;
    case JSON_STRING:
        separate(writer);
        put_quoted(writer, node->text, node->size);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT: {
        const bool object = node->type == JSON_OBJECT;
        begin(writer, object ? '{' : '[');
        put_content(writer, node);
        end(writer, object ? '}' : ']');
        break;
    }
    }
}
