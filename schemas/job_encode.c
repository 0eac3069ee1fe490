#include <string.h>

#include "schemas/job.h"
#include "schemas/job_params.h"
#include "schemas/json_writer.h"

static void put_text(struct json_writer *writer, const char *key, const char *text) {
    if (text != NULL) {
        json_writer_key(writer, key);
        json_writer_string(writer, text);
    }
}

static void put_problem(struct json_writer *writer, const struct job_problem *problem) {
    static const char *const languages[] = {
        [JOB_ANSWER_AUTO] = NULL, [JOB_ANSWER_ZH] = "zh", [JOB_ANSWER_EN] = "en"};
    json_writer_key(writer, "problem");
    json_writer_begin_object(writer);
    put_text(writer, "statement", problem->statement);
    put_text(writer, "title", problem->title);
    if (problem->example_count > 0) {
        json_writer_key(writer, "examples");
        json_writer_begin_array(writer);
        for (uint32_t i = 0; i < problem->example_count; i++) {
            json_writer_begin_object(writer);
            put_text(writer, "input", problem->examples[i].input);
            put_text(writer, "output", problem->examples[i].output);
            put_text(writer, "explanation", problem->examples[i].explanation);
            json_writer_end_object(writer);
        }
        json_writer_end_array(writer);
    }
    put_text(writer, "constraints", problem->constraints);
    if (problem->code_language[0] != '\0' && strcmp(problem->code_language, "python") != 0) {
        put_text(writer, "code_language", problem->code_language);
    }
    put_text(writer, "answer_language", languages[problem->answer_language]);
    json_writer_end_object(writer);
}

static void put_messages(struct json_writer *writer, const struct job *job) {
    json_writer_key(writer, "messages");
    json_writer_begin_array(writer);
    for (uint32_t i = 0; i < job->message_count; i++) {
        json_writer_begin_object(writer);
        put_text(writer, "role", job_role_name(job->messages[i].role));
        put_text(writer, "content", job->messages[i].content);
        json_writer_end_object(writer);
    }
    json_writer_end_array(writer);
}

static void put_content(struct json_writer *writer, const struct job *job) {
    switch (job->kind) {
    case JOB_PROBLEM: put_problem(writer, &job->problem); break;
    case JOB_PROMPT: put_text(writer, "prompt", job->prompt); break;
    case JOB_MESSAGES: put_messages(writer, job); break;
    }
}

char *job_encode(const struct job *job) {
    static const char *const progress[] = {
        [JOB_PROGRESS_OFF] = NULL, [JOB_PROGRESS_TOKENS] = "tokens", [JOB_PROGRESS_TEXT] = "text"};
    struct json_writer writer;
    json_writer_init(&writer, 0);
    json_writer_begin_object(&writer);
    put_text(&writer, "request_id", job->request_id);
    put_content(&writer, job);
    json_writer_key(&writer, "params");
    job_params_encode(&writer, &job->params, false);
    if (job->priority != JOB_PRIORITY_DEFAULT) {
        json_writer_key(&writer, "priority");
        json_writer_uint(&writer, job->priority);
    }
    if (job->timeout_ms > 0) {
        json_writer_key(&writer, "timeout_ms");
        json_writer_int(&writer, job->timeout_ms);
    }
    put_text(&writer, "tenant", job->tenant);
    put_text(&writer, "reply_topic", job->reply_topic);
    put_text(&writer, "progress", progress[job->progress]);
    if (job->metadata != NULL) {
        json_writer_key(&writer, "metadata");
        json_writer_raw(&writer, job->metadata);
    }
    json_writer_end_object(&writer);
    return json_writer_finish(&writer, NULL);
}
