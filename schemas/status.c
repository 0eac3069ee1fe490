#include "schemas/status.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json_writer.h"
#include "schemas/result.h"
#include "schemas/utf8.h"

#define STATUS_STATE_COUNT (STATUS_CANCELLED + 1)

static const char *const state_names[STATUS_STATE_COUNT] = {
    [STATUS_UNKNOWN] = "unknown",    [STATUS_QUEUED] = "queued", [STATUS_RUNNING] = "running",
    [STATUS_DONE] = "done",          [STATUS_FAILED] = "failed", [STATUS_EXPIRED] = "expired",
    [STATUS_CANCELLED] = "cancelled"};

const char *status_state_name(enum status_state state) {
    assert(state < STATUS_STATE_COUNT);
    return state_names[state];
}

static bool equals(const char *text, size_t size, const char *name) {
    return size == strlen(name) && memcmp(text, name, size) == 0;
}

bool status_state_parse(const char *name, size_t size, enum status_state *out) {
    for (unsigned state = STATUS_QUEUED; state < STATUS_STATE_COUNT; state++) {
        if (equals(name, size, state_names[state])) {
            *out = (enum status_state)state;
            return true;
        }
    }
    return false;
}

bool status_state_is_terminal(enum status_state state) {
    return state >= STATUS_DONE;
}

void status_init(struct status *status, const char *request_id) {
    *status = (struct status){.attempt = -1,
                              .deaths = -1,
                              .queued_at = -1,
                              .started_at = -1,
                              .finished_at = -1,
                              .prompt_tokens = -1,
                              .completion_tokens = -1,
                              .result_partition = -1,
                              .result_offset = -1};
    snprintf(status->request_id, sizeof status->request_id, "%s", request_id);
}

void status_deinit(struct status *status) {
    free(status->worker);
    free(status->text);
    free(status->error_code);
    free(status->error_message);
    free(status->result);
    free(status->result_topic);
    *status = (struct status){0};
}

/* ---- the fields ---- */

/* One line a field that clients see, in the order in which they see them. Exactly one of number,
 * text and json is not NULL. */
struct field {
    const char *name;
    int64_t *number; /* decimal, >= 0 */
    char **text;     /* UTF-8 without NUL */
    char **json;     /* a JSON object */
};

enum {
    FIELD_COUNT = 15,
};

static void list_fields(struct status *s, struct field fields[FIELD_COUNT]) {
    const struct field list[FIELD_COUNT] = {
        {STATUS_FIELD_ATTEMPT, .number = &s->attempt},
        {STATUS_FIELD_DEATHS, .number = &s->deaths},
        {STATUS_FIELD_WORKER, .text = &s->worker},
        {STATUS_FIELD_QUEUED_AT, .number = &s->queued_at},
        {STATUS_FIELD_STARTED_AT, .number = &s->started_at},
        {STATUS_FIELD_FINISHED_AT, .number = &s->finished_at},
        {STATUS_FIELD_PROMPT_TOKENS, .number = &s->prompt_tokens},
        {STATUS_FIELD_COMPLETION_TOKENS, .number = &s->completion_tokens},
        {STATUS_FIELD_TEXT, .text = &s->text},
        {STATUS_FIELD_ERROR_CODE, .text = &s->error_code},
        {STATUS_FIELD_ERROR_MESSAGE, .text = &s->error_message},
        {STATUS_FIELD_RESULT, .json = &s->result},
        {STATUS_FIELD_RESULT_TOPIC, .text = &s->result_topic},
        {STATUS_FIELD_RESULT_PARTITION, .number = &s->result_partition},
        {STATUS_FIELD_RESULT_OFFSET, .number = &s->result_offset}};
    memcpy(fields, list, sizeof list);
}

static bool set_number(int64_t *out, const char *value, size_t size) {
    int64_t number = 0;
    if (size == 0 || size > 18) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (value[i] < '0' || value[i] > '9') {
            return false;
        }
        number = number * 10 + (value[i] - '0');
    }
    *out = number;
    return true;
}

static bool set_text(char **out, const char *value, size_t size) {
    if (memchr(value, '\0', size) != NULL || !utf8_is_valid(value, size, NULL)) {
        return false;
    }
    char *copy = strndup(value, size);
    if (copy == NULL) {
        return false;
    }
    free(*out); /* a field that comes again, from a later reading, replaces what was there */
    *out = copy;
    return true;
}

/* Checked here, so that status_encode can embed it as it stands. */
static bool set_json(char **out, const char *value, size_t size) {
    const struct json_limits limits = {.bytes_max = RESULT_VALUE_BYTES_MAX,
                                       .depth_max = RESULT_DEPTH_MAX};
    struct json json;
    struct job_error ignored;
    if (json_parse(&json, value, size, &limits, &ignored) != ERROR_NONE) {
        return false;
    }
    const bool object = json.nodes->type == JSON_OBJECT;
    json_deinit(&json);
    return object && set_text(out, value, size);
}

bool status_set_field(struct status *status, const char *name, size_t name_size, const char *value,
                      size_t value_size) {
    if (equals(name, name_size, STATUS_FIELD_STATE)) {
        return status_state_parse(value, value_size, &status->state);
    }
    if (equals(name, name_size, STATUS_FIELD_FINGERPRINT)) {
        const bool fits = value_size < sizeof status->fingerprint;
        memcpy(status->fingerprint, value, fits ? value_size : 0);
        status->fingerprint[fits ? value_size : 0] = '\0';
        return true;
    }
    if (equals(name, name_size, STATUS_FIELD_CANCEL_REQUESTED)) {
        status->cancel_requested = true; /* whatever stands there */
        return true;
    }
    struct field fields[FIELD_COUNT];
    list_fields(status, fields);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &fields[i];
        if (!equals(name, name_size, field->name)) {
            continue;
        }
        if (field->number != NULL) {
            return set_number(field->number, value, value_size);
        }
        return field->text != NULL ? set_text(field->text, value, value_size)
                                   : set_json(field->json, value, value_size);
    }
    return true;
}

static void forget(char **text) {
    free(*text);
    *text = NULL;
}

void status_hide_sealed(struct status *status) {
    if (status_state_is_terminal(status->state)) {
        return;
    }
    status->finished_at = status->result_partition = status->result_offset = -1;
    forget(&status->error_code);
    forget(&status->error_message);
    forget(&status->result);
    forget(&status->result_topic);
}

static void put_field(struct json_writer *writer, const struct field *field) {
    if (field->number != NULL && *field->number >= 0) {
        json_writer_key(writer, field->name);
        json_writer_int(writer, *field->number);
    } else if (field->text != NULL && *field->text != NULL) {
        json_writer_key(writer, field->name);
        json_writer_string(writer, *field->text);
    } else if (field->json != NULL && *field->json != NULL) {
        json_writer_key(writer, field->name);
        json_writer_raw(writer, *field->json);
    }
}

char *status_encode(const struct status *status) {
    struct status view = *status; /* list_fields points into it; nothing is changed or freed */
    struct field fields[FIELD_COUNT];
    struct json_writer writer;
    list_fields(&view, fields);
    json_writer_init(&writer, 0);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "request_id");
    json_writer_string(&writer, status->request_id);
    json_writer_key(&writer, STATUS_FIELD_STATE);
    json_writer_string(&writer, status_state_name(status->state));
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        put_field(&writer, &fields[i]);
    }
    if (status->cancel_requested) {
        json_writer_key(&writer, STATUS_FIELD_CANCEL_REQUESTED);
        json_writer_bool(&writer, true);
    }
    json_writer_end_object(&writer);
    return json_writer_finish(&writer, NULL);
}

/* ---- names of keys ---- */

static bool join(char *out, size_t out_bytes, const char *prefix, const char *kind,
                 const char *request_id) {
    const int length = snprintf(out, out_bytes, "%s%s:{%s}", prefix, kind, request_id);
    return length >= 0 && (size_t)length < out_bytes;
}

bool status_key(char *out, size_t out_bytes, const char *prefix, const char *request_id) {
    return join(out, out_bytes, prefix, "job", request_id);
}

bool status_control_channel(char *out, size_t out_bytes, const char *prefix) {
    int length = snprintf(out, out_bytes, "%scontrol", prefix);
    return length >= 0 && (size_t)length < out_bytes;
}

bool status_channel(char *out, size_t out_bytes, const char *prefix, const char *request_id) {
    return join(out, out_bytes, prefix, "events", request_id);
}
