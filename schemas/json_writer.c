#include "schemas/json_writer.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY_AT_FIRST = 256,
    NUMBER_BYTES_MAX = 32,
};

void json_writer_init(struct json_writer *writer, size_t capacity) {
    *writer = (struct json_writer){.capacity =
                                       capacity > CAPACITY_AT_FIRST ? capacity : CAPACITY_AT_FIRST};
}

char *json_writer_finish(struct json_writer *writer, size_t *size) {
    char *text = NULL;
    assert(writer->failed || (writer->root != NULL && writer->depth == 0));
    if (!writer->failed && writer->capacity <= INT_MAX) {
        text = cJSON_PrintBuffered(writer->root, (int)writer->capacity, false);
    }
    if (text != NULL && size != NULL) {
        *size = strlen(text);
    }
    cJSON_Delete(writer->root);
    *writer = (struct json_writer){0};
    return text;
}

/* ---- structure ---- */

/* Puts an item where the next value stands; NULL is an item that memory did not suffice for. False
 * when it did not, now or before. */
static bool add(struct json_writer *writer, cJSON *item) {
    bool added = item != NULL && !writer->failed;
    if (added && writer->depth == 0) {
        assert(writer->root == NULL);
        writer->root = item;
    } else if (added) {
        cJSON *container = writer->open[writer->depth - 1];
        assert(cJSON_IsObject(container) == (writer->key != NULL));
        added = writer->key != NULL ? cJSON_AddItemToObject(container, writer->key, item)
                                    : cJSON_AddItemToArray(container, item);
    }
    if (!added) {
        cJSON_Delete(item);
        writer->failed = true;
    }
    writer->key = NULL;
    return added;
}

static void begin(struct json_writer *writer, cJSON *container) {
    if (add(writer, container)) {
        assert(writer->depth < JSON_WRITER_DEPTH_MAX);
        writer->open[writer->depth++] = container;
    }
}

static void end(struct json_writer *writer) {
    if (!writer->failed) {
        assert(writer->depth > 0 && writer->key == NULL);
        writer->depth--;
    }
}

void json_writer_begin_object(struct json_writer *writer) {
    begin(writer, cJSON_CreateObject());
}

void json_writer_end_object(struct json_writer *writer) {
    end(writer);
}

void json_writer_begin_array(struct json_writer *writer) {
    begin(writer, cJSON_CreateArray());
}

void json_writer_end_array(struct json_writer *writer) {
    end(writer);
}

void json_writer_key(struct json_writer *writer, const char *key) {
    writer->key = key;
}

/* ---- values ---- */

void json_writer_null(struct json_writer *writer) {
    add(writer, cJSON_CreateNull());
}

void json_writer_bool(struct json_writer *writer, bool value) {
    add(writer, cJSON_CreateBool(value));
}

void json_writer_string(struct json_writer *writer, const char *text) {
    add(writer, text == NULL ? cJSON_CreateNull() : cJSON_CreateString(text));
}

void json_writer_raw(struct json_writer *writer, const char *json) {
    add(writer, json == NULL ? cJSON_CreateNull() : cJSON_CreateRaw(json));
}

/* Numbers are written here: cJSON's are doubles, which lose digits of integers, and it prints a
 * float's 0.7 as 0.69999998807907104. */
void json_writer_int(struct json_writer *writer, int64_t value) {
    char text[NUMBER_BYTES_MAX];
    snprintf(text, sizeof text, "%" PRId64, value);
    json_writer_raw(writer, text);
}

void json_writer_uint(struct json_writer *writer, uint64_t value) {
    char text[NUMBER_BYTES_MAX];
    snprintf(text, sizeof text, "%" PRIu64, value);
    json_writer_raw(writer, text);
}

static void put_real(struct json_writer *writer, double value, bool is_float) {
    if (!isfinite(value)) {
        json_writer_null(writer);
        return;
    }
    char text[NUMBER_BYTES_MAX];
    bool same = false;
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
    switch (node->type) {
    case JSON_NULL: json_writer_null(writer); return;
    case JSON_BOOL: json_writer_bool(writer, node->size != 0); return;
    case JSON_NUMBER: json_writer_raw(writer, node->text); return;
    case JSON_STRING: json_writer_string(writer, node->text); return;
    case JSON_ARRAY: json_writer_begin_array(writer); break;
    case JSON_OBJECT: json_writer_begin_object(writer); break;
    }
    for (const struct json_node *value = json_first(node); value != NULL;
         value = json_next(node, value)) {
        if (node->type == JSON_OBJECT) {
            json_writer_key(writer, json_key(value)->text);
        }
        json_writer_node(writer, value);
    }
    end(writer);
}
