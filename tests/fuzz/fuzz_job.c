/* Any bytes give either a job in range that survives being written and read again, or a coded
 * error that says where and is itself text. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job.h"
#include "schemas/utf8.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *text) {
    assert(text != NULL && utf8_is_valid(text, strlen(text), NULL));
}

static void check_params(const struct job_params *p) {
    assert(p->max_tokens >= 1 && p->max_tokens <= JOB_MAX_TOKENS_MAX);
    assert(p->temperature >= 0 && p->temperature <= 2);
    assert(p->top_p > 0 && p->top_p <= 1);
    assert(p->min_p >= 0 && p->min_p <= 1);
    assert(p->repetition_penalty > 0 && p->repetition_penalty <= 2);
    assert(p->presence_penalty >= -2 && p->presence_penalty <= 2);
    assert(p->frequency_penalty >= -2 && p->frequency_penalty <= 2);
    assert(p->seed <= JOB_SEED_MAX);
    assert(p->stop_count <= JOB_STOPS_MAX && p->stop_token_count <= JOB_STOP_TOKENS_MAX);
    for (uint32_t i = 0; i < p->stop_count; i++) {
        check_text(p->stop[i]);
        assert(p->stop[i][0] != '\0');
    }
    for (uint32_t i = 0; i < p->stop_token_count; i++) {
        assert(p->stop_token_ids[i] >= 0);
    }
}

static void check_job(const struct job *job) {
    assert(job_request_id_is_valid(job->request_id, strlen(job->request_id)));
    assert((job->kind == JOB_PROBLEM) == (job->problem.statement != NULL));
    assert((job->kind == JOB_PROMPT) == (job->prompt != NULL));
    assert((job->kind == JOB_MESSAGES) == (job->message_count > 0));
    for (uint32_t i = 0; i < job->message_count; i++) {
        check_text(job->messages[i].content);
    }
    for (uint32_t i = 0; i < job->problem.example_count; i++) {
        check_text(job->problem.examples[i].input);
        check_text(job->problem.examples[i].output);
    }
    assert(job->priority <= JOB_PRIORITY_MAX);
    assert(job->timeout_ms >= 0 && job->timeout_ms <= JOB_TIMEOUT_MS_MAX);
    assert(job->metadata == NULL || strlen(job->metadata) <= JOB_METADATA_BYTES_MAX);
    check_params(&job->params);
}

static void check_round_trip(const struct job *job, const struct job_limits *limits) {
    struct job again;
    struct job_error error;
    char *once = job_encode(job);
    check_text(once);
    const enum error_code code = job_decode(once, strlen(once), limits, &again, &error);
    assert(code == ERROR_NONE);
    assert(again.params.seed == job->params.seed);
    char *twice = job_encode(&again);
    assert(strcmp(once, twice) == 0);
    free(once);
    free(twice);
    job_deinit(&again);
}

static void check_refusal(const struct job *job, const struct job_error *error) {
    static const struct job zero;
    assert(memcmp(job, &zero, sizeof zero) == 0);
    assert(error->code != ERROR_NONE && error->code != ERROR_INTERNAL);
    assert(error->message[0] != '\0');
    check_text(error->message);
    check_text(error->field);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    const struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    char id[JOB_ID_BYTES_MAX + 1];
    const enum error_code code = job_decode(data, data_bytes, &limits, &job, &error);
    const bool has_id = job_read_request_id(data, data_bytes, limits.value_bytes_max, id);
    assert(has_id == job_request_id_is_valid(id, strlen(id)));
    assert(code == error.code);
    if (code == ERROR_NONE) {
        assert(has_id && strcmp(id, job.request_id) == 0);
        check_job(&job);
        check_round_trip(&job, &limits);
    } else {
        check_refusal(&job, &error);
    }
    job_deinit(&job);
    return 0;
}
