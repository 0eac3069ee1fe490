#include "consumer/config_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config.h"
#include "schemas/json.h"

static char *config_file_load(const char *path, size_t *size, char *err, size_t err_bytes) {
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(CONFIG_FILE_BYTES_MAX + 1);
    if (file != NULL && bytes != NULL) {
        *size = fread(bytes, 1, CONFIG_FILE_BYTES_MAX + 1, file);
    }
    bool failed = file == NULL || bytes == NULL || ferror(file) != 0;
    if (failed) {
        snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
        free(bytes);
        bytes = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

/* The value as the text that a flag would have. False when it has no such form. */
static bool config_file_text(const struct json_node *value, char *out, size_t out_bytes) {
    switch (value->type) {
    case JSON_BOOL:
        return (size_t)snprintf(out, out_bytes, "%s", value->size ? "true" : "false") < out_bytes;
    case JSON_STRING:
    case JSON_NUMBER:
        return (size_t)snprintf(out, out_bytes, "%.*s", (int)value->size, value->text) < out_bytes;
    default: return false;
    }
}

static bool config_file_list(const struct json_node *array, char *out, size_t out_bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (const struct json_node *item = json_first(array); item != NULL;
         item = json_next(array, item)) {
        if (item->type != JSON_STRING || used + item->size + 2 > out_bytes) {
            return false;
        }
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%.*s", used > 0 ? "," : "",
                                 (int)item->size, item->text);
    }
    return true;
}

static bool config_file_take_all(const char *path, const struct json_node *root,
                                 config_file_taker *take, void *context, char *err,
                                 size_t err_bytes) {
    char text[4096];
    for (const struct json_node *value = json_first(root); value != NULL;
         value = json_next(root, value)) {
        const char *name = json_key(value)->text;
        bool readable = value->type == JSON_ARRAY ? config_file_list(value, text, sizeof text)
                                                  : config_file_text(value, text, sizeof text);
        if (!readable) {
            snprintf(err, err_bytes,
                     "%s: %.64s must be a string, number, boolean or array of strings", path, name);
            return false;
        }
        if (!take(context, name, text)) {
            return false;
        }
    }
    return true;
}

bool config_file_read(const char *path, config_file_taker *take, void *context, char *err,
                      size_t err_bytes) {
    size_t size = 0;
    char *bytes = config_file_load(path, &size, err, err_bytes);
    if (bytes == NULL) {
        return false;
    }
    struct json json;
    struct job_error error = {0};
    struct json_limits limits = {.bytes_max = CONFIG_FILE_BYTES_MAX, .depth_max = 4};
    bool read = json_parse(&json, bytes, size, &limits, &error) == ERROR_NONE;
    free(bytes);
    if (!read) {
        snprintf(err, err_bytes, "%s: %s%s%s", path, error.field, error.field[0] ? " " : "",
                 error.message);
        return false;
    }
    if (json.nodes[0].type != JSON_OBJECT) {
        snprintf(err, err_bytes, "%s: must hold one JSON object", path);
        read = false;
    } else {
        read = config_file_take_all(path, &json.nodes[0], take, context, err, err_bytes);
    }
    json_deinit(&json);
    return read;
}
