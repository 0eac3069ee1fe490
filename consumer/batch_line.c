#include "consumer/batch_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "schemas/json_writer.h"
#include "schemas/sha256.h"

#define BATCH_LINE_URL "/v1/chat/completions"

static bool batch_line_parse(struct json *json, const char *text, size_t bytes,
                             struct job_error *error) {
    const struct json_limits limits = {BATCH_LINE_BYTES_MAX, JOB_DEPTH_MAX + 2, false};
    return json_parse(json, text, bytes, &limits, error) == ERROR_NONE;
}

enum batch_kind batch_line_detect(const char *text, size_t bytes) {
    struct json json;
    struct job_error ignored;
    if (!batch_line_parse(&json, text, bytes, &ignored)) {
        return BATCH_JOBS;
    }
    const struct json_node *root = json.nodes;
    bool openai = json_member(root, "custom_id") != NULL || json_member(root, "body") != NULL;
    json_deinit(&json);
    return openai ? BATCH_OPENAI : BATCH_JOBS;
}

const char *batch_line_name(const struct batch_line *line) {
    return line->custom_id ? line->custom_id : line->request_id;
}

void batch_line_deinit(struct batch_line *line) {
    free(line->custom_id);
    free(line->value);
    *line = (struct batch_line){0};
}

/* Decodes the record's value as a worker will. */
static enum error_code batch_line_check(struct batch_line *line, struct job_error *error) {
    struct job_limits limits = job_limits_default();
    struct job job;
    if (job_decode(line->value, line->value_bytes, &limits, &job, error) == ERROR_NONE) {
        memcpy(line->request_id, job.request_id, sizeof line->request_id);
        job_deinit(&job);
    }
    return error->code;
}

static enum error_code batch_line_out_of_memory(struct job_error *error) {
    return error_set(error, ERROR_INTERNAL, NULL, "out of memory");
}

/* ---- our jobs -------------------------------------------------------------------------------- */

/* True for an object without an id; *empty says that it has no members at all. */
static bool batch_line_lacks_id(const char *text, size_t bytes, bool *empty) {
    struct json json;
    struct job_error ignored;
    if (!batch_line_parse(&json, text, bytes, &ignored)) {
        return false; /* job_decode will say what is wrong */
    }
    bool lacks = json.nodes->type == JSON_OBJECT && json_member(json.nodes, "request_id") == NULL;
    *empty = json.nodes->size == 0;
    json_deinit(&json);
    return lacks;
}

static enum error_code batch_line_read_job(const char *text, size_t bytes, const char *file_id,
                                           size_t number, struct batch_line *line,
                                           struct job_error *error) {
    bool empty = false;
    if (batch_line_lacks_id(text, bytes, &empty)) {
        const char *brace = memchr(text, '{', bytes);
        size_t skipped = (size_t)(brace - text) + 1;
        int length = asprintf(&line->value, "{\"request_id\":\"batch-%s-%zu\"%s%.*s", file_id,
                              number, empty ? "" : ",", (int)(bytes - skipped), text + skipped);
        if (length < 0) {
            line->value = NULL;
            return batch_line_out_of_memory(error);
        }
        line->value_bytes = (size_t)length;
    } else {
        line->value = malloc(bytes + 1); /* not strndup: a zero byte is refused below, not an end */
        if (!line->value) {
            return batch_line_out_of_memory(error);
        }
        memcpy(line->value, text, bytes);
        line->value[bytes] = '\0';
        line->value_bytes = bytes;
    }
    return batch_line_check(line, error);
}

/* ---- chat bodies ----------------------------------------------------------------------------- */

static void batch_line_refuse_unable(const struct json_node *body, struct job_error *error) {
    static const char *const unable[] = {
        "tools",        "tool_choice",        "functions",   "logit_bias",       "function_call",
        "top_logprobs", "modalities",         "audio",       "prediction",       "stream",
        "logprobs",     "web_search_options", "guided_json", "reasoning_effort", "suffix"};
    for (size_t i = 0; i < sizeof unable / sizeof unable[0]; i++) {
        const struct json_node *node = json_member(body, unable[i]);
        bool idle = node && ((node->type != JSON_STRING && node->type != JSON_NUMBER &&
                              node->size == 0) || /* false, [], {} */
                             (node->type == JSON_STRING && strcmp(node->text, "none") == 0));
        if (node && !idle) {
            json_fail(error, ERROR_INVALID_FIELD, node, NULL, "is not supported");
        }
    }
    if (json_get_int(body, "n", 1, 128, 1, error) != 1) {
        json_fail(error, ERROR_INVALID_FIELD, body, "n", "must be 1: one answer a line");
    }
    const struct json_node *format = json_get_object(body, "response_format", error);
    const struct json_node *type = json_member(format, "type");
    if (type && (type->type != JSON_STRING || strcmp(type->text, "text") != 0)) {
        json_fail(error, ERROR_INVALID_FIELD, type, NULL, "only text is supported");
    }
}

/* Text, or an array of text parts, which follow each other without anything between. */
static void batch_line_put_content(struct json_writer *writer, const struct json_node *content,
                                   struct job_error *error) {
    if (content->type != JSON_ARRAY) {
        json_writer_node(writer, content);
        return;
    }
    char *text = strdup("");
    for (const struct json_node *part = json_first(content); part && error->code == ERROR_NONE;
         part = json_next(content, part)) {
        const struct json_node *type = json_get_string(part, "type", 64, error);
        const struct json_node *piece = json_get_string(part, "text", JSON_BYTES_MAX, error);
        if (!type || strcmp(type->text, "text") != 0 || !piece) {
            json_fail(error, ERROR_INVALID_FIELD, part, NULL, "only parts of text are supported");
            break;
        }
        char *longer = NULL;
        if (!text || asprintf(&longer, "%s%s", text, piece->text) < 0) {
            longer = NULL;
            batch_line_out_of_memory(error);
        }
        free(text);
        text = longer;
    }
    json_writer_string(writer, text ? text : "");
    free(text);
}

static void batch_line_put_message(struct json_writer *writer, const struct json_node *message,
                                   struct job_error *error) {
    json_require(message, "role", error);
    json_require(message, "content", error);
    const struct json_node *role = json_get_string(message, "role", 64, error);
    if (message->type != JSON_OBJECT) {
        json_fail(error, ERROR_INVALID_FIELD, message, NULL, "must be an object");
    }
    if (json_member(message, "tool_calls")) {
        json_fail(error, ERROR_INVALID_FIELD, message, "tool_calls", "is not supported");
    }
    if (error->code != ERROR_NONE) {
        return;
    }
    json_writer_begin_object(writer);
    json_writer_key(writer, "role");
    json_writer_string(writer, strcmp(role->text, "developer") == 0 ? "system" : role->text);
    json_writer_key(writer, "content");
    batch_line_put_content(writer, json_member(message, "content"), error);
    json_writer_end_object(writer);
}

static void batch_line_put_messages(struct json_writer *writer, const struct json_node *body,
                                    struct job_error *error) {
    json_require(body, "messages", error);
    const struct json_node *messages = json_get_array(body, "messages", JOB_MESSAGES_MAX, error);
    json_writer_key(writer, "messages");
    json_writer_begin_array(writer);
    for (const struct json_node *message = messages ? json_first(messages) : NULL;
         message && error->code == ERROR_NONE; message = json_next(messages, message)) {
        batch_line_put_message(writer, message, error);
    }
    json_writer_end_array(writer);
}

static void batch_line_put_params(struct json_writer *writer, const struct json_node *body,
                                  struct job_error *error) {
    static const char *const same[] = {"temperature",
                                       "top_p",
                                       "seed",
                                       "top_k",
                                       "min_p",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "stop_token_ids",
                                       "frequency_penalty"};
    const struct json_node *most = json_member(body, "max_completion_tokens");
    const struct json_node *stop = json_member(body, "stop");
    if (most && json_member(body, "max_tokens")) {
        json_fail(error, ERROR_INVALID_FIELD, body, "max_tokens",
                  "cannot stand beside max_completion_tokens");
    }
    most = most ? most : json_member(body, "max_tokens");
    json_writer_key(writer, "params");
    json_writer_begin_object(writer);
    if (most) {
        json_writer_key(writer, "max_tokens");
        json_writer_node(writer, most);
    }
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        const struct json_node *node = json_member(body, same[i]);
        if (node) {
            json_writer_key(writer, same[i]);
            json_writer_node(writer, node);
        }
    }
    if (stop) {
        json_writer_key(writer, "stop");
        if (stop->type == JSON_STRING) {
            json_writer_begin_array(writer);
            json_writer_node(writer, stop);
            json_writer_end_array(writer);
        } else {
            json_writer_node(writer, stop);
        }
    }
    json_writer_end_object(writer);
}

/* ---- OpenAI lines ---------------------------------------------------------------------------- */

static void batch_line_check_word(const struct json_node *root, const char *name, const char *word,
                                  struct job_error *error) {
    json_require(root, name, error);
    const struct json_node *node = json_get_string(root, name, 1024, error);
    if (node && strcmp(node->text, word) != 0) {
        json_fail(error, ERROR_INVALID_FIELD, node, NULL, "must be %s", word);
    }
}

/* "batch-<file>-<custom id's hash>"; false when memory ran out. */
static bool batch_line_make_id(const char *file_id, const char *custom_id,
                               char request_id[JOB_ID_BYTES_MAX + 1]) {
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    if (!sha256_of(custom_id, strlen(custom_id), digest)) {
        return false;
    }
    sha256_hex(digest, hex);
    snprintf(request_id, JOB_ID_BYTES_MAX + 1, "batch-%s-%.24s", file_id, hex);
    return true;
}

static void batch_line_read_root(const struct json_node *root, const char *file_id,
                                 struct batch_line *line, struct job_error *error) {
    if (root->type != JSON_OBJECT) {
        error_set(error, ERROR_INVALID_JSON, NULL, "a line must be a JSON object");
        return;
    }
    json_require(root, "custom_id", error);
    line->custom_id = json_get_text(root, "custom_id", BATCH_LINE_CUSTOM_ID_BYTES_MAX, error);
    batch_line_check_word(root, "method", "POST", error);
    batch_line_check_word(root, "url", BATCH_LINE_URL, error);
    json_require(root, "body", error);
    const struct json_node *body = json_get_object(root, "body", error);
    if (!body || error->code != ERROR_NONE) {
        return;
    }
    batch_line_refuse_unable(body, error);
    if (!batch_line_make_id(file_id, line->custom_id, line->request_id)) {
        batch_line_out_of_memory(error);
        return;
    }
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "request_id");
    json_writer_string(&writer, line->request_id);
    batch_line_put_messages(&writer, body, error);
    batch_line_put_params(&writer, body, error);
    json_writer_end_object(&writer);
    line->value = json_writer_finish(&writer, &line->value_bytes);
    if (!line->value) {
        batch_line_out_of_memory(error);
    }
}

/* Names the field as it stands in the line: what we made of it is not the user's affair. */
static void batch_line_rename_field(struct job_error *error) {
    char field[ERROR_FIELD_BYTES_MAX];
    const char *inner = strncmp(error->field, "params.", 7) == 0 ? error->field + 7 : error->field;
    snprintf(field, sizeof field, "body.%.*s", (int)sizeof field - 6, inner);
    memcpy(error->field, field, sizeof field);
}

static enum error_code batch_line_read_openai(const char *text, size_t bytes, const char *file_id,
                                              struct batch_line *line, struct job_error *error) {
    struct json json;
    if (!batch_line_parse(&json, text, bytes, error)) {
        return error->code;
    }
    batch_line_read_root(json.nodes, file_id, line, error);
    json_deinit(&json);
    if (error->code == ERROR_NONE && batch_line_check(line, error) != ERROR_NONE &&
        error->field[0]) {
        batch_line_rename_field(error);
    }
    return error->code;
}

enum error_code batch_line_read(enum batch_kind kind, const char *text, size_t bytes,
                                const char *file_id, size_t line, struct batch_line *out,
                                struct job_error *error) {
    *out = (struct batch_line){0};
    *error = (struct job_error){0};
    enum error_code code = kind == BATCH_OPENAI
                               ? batch_line_read_openai(text, bytes, file_id, out, error)
                               : batch_line_read_job(text, bytes, file_id, line, out, error);
    if (code != ERROR_NONE) {
        batch_line_deinit(out);
    }
    return code;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void batch_line_put(struct json_writer *writer, const char *key, const char *text) {
    json_writer_key(writer, key);
    json_writer_string(writer, text);
}

static void batch_line_put_count(struct json_writer *writer, const char *key, uint64_t count) {
    json_writer_key(writer, key);
    json_writer_uint(writer, count);
}

/* What begins both kinds of OpenAI answer. */
static void batch_line_begin(struct json_writer *writer, const struct batch_line *line) {
    char id[JOB_ID_BYTES_MAX + 16];
    snprintf(id, sizeof id, "batch_req_%s", line->request_id);
    json_writer_init(writer, 1024);
    json_writer_begin_object(writer);
    batch_line_put(writer, "id", id);
    batch_line_put(writer, "custom_id", line->custom_id);
}

static void batch_line_put_usage(struct json_writer *writer, const struct result_usage *usage) {
    json_writer_key(writer, "usage");
    json_writer_begin_object(writer);
    batch_line_put_count(writer, "prompt_tokens", usage->prompt_tokens);
    batch_line_put_count(writer, "completion_tokens", usage->completion_tokens);
    batch_line_put_count(writer, "total_tokens",
                         (uint64_t)usage->prompt_tokens + usage->completion_tokens);
    json_writer_key(writer, "prompt_tokens_details");
    json_writer_begin_object(writer);
    batch_line_put_count(writer, "cached_tokens", usage->cached_tokens);
    json_writer_end_object(writer);
    json_writer_end_object(writer);
}

static void batch_line_put_choice(struct json_writer *writer, const struct result *result) {
    json_writer_key(writer, "choices");
    json_writer_begin_array(writer);
    json_writer_begin_object(writer);
    batch_line_put_count(writer, "index", 0);
    json_writer_key(writer, "message");
    json_writer_begin_object(writer);
    batch_line_put(writer, "role", "assistant");
    batch_line_put(writer, "content", result->text);
    json_writer_end_object(writer);
    /* Whatever else cut the answer short: it was cut. */
    batch_line_put(writer, "finish_reason",
                   result->finish_reason == FINISH_STOP ? "stop" : "length");
    json_writer_key(writer, "logprobs");
    json_writer_null(writer);
    json_writer_end_object(writer);
    json_writer_end_array(writer);
}

static char *batch_line_answer_openai(const struct batch_line *line, const struct result *result,
                                      int64_t created_unix_s) {
    struct json_writer writer;
    batch_line_begin(&writer, line);
    json_writer_key(&writer, "response");
    json_writer_begin_object(&writer);
    batch_line_put_count(&writer, "status_code", 200);
    batch_line_put(&writer, "request_id", line->request_id);
    json_writer_key(&writer, "body");
    json_writer_begin_object(&writer);
    batch_line_put(&writer, "id", line->request_id);
    batch_line_put(&writer, "object", "chat.completion");
    json_writer_key(&writer, "created");
    json_writer_int(&writer, created_unix_s);
    batch_line_put(&writer, "model", result->model.name);
    batch_line_put_choice(&writer, result);
    batch_line_put_usage(&writer, &result->usage);
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    json_writer_key(&writer, "error");
    json_writer_null(&writer);
    json_writer_end_object(&writer);
    return json_writer_finish(&writer, NULL);
}

static char *batch_line_failure_openai(const struct batch_line *line,
                                       const struct job_error *error) {
    struct json_writer writer;
    batch_line_begin(&writer, line);
    json_writer_key(&writer, "response");
    json_writer_null(&writer);
    json_writer_key(&writer, "error");
    json_writer_begin_object(&writer);
    batch_line_put(&writer, "code", error_code_name(error->code));
    batch_line_put(&writer, "message", error->message);
    json_writer_end_object(&writer);
    json_writer_end_object(&writer);
    return json_writer_finish(&writer, NULL);
}

char *batch_line_answer(enum batch_kind kind, const struct batch_line *line,
                        const struct result *result, const char *raw, int64_t created_unix_s) {
    if (kind == BATCH_JOBS) {
        return raw ? strdup(raw) : result_encode(result, NULL);
    }
    return result->status == RESULT_DONE ? batch_line_answer_openai(line, result, created_unix_s)
                                         : batch_line_failure_openai(line, &result->error);
}

char *batch_line_failure(enum batch_kind kind, const struct batch_line *line,
                         const struct job_error *error) {
    if (kind == BATCH_OPENAI) {
        return batch_line_failure_openai(line, error);
    }
    struct result result;
    result_init(&result);
    memcpy(result.request_id, line->request_id, sizeof result.request_id);
    result.status = RESULT_FAILED;
    result.finish_reason = FINISH_ERROR;
    result.error = *error;
    char *text = result_encode(&result, NULL);
    result_deinit(&result);
    return text;
}
