#include <stdlib.h>
#include <string.h>

#include "schemas/job_params.h"
#include "schemas/json.h"
#include "schemas/json_writer.h"
#include "schemas/result.h"

static const char *const status_names[] = {[RESULT_DONE] = "done",
                                           [RESULT_FAILED] = "failed",
                                           [RESULT_EXPIRED] = "expired",
                                           [RESULT_CANCELLED] = "cancelled"};

static char *read_text(const struct json_node *object, const char *name, struct job_error *error) {
    return json_get_text(object, name, JSON_BYTES_MAX, error);
}

static uint32_t read_count(const struct json_node *object, const char *name,
                           struct job_error *error) {
    return (uint32_t)json_get_int(object, name, 0, UINT32_MAX, 0, error);
}

static int64_t read_ms(const struct json_node *object, const char *name, struct job_error *error) {
    return json_get_int(object, name, 0, JSON_INTEGER_MAX, -1, error);
}

static void decode_solution(const struct json_node *root, struct result_solution *solution,
                            struct job_error *error) {
    const struct json_node *object = json_get_object(root, "solution", error);
    if (object == NULL) {
        return;
    }
    solution->present = true;
    solution->analysis = read_text(object, "analysis", error);
    solution->time_complexity = read_text(object, "time_complexity", error);
    solution->space_complexity = read_text(object, "space_complexity", error);
    solution->code = read_text(object, "code", error);
    solution->pitfalls = read_text(object, "pitfalls", error);
    json_get_name(object, "code_language", solution->code_language, sizeof solution->code_language,
                  error);
    solution->complete = json_get_bool(object, "complete", false, error);
}

static void decode_cut(const struct json_node *root, struct result_cut *cut,
                       struct job_error *error) {
    const struct json_node *object = json_get_object(root, "cut", error);
    if (object == NULL) {
        return;
    }
    cut->present = true;
    cut->text_bytes = (uint64_t)json_get_int(object, "text_bytes", 0, JSON_INTEGER_MAX, 0, error);
    cut->solution = json_get_bool(object, "solution", false, error);
}

static void decode_outcome(const struct json_node *root, struct result *result,
                           struct job_error *error) {
    const char *reasons[FINISH_REASON_COUNT];
    for (unsigned i = 0; i < FINISH_REASON_COUNT; i++) {
        reasons[i] = finish_reason_name((enum finish_reason)i);
    }
    json_require(root, "status", error);
    result->status =
        (enum result_status)json_get_choice(root, "status", status_names, 4, RESULT_DONE, error);
    result->text = read_text(root, "text", error);
    json_get_name(root, "answer_sha256", result->answer_sha256, sizeof result->answer_sha256,
                  error);
    json_require(root, "finish_reason", error);
    result->finish_reason = (enum finish_reason)json_get_choice(
        root, "finish_reason", reasons, FINISH_REASON_COUNT, FINISH_STOP, error);
    result->truncated = json_get_bool(root, "truncated", false, error);
    decode_cut(root, &result->cut, error);
}

static void decode_figures(const struct json_node *root, struct result *result,
                           struct job_error *error) {
    const struct json_node *usage = json_get_object(root, "usage", error);
    result->usage.prompt_tokens = read_count(usage, "prompt_tokens", error);
    result->usage.completion_tokens = read_count(usage, "completion_tokens", error);
    result->usage.cached_tokens = read_count(usage, "cached_tokens", error);
    const struct json_node *timings = json_get_object(root, "timings", error);
    result->timings.queue_ms = read_ms(timings, "queue_ms", error);
    result->timings.batch_wait_ms = read_ms(timings, "batch_wait_ms", error);
    result->timings.first_token_ms = read_ms(timings, "first_token_ms", error);
    result->timings.total_ms = read_ms(timings, "total_ms", error);
}

static void decode_model(const struct json_node *root, struct result_model *model,
                         struct job_error *error) {
    const struct json_node *object = json_get_object(root, "model", error);
    json_get_name(object, "name", model->name, sizeof model->name, error);
    json_get_name(object, "sha256", model->sha256, sizeof model->sha256, error);
    json_get_name(object, "policy", model->policy, sizeof model->policy, error);
    json_get_name(object, "numerics", model->numerics, sizeof model->numerics, error);
    json_get_name(object, "prompt_version", model->prompt_version, sizeof model->prompt_version,
                  error);
}

static void decode_error(const struct json_node *root, struct job_error *out,
                         struct job_error *error) {
    const struct json_node *object = json_get_object(root, "error", error);
    if (object == NULL) {
        return;
    }
    json_require(object, "code", error);
    const struct json_node *code = json_get_string(object, "code", JSON_BYTES_MAX, error);
    if (code != NULL && !error_code_parse(code->text, &out->code)) {
        json_fail(error, ERROR_INVALID_FIELD, code, NULL, "is no code of this version");
    }
    json_get_name(object, "message", out->message, sizeof out->message, error);
    json_get_name(object, "field", out->field, sizeof out->field, error);
}

/* Such a result says two things at once. */
static void check_error(const struct json_node *root, const struct result *result,
                        struct job_error *error) {
    if (result->status == RESULT_DONE && result->error.code != ERROR_NONE) {
        json_fail(error, ERROR_INVALID_FIELD, root, "error", "cannot stand beside status done");
    }
}

static void decode_metadata(const struct json_node *root, struct result *result,
                            struct job_error *error) {
    const struct json_node *node = json_get_object(root, "metadata", error);
    if (node == NULL) {
        return;
    }
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_node(&writer, node);
    result->metadata = json_writer_finish(&writer, NULL);
    if (result->metadata == NULL) {
        error_set(error, ERROR_INTERNAL, NULL, "out of memory");
    }
}

static void check_version(const struct json_node *root, struct job_error *error) {
    const int64_t version = json_get_int(root, "version", 0, INT32_MAX, RESULT_VERSION, error);
    if (version != RESULT_VERSION && version != RESULT_VERSION - 1) {
        json_fail(error, ERROR_UNSUPPORTED_VERSION, root, "version",
                  "is %lld, but this program reads up to %d", (long long)version, RESULT_VERSION);
    }
}

static void decode_root(const struct json_node *root, struct result *result,
                        struct job_error *error) {
    check_version(root, error);
    json_require(root, "request_id", error);
    json_get_name(root, "request_id", result->request_id, sizeof result->request_id, error);
    if (!job_request_id_is_valid(result->request_id, strlen(result->request_id))) {
        json_fail(error, ERROR_INVALID_FIELD, root, "request_id", "is not valid");
    }
    decode_outcome(root, result, error);
    decode_solution(root, &result->solution, error);
    decode_figures(root, result, error);
    decode_model(root, &result->model, error);
    const struct json_node *params = json_get_object(root, "params", error);
    result->params_present = params != NULL;
    job_params_decode(params, &result->params, error);
    json_get_name(root, "worker", result->worker, sizeof result->worker, error);
    result->attempt = read_count(root, "attempt", error);
    decode_error(root, &result->error, error);
    check_error(root, result, error);
    decode_metadata(root, result, error);
}

enum error_code result_decode(const void *bytes, size_t size, struct result *out,
                              struct job_error *error) {
    const struct json_limits limits = {.bytes_max = RESULT_VALUE_BYTES_MAX,
                                       .depth_max = RESULT_DEPTH_MAX};
    struct json json;
    *out = (struct result){0};
    *error = (struct job_error){0};
    if (json_parse(&json, bytes, size, &limits, error) != ERROR_NONE) {
        return error->code;
    }
    result_init(out);
    job_params_init(&out->params);
    if (json.nodes->type == JSON_OBJECT) {
        decode_root(json.nodes, out, error);
    } else {
        error_set(error, ERROR_INVALID_JSON, NULL, "a result must be a JSON object");
    }
    json_deinit(&json);
    if (error->code != ERROR_NONE) {
        result_deinit(out);
    }
    return error->code;
}
