#include "schemas/job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job_params.h"
#include "schemas/json.h"
#include "schemas/sha256.h"

struct job_limits job_limits_default(void) {
    return (struct job_limits){.value_bytes_max = JOB_VALUE_BYTES_MAX, .default_timeout_ms = 0};
}

bool job_request_id_is_valid(const char *request_id, size_t size) {
    if (size == 0 || size > JOB_ID_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        const char c = request_id[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool other = (c >= '0' && c <= '9') || c == '.' || c == '_' || c == ':' || c == '-';
        if (!letter && !other) {
            return false;
        }
    }
    return true;
}

bool job_read_request_id(const void *bytes, size_t size, size_t value_bytes_max,
                         char request_id[JOB_ID_BYTES_MAX + 1]) {
    const struct json_limits limits = {
        .bytes_max = value_bytes_max, .depth_max = JOB_DEPTH_MAX, .tolerant = true};
    struct json json;
    struct job_error ignored;
    request_id[0] = '\0';
    if (json_parse(&json, bytes, size, &limits, &ignored) != ERROR_NONE) {
        return false;
    }
    const struct json_node *found = NULL;
    uint32_t count = 0;
    for (const struct json_node *value = json_first(json.nodes); value != NULL;
         value = json_next(json.nodes, value)) {
        if (json.nodes->type == JSON_OBJECT && json_text_equals(json_key(value), "request_id")) {
            found = value;
            count++;
        }
    }
    const bool valid = count == 1 && found->type == JSON_STRING &&
                       job_request_id_is_valid(found->text, found->size);
    if (valid) {
        memcpy(request_id, found->text, (size_t)found->size + 1);
    }
    json_deinit(&json);
    return valid;
}

bool job_tenant_number(const struct job *job, uint64_t *number) {
    const char *tenant = job->tenant != NULL ? job->tenant : "";
    uint8_t digest[SHA256_BYTES];
    if (!sha256_of(tenant, strlen(tenant), digest)) {
        return false;
    }
    memcpy(number, digest, sizeof *number);
    return true;
}

bool job_default_seed(const char *request_id, uint64_t *seed) {
    uint8_t digest[SHA256_BYTES];
    if (!sha256_of(request_id, strlen(request_id), digest)) {
        return false;
    }
    uint64_t first = 0;
    for (int i = 7; i >= 0; i--) {
        first = first << 8 | digest[i];
    }
    *seed = first & JOB_SEED_MAX;
    return true;
}

const char *job_role_name(enum job_role role) {
    static const char *const names[] = {
        [JOB_ROLE_SYSTEM] = "system", [JOB_ROLE_USER] = "user", [JOB_ROLE_ASSISTANT] = "assistant"};
    assert(role <= JOB_ROLE_ASSISTANT);
    return names[role];
}

void job_init(struct job *job) {
    *job = (struct job){.kind = JOB_PROMPT, .priority = JOB_PRIORITY_DEFAULT};
    job_params_init(&job->params);
}

static void deinit_problem(struct job_problem *problem) {
    for (uint32_t i = 0; i < problem->example_count; i++) {
        free(problem->examples[i].input);
        free(problem->examples[i].output);
        free(problem->examples[i].explanation);
    }
    free(problem->examples);
    free(problem->statement);
    free(problem->title);
    free(problem->constraints);
}

void job_deinit(struct job *job) {
    deinit_problem(&job->problem);
    for (uint32_t i = 0; i < job->message_count; i++) {
        free(job->messages[i].content);
    }
    free(job->messages);
    free(job->prompt);
    free(job->tenant);
    free(job->reply_topic);
    free(job->metadata);
    job_params_deinit(&job->params);
    *job = (struct job){0};
}
