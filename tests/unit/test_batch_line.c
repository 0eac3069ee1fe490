#include "consumer/batch_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/json.h"
#include "tests/support/test.h"

#define FILE_ID "0123456789abcdef"

static struct batch_line line;
static struct job_error error;

static enum error_code read_line(enum batch_kind kind, const char *text) {
    batch_line_deinit(&line);
    return batch_line_read(kind, text, strlen(text), FILE_ID, 7, &line, &error);
}

/* An OpenAI line with this body. */
static enum error_code read_body(const char *body) {
    char text[4096];
    snprintf(
        text, sizeof text,
        "{\"custom_id\":\"c\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":%s}",
        body);
    return read_line(BATCH_OPENAI, text);
}

static void takes(const char *body) {
    if (read_body(body) != ERROR_NONE) {
        fail_msg("%s: %s: %s", body, error.field, error.message);
    }
}

static void refuses(const char *field, const char *body) {
    assert_int_not_equal(read_body(body), ERROR_NONE);
    assert_string_equal(error.field, field);
    assert_null(line.value);
}

static struct job decoded(void) {
    struct job_limits limits = job_limits_default();
    struct job job;
    assert_int_equal(job_decode(line.value, line.value_bytes, &limits, &job, &error), ERROR_NONE);
    return job;
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

/* ---- lines in -------------------------------------------------------------------------------- */

static void knows_the_two_kinds_apart(void **state) {
    const char *const openai[] = {"{\"custom_id\":\"a\"}", "{\"body\":{}}"};
    const char *const jobs[] = {"{\"prompt\":\"x\"}", "{", "[]", "{\"custom_id\":null}"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(batch_line_detect(openai[i], strlen(openai[i])), BATCH_OPENAI);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(batch_line_detect(jobs[i], strlen(jobs[i])), BATCH_JOBS);
    }
}

static void keeps_the_bytes_of_a_job_that_has_an_id(void **state) {
    const char *text = " {\"request_id\":\"a\", \"prompt\":\"x\", \"later\": 1.50}\r";
    assert_int_equal(read_line(BATCH_JOBS, text), ERROR_NONE);
    assert_string_equal(line.value, text);
    assert_string_equal(line.request_id, "a");
    assert_string_equal(batch_line_name(&line), "a");
    assert_null(line.custom_id);
}

static void gives_a_job_without_an_id_one_of_its_place(void **state) {
    assert_int_equal(read_line(BATCH_JOBS, "  { \"prompt\":\"x\"}"), ERROR_NONE);
    assert_string_equal(line.request_id, "batch-" FILE_ID "-7");
    struct job job = decoded();
    assert_string_equal(job.prompt, "x");
    job_deinit(&job);
    assert_int_equal(read_line(BATCH_JOBS, "{}"), ERROR_INVALID_FIELD);
    assert_string_equal(error.field, "problem");
}

static void refuses_a_line_with_a_zero_byte(void **state) {
    static const char text[] =
        "{\"request_id\":\"a\",\0\"prompt\":\"x, long enough to end elsewhere\"}";
    batch_line_deinit(&line);
    assert_int_not_equal(
        batch_line_read(BATCH_JOBS, text, sizeof text - 1, FILE_ID, 7, &line, &error), ERROR_NONE);
    assert_null(line.value);
}

static void makes_a_job_of_a_chat_body(void **state) {
    takes("{\"model\":\"any\",\"messages\":[{\"role\":\"developer\",\"content\":\"be brief\"},"
          "{\"role\":\"user\",\"name\":\"u\",\"content\":[{\"type\":\"text\",\"text\":\"one \"},"
          "{\"type\":\"text\",\"text\":\"two\"}]}],\"max_completion_tokens\":9,\"temperature\":0.5,"
          "\"top_p\":0.25,\"seed\":4,\"stop\":\"END\",\"presence_penalty\":-1,"
          "\"frequency_penalty\":0.5,\"n\":1,\"stream\":false,\"logprobs\":null,\"tools\":[],"
          "\"tool_choice\":\"none\",\"logit_bias\":{},\"response_format\":{\"type\":\"text\"},"
          "\"user\":\"u\",\"top_k\":3}");
    assert_string_equal(line.custom_id, "c");
    struct job job = decoded();
    assert_string_equal(job.request_id, line.request_id);
    assert_int_equal(job.message_count, 2);
    assert_int_equal(job.messages[0].role, JOB_ROLE_SYSTEM);
    assert_string_equal(job.messages[1].content, "one two");
    assert_int_equal(job.params.max_tokens, 9);
    assert_true(job.params.temperature == 0.5f && job.params.top_p == 0.25f);
    assert_int_equal(job.params.seed, 4);
    assert_int_equal(job.params.top_k, 3);
    assert_int_equal(job.params.stop_count, 1);
    assert_string_equal(job.params.stop[0], "END");
    assert_true(job.params.presence_penalty == -1.0f && job.params.frequency_penalty == 0.5f);
    job_deinit(&job);
    takes("{" HI ",\"max_tokens\":5,\"stop\":[\"a\",\"b\"]}");
    job = decoded();
    assert_int_equal(job.params.max_tokens, 5);
    assert_int_equal(job.params.stop_count, 2);
    job_deinit(&job);
}

static void derives_equal_ids_from_equal_files_only(void **state) {
    char first[JOB_ID_BYTES_MAX + 1];
    takes("{" HI "}");
    memcpy(first, line.request_id, sizeof first);
    assert_memory_equal(first, "batch-" FILE_ID "-", 23);
    takes("{" HI ",\"seed\":1}");
    assert_string_equal(line.request_id, first);
    const char *other = "{\"custom_id\":\"d\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
                        "\"body\":{" HI "}}";
    assert_int_equal(read_line(BATCH_OPENAI, other), ERROR_NONE);
    assert_string_not_equal(line.request_id, first);
}

static void refuses_by_name_what_it_cannot_do(void **state) {
    refuses("body.tools", "{" HI ",\"tools\":[{}]}");
    refuses("body.stream", "{" HI ",\"stream\":true}");
    refuses("body.logprobs", "{" HI ",\"logprobs\":true}");
    refuses("body.logit_bias", "{" HI ",\"logit_bias\":{\"1\":2}}");
    refuses("body.n", "{" HI ",\"n\":2}");
    refuses("body.n", "{" HI ",\"n\":\"1\"}");
    refuses("body.response_format.type", "{" HI ",\"response_format\":{\"type\":\"json_object\"}}");
    refuses("body.max_tokens", "{" HI ",\"max_tokens\":1,\"max_completion_tokens\":1}");
    refuses("body.messages[0].tool_calls",
            "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{}]}]}");
    refuses("body.messages[0].content[0]",
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}");
}

static void names_the_field_as_it_stands_in_the_line(void **state) {
    refuses("body", "null");
    refuses("body", "[]");
    refuses("body.messages", "{}");
    refuses("body.messages", "{\"messages\":[]}");
    refuses("body.messages[0].role", "{\"messages\":[{\"content\":\"x\"}]}");
    refuses("body.messages[0].role", "{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}");
    refuses("body.messages[0].content", "{\"messages\":[{\"role\":\"user\",\"content\":\" \"}]}");
    refuses("body.messages[0].content", "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}");
    refuses("body.messages[0].content", "{\"messages\":[{\"role\":\"user\",\"content\":3}]}");
    refuses("body.temperature", "{" HI ",\"temperature\":2.5}");
    refuses("body.max_tokens", "{" HI ",\"max_tokens\":0}");
    refuses("body.stop[0]", "{" HI ",\"stop\":[\"\"]}");
    refuses("body.seed", "{" HI ",\"seed\":-1}");
}

static void wants_the_frame_of_a_line_to_be_right(void **state) {
    static const char *const lines[][2] = {
        {"custom_id", "{\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{" HI "}}"},
        {"method", "{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":{" HI "}}"},
        {"method", "{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/chat/completions\","
                   "\"body\":{" HI "}}"},
        {"url", "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\","
                "\"body\":{" HI "}}"},
        {"custom_id", "{\"custom_id\":1,\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
                      "\"body\":{" HI "}}"},
        {"", "[]"},
        {"", "{"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_not_equal(read_line(BATCH_OPENAI, lines[i][1]), ERROR_NONE);
        assert_string_equal(error.field, lines[i][0]);
    }
}

/* ---- lines out ------------------------------------------------------------------------------- */

static struct result done(void) {
    struct result result;
    result_init(&result);
    memcpy(result.request_id, line.request_id, sizeof result.request_id);
    result.status = RESULT_DONE;
    result.text = strdup("an \"answer\"");
    result.usage = (struct result_usage){3, 4, 2};
    snprintf(result.model.name, sizeof result.model.name, "m");
    return result;
}

static void writes_answers_as_openai_does(void **state) {
    takes("{" HI "}");
    struct result result = done();
    char expected[2048];
    snprintf(expected, sizeof expected,
             "{\"id\":\"batch_req_%s\",\"custom_id\":\"c\",\"response\":{\"status_code\":200,"
             "\"request_id\":\"%s\",\"body\":{\"id\":\"%s\",\"object\":\"chat.completion\","
             "\"created\":99,\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
             "\"assistant\",\"content\":\"an \\\"answer\\\"\"},\"finish_reason\":\"stop\","
             "\"logprobs\":null}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
             "\"total_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":2}}}},"
             "\"error\":null}",
             line.request_id, line.request_id, line.request_id);
    char *text = batch_line_answer(BATCH_OPENAI, &line, &result, "raw", 99);
    assert_string_equal(text, expected);
    free(text);
    result.finish_reason = FINISH_REPETITION; /* no word of theirs */
    text = batch_line_answer(BATCH_OPENAI, &line, &result, NULL, 99);
    assert_non_null(strstr(text, "\"finish_reason\":\"length\""));
    free(text);
    result.status = RESULT_EXPIRED;
    error_set(&result.error, ERROR_EXPIRED, NULL, "too late");
    text = batch_line_answer(BATCH_OPENAI, &line, &result, "raw", 99);
    snprintf(expected, sizeof expected,
             "{\"id\":\"batch_req_%s\",\"custom_id\":\"c\",\"response\":null,\"error\":{\"code\":"
             "\"expired\",\"message\":\"too late\"}}",
             line.request_id);
    assert_string_equal(text, expected);
    free(text);
    result_deinit(&result);
}

static void hands_on_results_of_our_jobs_as_they_came(void **state) {
    assert_int_equal(read_line(BATCH_JOBS, "{\"request_id\":\"a\",\"prompt\":\"x\"}"), ERROR_NONE);
    struct result result = done(), again;
    char *text = batch_line_answer(BATCH_JOBS, &line, &result, "{\"as\": \"it came\"}", 0);
    assert_string_equal(text, "{\"as\": \"it came\"}");
    free(text);
    text = batch_line_answer(BATCH_JOBS, &line, &result, NULL, 0);
    assert_int_equal(result_decode(text, strlen(text), &again, &error), ERROR_NONE);
    assert_string_equal(again.text, "an \"answer\"");
    result_deinit(&again);
    result_deinit(&result);
    free(text);
}

static void makes_a_failed_result_where_there_is_none(void **state) {
    struct job_error why;
    struct result result;
    error_set(&why, ERROR_CONFLICT, "request_id", "belongs to another");
    assert_int_equal(read_line(BATCH_JOBS, "{\"request_id\":\"a\",\"prompt\":\"x\"}"), ERROR_NONE);
    char *text = batch_line_failure(BATCH_JOBS, &line, &why);
    assert_int_equal(result_decode(text, strlen(text), &result, &error), ERROR_NONE);
    assert_string_equal(result.request_id, "a");
    assert_int_equal(result.status, RESULT_FAILED);
    assert_int_equal(result.error.code, ERROR_CONFLICT);
    result_deinit(&result);
    free(text);
    takes("{" HI "}");
    text = batch_line_failure(BATCH_OPENAI, &line, &why);
    assert_non_null(strstr(text, "\"response\":null,\"error\":{\"code\":\"conflict\""));
    free(text);
}

static int forget(void **state) {
    batch_line_deinit(&line);
    return 0;
}

TEST_MAIN_WITH(NULL, forget, cmocka_unit_test(knows_the_two_kinds_apart),
               cmocka_unit_test(keeps_the_bytes_of_a_job_that_has_an_id),
               cmocka_unit_test(gives_a_job_without_an_id_one_of_its_place),
               cmocka_unit_test(refuses_a_line_with_a_zero_byte),
               cmocka_unit_test(makes_a_job_of_a_chat_body),
               cmocka_unit_test(derives_equal_ids_from_equal_files_only),
               cmocka_unit_test(refuses_by_name_what_it_cannot_do),
               cmocka_unit_test(names_the_field_as_it_stands_in_the_line),
               cmocka_unit_test(wants_the_frame_of_a_line_to_be_right),
               cmocka_unit_test(writes_answers_as_openai_does),
               cmocka_unit_test(hands_on_results_of_our_jobs_as_they_came),
               cmocka_unit_test(makes_a_failed_result_where_there_is_none))
