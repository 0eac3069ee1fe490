#include <string.h>

#include "schemas/job_params.h"
#include "schemas/json_writer.h"
#include "schemas/result.h"

/* The rest of a result without its texts. */
#define RESULT_FIXED_BYTES 1536

static void put_text(struct json_writer *writer, const char *key, const char *text) {
    json_writer_key(writer, key);
    json_writer_string(writer, text);
}

static void put_uint(struct json_writer *writer, const char *key, uint64_t value) {
    json_writer_key(writer, key);
    json_writer_uint(writer, value);
}

static void put_bool(struct json_writer *writer, const char *key, bool value) {
    json_writer_key(writer, key);
    json_writer_bool(writer, value);
}

static void put_sections(struct json_writer *writer, const struct result_solution *solution) {
    const struct {
        const char *name, *text;
    } sections[] = {{"analysis", solution->analysis},
                    {"time_complexity", solution->time_complexity},
                    {"space_complexity", solution->space_complexity},
                    {"code", solution->code},
                    {"pitfalls", solution->pitfalls}};
    const size_t count = sizeof sections / sizeof sections[0];
    for (size_t i = 0; i < count; i++) {
        put_text(writer, sections[i].name, sections[i].text);
    }
    put_text(writer, "code_language", solution->code_language);
    json_writer_key(writer, "sections_found");
    json_writer_begin_array(writer);
    for (size_t i = 0; i < count; i++) {
        if (sections[i].text != NULL) {
            json_writer_string(writer, sections[i].name);
        }
    }
    json_writer_end_array(writer);
    put_bool(writer, "complete", solution->complete);
}

void result_encode_solution(struct json_writer *writer, const struct result_solution *solution) {
    if (!solution->present) {
        json_writer_null(writer);
        return;
    }
    json_writer_begin_object(writer);
    put_sections(writer, solution);
    json_writer_end_object(writer);
}

static void put_cut(struct json_writer *writer, const struct result_cut *cut) {
    if (!cut->present) {
        return;
    }
    json_writer_key(writer, "cut");
    json_writer_begin_object(writer);
    put_uint(writer, "text_bytes", cut->text_bytes);
    put_bool(writer, "solution", cut->solution);
    json_writer_end_object(writer);
}

static void put_usage(struct json_writer *writer, const struct result_usage *usage) {
    json_writer_key(writer, "usage");
    json_writer_begin_object(writer);
    put_uint(writer, "prompt_tokens", usage->prompt_tokens);
    put_uint(writer, "completion_tokens", usage->completion_tokens);
    put_uint(writer, "cached_tokens", usage->cached_tokens);
    json_writer_end_object(writer);
}

static void put_ms(struct json_writer *writer, const char *key, int64_t value) {
    json_writer_key(writer, key);
    if (value < 0) {
        json_writer_null(writer);
    } else {
        json_writer_int(writer, value);
    }
}

static void put_timings(struct json_writer *writer, const struct result_timings *timings) {
    json_writer_key(writer, "timings");
    json_writer_begin_object(writer);
    put_ms(writer, "queue_ms", timings->queue_ms);
    put_ms(writer, "batch_wait_ms", timings->batch_wait_ms);
    put_ms(writer, "first_token_ms", timings->first_token_ms);
    put_ms(writer, "total_ms", timings->total_ms);
    json_writer_end_object(writer);
}

static void put_model(struct json_writer *writer, const struct result_model *model) {
    json_writer_key(writer, "model");
    json_writer_begin_object(writer);
    put_text(writer, "name", model->name);
    put_text(writer, "sha256", model->sha256);
    put_text(writer, "policy", model->policy);
    put_text(writer, "numerics", model->numerics);
    put_text(writer, "prompt_version", model->prompt_version);
    json_writer_end_object(writer);
}

static void put_params(struct json_writer *writer, const struct result *result) {
    json_writer_key(writer, "params");
    if (result->params_present) {
        job_params_encode(writer, &result->params, true);
    } else {
        json_writer_null(writer);
    }
}

static void put_error(struct json_writer *writer, const struct job_error *error) {
    json_writer_key(writer, "error");
    if (error->code == ERROR_NONE) {
        json_writer_null(writer);
        return;
    }
    json_writer_begin_object(writer);
    put_text(writer, "code", error_code_name(error->code));
    put_text(writer, "message", error->message);
    if (error->field[0] != '\0') {
        put_text(writer, "field", error->field);
    }
    json_writer_end_object(writer);
}

static size_t length_of(const char *text) {
    return text == NULL ? 0 : strlen(text);
}

char *result_encode(const struct result *result, size_t *size) {
    struct json_writer writer;
    size_t texts = result->solution.present ? 2 : 1; /* the answer stands there as a whole, too */
    json_writer_init(&writer, RESULT_FIXED_BYTES + length_of(result->text) * texts * 9 / 8 +
                                  length_of(result->metadata));
    json_writer_begin_object(&writer);
    put_uint(&writer, "version", RESULT_VERSION);
    put_text(&writer, "request_id", result->request_id);
    put_text(&writer, "status", result_status_name(result->status));
    json_writer_key(&writer, "solution");
    result_encode_solution(&writer, &result->solution);
    put_text(&writer, "text", result->text);
    put_text(&writer, "answer_sha256", result->answer_sha256[0] ? result->answer_sha256 : NULL);
    put_text(&writer, "finish_reason", finish_reason_name(result->finish_reason));
    put_bool(&writer, "truncated", result->truncated);
    put_cut(&writer, &result->cut);
    put_usage(&writer, &result->usage);
    put_timings(&writer, &result->timings);
    put_model(&writer, &result->model);
    put_params(&writer, result);
    put_text(&writer, "worker", result->worker);
    put_uint(&writer, "attempt", result->attempt);
    put_error(&writer, &result->error);
    json_writer_key(&writer, "metadata");
    json_writer_raw(&writer, result->metadata);
    json_writer_end_object(&writer);
    return json_writer_finish(&writer, size);
}
