#include "schemas/json_writer.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY_AT_FIRST = 256,
    NUMBER_BYTES_MAX = 32,
    ESCAPE_BYTES_MAX = 6,   /* \u001f */
    STRING_BYTES_SPARE = 8, /* quotes, the NUL, and what cJSON wants to have left */
};

void json_writer_init(struct json_writer *writer, size_t capacity) {
    *writer = (struct json_writer){.capacity =
                                       capacity > CAPACITY_AT_FIRST ? capacity : CAPACITY_AT_FIRST};
}

/* Room for `bytes` more; NULL when memory ran out, now or before. */
static char *reserve(struct json_writer *writer, size_t bytes) {
    if (writer->failed) {
        return NULL;
    }
    const size_t needed = writer->size + bytes;
    if (writer->text == NULL || needed > writer->capacity) {
        const size_t capacity = needed > writer->capacity ? 2 * needed : writer->capacity;
        char *text = realloc(writer->text, capacity);
        if (text == NULL) {
            writer->failed = true;
            return NULL;
        }
        writer->text = text;
        writer->capacity = capacity;
    }
    return writer->text + writer->size;
}

static void put(struct json_writer *writer, const char *bytes, size_t count) {
    char *out = reserve(writer, count);
    if (out != NULL) {
        memcpy(out, bytes, count);
        writer->size += count;
    }
}

char *json_writer_finish(struct json_writer *writer, size_t *size) {
    assert(writer->failed || (writer->size > 0 && writer->depth == 0));
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

/* What stands between values; every value begins with it. */
static void begin_value(struct json_writer *writer) {
    assert(writer->depth > 0 || writer->size == 0 || writer->failed);
    if (writer->needs_comma) {
        put(writer, ",", 1);
    }
    writer->needs_comma = writer->depth > 0;
}

static void begin(struct json_writer *writer, const char *bracket) {
    begin_value(writer);
    assert(writer->depth < JSON_WRITER_DEPTH_MAX);
    writer->depth++;
    writer->needs_comma = false;
    put(writer, bracket, 1);
}

static void end(struct json_writer *writer, const char *bracket) {
    assert(writer->depth > 0);
    writer->depth--;
    writer->needs_comma = writer->depth > 0;
    put(writer, bracket, 1);
}

void json_writer_begin_object(struct json_writer *writer) {
    begin(writer, "{");
}

void json_writer_end_object(struct json_writer *writer) {
    end(writer, "}");
}

void json_writer_begin_array(struct json_writer *writer) {
    begin(writer, "[");
}

void json_writer_end_array(struct json_writer *writer) {
    end(writer, "]");
}

/* ---- strings ---- */

/* False when `room` is too little, or memory ran out. */
static bool print_string(struct json_writer *writer, const char *text, size_t room) {
    cJSON item = {.type = cJSON_String, .valuestring = (char *)(uintptr_t)text}; /* only read */
    char *out = reserve(writer, room);
    if (out == NULL || room > INT_MAX || !cJSON_PrintPreallocated(&item, out, (int)room, false)) {
        return false;
    }
    writer->size += strlen(out);
    return true;
}

static void put_string(struct json_writer *writer, const char *text) {
    const size_t bytes = strlen(text);
    if (!print_string(writer, text, bytes + bytes / 8 + STRING_BYTES_SPARE) &&
        !print_string(writer, text, bytes * ESCAPE_BYTES_MAX + STRING_BYTES_SPARE)) {
        writer->failed = true;
    }
}

void json_writer_key(struct json_writer *writer, const char *key) {
    begin_value(writer);
    put_string(writer, key);
    put(writer, ":", 1);
    writer->needs_comma = false;
}

void json_writer_string(struct json_writer *writer, const char *text) {
    if (text == NULL) {
        json_writer_null(writer);
        return;
    }
    begin_value(writer);
    put_string(writer, text);
}

/* ---- other values ---- */

void json_writer_raw(struct json_writer *writer, const char *json) {
    if (json == NULL) {
        json_writer_null(writer);
        return;
    }
    begin_value(writer);
    put(writer, json, strlen(json));
}

void json_writer_null(struct json_writer *writer) {
    json_writer_raw(writer, "null");
}

void json_writer_bool(struct json_writer *writer, bool value) {
    json_writer_raw(writer, value ? "true" : "false");
}

/* Writes the digits in front of `end`; gives where they begin. */
static char *put_digits(char *end, uint64_t value) {
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

void json_writer_int(struct json_writer *writer, int64_t value) {
    char text[NUMBER_BYTES_MAX];
    char *end = text + sizeof text - 1;
    *end = '\0';
    char *at = put_digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    if (value < 0) {
        *--at = '-';
    }
    json_writer_raw(writer, at);
}

void json_writer_uint(struct json_writer *writer, uint64_t value) {
    char text[NUMBER_BYTES_MAX];
    char *end = text + sizeof text - 1;
    *end = '\0';
    json_writer_raw(writer, put_digits(end, value));
}

/* What people give: below ten, up to four places. Such a decimal has fewer digits than any two
 * floats need to be told apart, so that it is the shortest where it reads back. */
static bool write_decimal(double value, bool is_float, char text[NUMBER_BYTES_MAX]) {
    const double size = fabs(value);
    if (!(size < 10)) {
        return false;
    }
    const int scaled = (int)lrint(size * 10000);
    const double back = scaled / 10000.0;
    if (signbit(value) || !(is_float ? (float)back == (float)size : back == size)) {
        return false;
    }
    char *end = text + snprintf(text, NUMBER_BYTES_MAX, "%d.%04d", scaled / 10000, scaled % 10000);
    while (end[-1] == '0') {
        end--;
    }
    end -= end[-1] == '.';
    *end = '\0';
    return true;
}

static void put_real(struct json_writer *writer, double value, bool is_float) {
    if (!isfinite(value)) {
        json_writer_null(writer);
        return;
    }
    char text[NUMBER_BYTES_MAX];
    bool same = write_decimal(value, is_float, text);
    for (int digits = 1; digits <= 17 && !same; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        same = is_float ? (float)back == (float)value : back == value;
    }
    json_writer_raw(writer, text);
}

void json_writer_float(struct json_writer *writer, float value) {
    put_real(writer, (double)value, true);
}

void json_writer_double(struct json_writer *writer, double value) {
    put_real(writer, value, false);
}

/* ---- parsed values ---- */

/* Recursion is bounded by JSON_DEPTH_MAX: the parser lets nothing deeper through. */
void json_writer_node(struct json_writer *writer, const struct json_node *node) {
    const bool is_object = node->type == JSON_OBJECT;
    switch (node->type) {
    case JSON_NULL: json_writer_null(writer); return;
    case JSON_BOOL: json_writer_bool(writer, node->size != 0); return;
    case JSON_NUMBER: json_writer_raw(writer, node->text); return;
    case JSON_STRING: json_writer_string(writer, node->text); return;
    case JSON_ARRAY:
    case JSON_OBJECT: begin(writer, is_object ? "{" : "["); break;
    }
    for (const struct json_node *value = json_first(node); value != NULL;
         value = json_next(node, value)) {
        if (is_object) {
            json_writer_key(writer, json_key(value)->text);
        }
        json_writer_node(writer, value);
    }
    end(writer, is_object ? "}" : "]");
}
