/* A line of a batch file from anywhere, of the kind that it is taken for: it gives a job that a
 * worker reads, under an id of its own, or an error; and an answer to it is a JSON object. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/batch_line.h"
#include "schemas/json.h"
#include "tests/fuzz/fuzz.h"

static void check_is_object(char *text) {
    const struct json_limits limits = {.bytes_max = 16u << 20, .depth_max = JSON_DEPTH_MAX};
    struct json json;
    struct job_error error;
    assert(text && json_parse(&json, text, strlen(text), &limits, &error) == ERROR_NONE);
    assert(json.nodes[0].type == JSON_OBJECT);
    json_deinit(&json);
    free(text);
}

static void check_line(enum batch_kind kind, const struct batch_line *line) {
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    assert(job_decode(line->value, line->value_bytes, &limits, &job, &error) == ERROR_NONE);
    assert(strcmp(job.request_id, line->request_id) == 0);
    assert((kind == BATCH_OPENAI) == (line->custom_id != NULL));
    job_deinit(&job);
    error_set(&error, ERROR_INTERNAL, NULL, "so it is");
    check_is_object(batch_line_failure(kind, line, &error));
    struct result result;
    result_init(&result);
    check_is_object(batch_line_answer(kind, line, &result, NULL, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    const char *text = (const char *)data;
    enum batch_kind kind = batch_line_detect(text, data_bytes);
    struct batch_line line;
    struct job_error error;
    enum error_code code =
        batch_line_read(kind, text, data_bytes, "0123456789abcdef", 7, &line, &error);
    assert(code == error.code);
    if (code == ERROR_NONE) {
        check_line(kind, &line);
    } else {
        assert(error.message[0] != '\0' && line.value == NULL);
    }
    batch_line_deinit(&line);
    return 0;
}
