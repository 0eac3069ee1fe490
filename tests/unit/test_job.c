#include "schemas/job.h"
#include "schemas/job_params.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/sha256.h"
#include "tests/support/example.h"
#include "tests/support/test.h"

static const char full_job[] =
    "{\"version\":1,\"request_id\":\"Web-1:a_b.c\",\"problem\":{\"statement\":\"\xE4\xB8\xA4\xE6\x95"
    "\xB0\xE4\xB9\x8B\xE5\x92\x8C\\n\\u4e24\",\"title\":\"Two Sum\",\"examples\":[{\"input\":"
    "\"[2,7], 9\",\"output\":\"[0,1]\",\"explanation\":\"2 + 7\"},{\"input\":\"\",\"output\":\"\"}],"
    "\"constraints\":\"n < 10\",\"code_language\":\"C++\",\"answer_language\":\"zh\"},\"params\":{"
    "\"max_tokens\":64,\"temperature\":0.2,\"top_p\":0.5,\"top_k\":7,\"min_p\":0.05,"
    "\"repetition_penalty\":1.1,\"presence_penalty\":-0.5,\"frequency_penalty\":0.25,"
    "\"seed\":9007199254740991,\"stop\":[\"\\n\\n\",\"END\"],\"stop_token_ids\":[0,2]},"
    "\"priority\":0,\"timeout_ms\":60000,\"tenant\":\"team-1\",\"reply_topic\":\"answers.v1\","
    "\"progress\":\"text\",\"metadata\":{\"big\": 12345678901234567890, \"x\":[1.50, \"\\u00e9\"]},"
    "\"unknown\":{\"n\":1}}";

static enum error_code decode(const char *text, struct job *job, struct job_error *error) {
    const struct job_limits limits = job_limits_default();
    return job_decode(text, strlen(text), &limits, job, error);
}

static struct job decoded(const char *text) {
    struct job job;
    struct job_error error;
    if (decode(text, &job, &error) != ERROR_NONE) {
        fail_msg("%s: %s %s", text, error.field, error.message);
    }
    return job;
}

static void assert_refused(const char *text, enum error_code code, const char *field) {
    static const struct job zero;
    struct job job;
    struct job_error error;
    const enum error_code got = decode(text, &job, &error);
    if (got != code || error.code != code || strcmp(error.field, field) != 0 ||
        error.message[0] == '\0') {
        fail_msg("%.200s: %s, field '%s', message '%s'", text, error_code_name(got), error.field,
                 error.message);
    }
    assert_memory_equal(&job, &zero, sizeof job);
}

static uint64_t seed_of(const char *request_id) {
    uint64_t seed;
    assert_true(job_default_seed(request_id, &seed));
    return seed;
}

/* A small job with more members behind its prompt. */
static char *with_members(const char *members) {
    char *text = NULL;
    assert_true(asprintf(&text, "{\"request_id\":\"r\",\"prompt\":\"p\",%s}", members) > 0);
    return text;
}

static void assert_member_refused(const char *member, enum error_code code, const char *field) {
    char *text = with_members(member);
    assert_refused(text, code, field);
    free(text);
}

static char *with_param(const char *name, const char *value) {
    char *text = NULL;
    assert_true(asprintf(&text, "{\"request_id\":\"r\",\"prompt\":\"p\",\"params\":{\"%s\":%s}}",
                         name, value) > 0);
    return text;
}

static void decodes_every_field(void **state) {
    struct job job = decoded(full_job);
    assert_string_equal(job.request_id, "Web-1:a_b.c");
    assert_int_equal(job.kind, JOB_PROBLEM);
    assert_string_equal(job.problem.statement, "两数之和\n两");
    assert_string_equal(job.problem.title, "Two Sum");
    assert_int_equal(job.problem.example_count, 2);
    assert_string_equal(job.problem.examples[0].input, "[2,7], 9");
    assert_string_equal(job.problem.examples[0].output, "[0,1]");
    assert_string_equal(job.problem.examples[0].explanation, "2 + 7");
    assert_string_equal(job.problem.examples[1].input, "");
    assert_null(job.problem.examples[1].explanation);
    assert_string_equal(job.problem.constraints, "n < 10");
    assert_string_equal(job.problem.code_language, "c++");
    assert_int_equal(job.problem.answer_language, JOB_ANSWER_ZH);
    assert_null(job.prompt);
    assert_null(job.messages);
    const struct job_params *p = &job.params;
    assert_int_equal(p->max_tokens, 64);
    assert_true(p->temperature == 0.2f && p->top_p == 0.5f && p->min_p == 0.05f);
    assert_true(p->repetition_penalty == 1.1f && p->presence_penalty == -0.5f);
    assert_true(p->frequency_penalty == 0.25f);
    assert_int_equal(p->top_k, 7);
    assert_true(p->seed_given && p->seed == JOB_SEED_MAX);
    assert_int_equal(p->stop_count, 2);
    assert_string_equal(p->stop[0], "\n\n");
    assert_string_equal(p->stop[1], "END");
    assert_int_equal(p->stop_token_count, 2);
    assert_int_equal(p->stop_token_ids[1], 2);
    assert_int_equal(job.priority, 0);
    assert_int_equal(job.timeout_ms, 60000);
    assert_string_equal(job.tenant, "team-1");
    assert_string_equal(job.reply_topic, "answers.v1");
    assert_int_equal(job.progress, JOB_PROGRESS_TEXT);
    assert_string_equal(job.metadata, "{\"big\":12345678901234567890,\"x\":[1.50,\"é\"]}");
    job_deinit(&job);
}

static void fills_in_the_defaults(void **state) {
    struct job job =
        decoded("{\"request_id\":\"r\",\"prompt\":\"p\",\"params\":null,\"tenant\":null,"
                "\"version\":null,\"priority\":null,\"problem\":null}");
    assert_int_equal(job.kind, JOB_PROMPT);
    assert_string_equal(job.prompt, "p");
    const struct job_params *p = &job.params;
    assert_int_equal(p->max_tokens, 512);
    assert_true(p->temperature == 0.7f && p->top_p == 0.95f && p->min_p == 0);
    assert_true(p->repetition_penalty == 1 && p->presence_penalty == 0);
    assert_true(p->frequency_penalty == 0);
    assert_int_equal(p->top_k, 50);
    assert_int_equal(p->stop_count + p->stop_token_count, 0);
    assert_false(p->seed_given);
    assert_true(p->seed == seed_of("r"));
    assert_int_equal(job.priority, 5);
    assert_int_equal(job.timeout_ms, 0);
    assert_int_equal(job.progress, JOB_PROGRESS_OFF);
    assert_null(job.tenant);
    assert_null(job.reply_topic);
    assert_null(job.metadata);
    job_deinit(&job);
    job = decoded("{\"request_id\":\"r\",\"problem\":{\"statement\":\"s\"}}");
    assert_string_equal(job.problem.code_language, "python");
    assert_int_equal(job.problem.answer_language, JOB_ANSWER_AUTO);
    job_deinit(&job);
}

static void takes_the_workers_timeout_where_a_job_gives_none(void **state) {
    const struct job_limits limits = {.value_bytes_max = 1000, .default_timeout_ms = 4000};
    const char *const texts[] = {"{\"request_id\":\"r\",\"prompt\":\"p\"}",
                                 "{\"request_id\":\"r\",\"prompt\":\"p\",\"timeout_ms\":7}"};
    for (int i = 0; i < 2; i++) {
        struct job job;
        struct job_error error;
        assert_int_equal(job_decode(texts[i], strlen(texts[i]), &limits, &job, &error), ERROR_NONE);
        assert_int_equal(job.timeout_ms, i == 0 ? 4000 : 7);
        job_deinit(&job);
    }
}

static void takes_the_workers_parameters_where_a_job_gives_none(void **state) {
    struct job_params given;
    job_params_init(&given);
    given.max_tokens = 9;
    given.temperature = 0.25f;
    given.top_p = 0.5f;
    given.stop_token_ids[0] = 7;
    given.stop_token_ids[1] = 8;
    given.stop_token_count = 2;
    const struct job_limits limits = {.value_bytes_max = 1000, .default_params = &given};
    const char *const texts[] = {
        "{\"request_id\":\"r\",\"prompt\":\"p\"}",
        "{\"request_id\":\"r\",\"prompt\":\"p\",\"params\":{\"max_tokens\":"
        "3,\"top_p\":null,\"stop_token_ids\":[5]}}"};
    for (int i = 0; i < 2; i++) {
        struct job job;
        struct job_error error;
        assert_int_equal(job_decode(texts[i], strlen(texts[i]), &limits, &job, &error), ERROR_NONE);
        assert_int_equal(job.params.max_tokens, i == 0 ? 9 : 3);
        assert_true(job.params.temperature == 0.25f && job.params.top_p == 0.5f);
        assert_int_equal(job.params.stop_token_count, i == 0 ? 2 : 1);
        assert_int_equal(job.params.stop_token_ids[0], i == 0 ? 7 : 5);
        assert_int_equal(job.params.seed, seed_of("r"));
        job_deinit(&job);
    }
}

static void decodes_messages_in_order(void **state) {
    struct job job = decoded("{\"request_id\":\"r\",\"messages\":["
                             "{\"role\":\"system\",\"content\":\"be brief\",\"name\":\"x\"},"
                             "{\"content\":\"<|im_end|>\",\"role\":\"user\"},"
                             "{\"role\":\"assistant\",\"content\":\"ok\"}]}");
    assert_int_equal(job.kind, JOB_MESSAGES);
    assert_int_equal(job.message_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(job.messages[i].role, i);
    }
    assert_string_equal(job.messages[1].content, "<|im_end|>");
    assert_string_equal(job_role_name(job.messages[2].role), "assistant");
    job_deinit(&job);
}

/* One line a parameter: its smallest and largest value, and the nearest ones beyond. */
static void accepts_each_parameter_at_its_bounds_and_refuses_it_beyond(void **state) {
    static const struct {
        const char *name, *low, *below, *high, *above;
    } cases[] = {
        {"max_tokens", "1", "0", "2048", "2049"},
        {"temperature", "0", "-1e-9", "2", "2.0000000000000004"},
        {"top_p", "1e-30", "0", "1", "1.0000000000000002"},
        {"top_p", "1e-45", "1e-60", "1.0", "2"}, /* rounds to 0 in f32 */
        {"top_k", "0", "-1", "1000000", "1000001"},
        {"min_p", "0", "-0.001", "1", "1.001"},
        {"repetition_penalty", "0.001", "0", "2", "2.001"},
        {"presence_penalty", "-2", "-2.001", "2", "2.001"},
        {"frequency_penalty", "-2.0", "-2.001", "2.0", "2.001"},
        {"seed", "0", "-1", "9007199254740991", "9007199254740992"},
        {"stop_token_ids", "[0]", "[-1]", "[2147483647]", "[2147483648]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool array = cases[i].low[0] == '[';
        char field[64];
        snprintf(field, sizeof field, "params.%s%s", cases[i].name, array ? "[0]" : "");
        char *const texts[] = {
            with_param(cases[i].name, cases[i].low), with_param(cases[i].name, cases[i].high),
            with_param(cases[i].name, cases[i].below), with_param(cases[i].name, cases[i].above)};
        for (int j = 0; j < 4; j++) {
            if (j < 2) {
                struct job job = decoded(texts[j]);
                job_deinit(&job);
            } else {
                assert_refused(texts[j], ERROR_INVALID_FIELD, field);
            }
            free(texts[j]);
        }
    }
}

static void refuses_a_parameter_of_any_wrong_type(void **state) {
    static const char *const names[] = {"max_tokens",
                                        "temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "seed",
                                        "stop",
                                        "stop_token_ids"};
    static const char *const values[] = {"\"1\"", "\"\"", "true", "false", "{}", "1e400", "-1e400"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char field[64];
        snprintf(field, sizeof field, "params.%s", names[i]);
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            char *text = with_param(names[i], values[j]);
            assert_refused(text, ERROR_INVALID_FIELD, field);
            free(text);
        }
        static const char *const no_json[] = {"NaN", "Infinity", "-Infinity", "nan"};
        for (size_t j = 0; j < sizeof no_json / sizeof no_json[0]; j++) {
            char *text = with_param(names[i], no_json[j]);
            assert_refused(text, ERROR_INVALID_JSON, "");
            free(text);
        }
        char *text = with_param(names[i], "null");
        struct job job = decoded(text);
        assert_false(job.params.seed_given);
        job_deinit(&job);
        free(text);
    }
    assert_member_refused("\"params\":[]", ERROR_INVALID_FIELD, "params");
    assert_member_refused("\"params\":{\"max_tokens\":1.5}", ERROR_INVALID_FIELD,
                          "params.max_tokens");
}

static void takes_integers_written_as_doubles(void **state) {
    char *text = with_members("\"params\":{\"max_tokens\":64.0,\"seed\":1e3},\"priority\":-0.0,"
                              "\"version\":1.0");
    struct job job = decoded(text);
    assert_int_equal(job.params.max_tokens, 64);
    assert_int_equal(job.params.seed, 1000);
    assert_int_equal(job.priority, 0);
    job_deinit(&job);
    free(text);
}

static void refuses_reserved_parameters_by_name(void **state) {
    assert_member_refused("\"params\":{\"n\":1}", ERROR_INVALID_FIELD, "params.n");
    assert_member_refused("\"params\":{\"logprobs\":false}", ERROR_INVALID_FIELD,
                          "params.logprobs");
    char *text = with_members("\"params\":{\"n\":null,\"best_of\":3},\"n\":2");
    struct job job = decoded(text);
    job_deinit(&job);
    free(text);
}

static void bounds_the_stop_strings(void **state) {
    char *text = with_param("stop", "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\","
                                    "\"11\",\"12\",\"13\",\"14\",\"15\",\"16\"]");
    struct job job = decoded(text);
    assert_int_equal(job.params.stop_count, JOB_STOPS_MAX);
    job_deinit(&job);
    free(text);
    text = with_param("stop", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]");
    assert_refused(text, ERROR_INVALID_FIELD, "params.stop");
    free(text);
    assert_member_refused("\"params\":{\"stop\":[\"a\",\"\"]}", ERROR_INVALID_FIELD,
                          "params.stop[1]");
    assert_member_refused("\"params\":{\"stop\":[\"a\",null]}", ERROR_INVALID_FIELD,
                          "params.stop[1]");
    assert_member_refused("\"params\":{\"stop\":[\"a\",7]}", ERROR_INVALID_FIELD, "params.stop[1]");
    char long_stop[JOB_STOP_BYTES_MAX + 8];
    for (int extra = 0; extra < 2; extra++) {
        const int length = JOB_STOP_BYTES_MAX + extra;
        memset(long_stop, 'x', sizeof long_stop);
        snprintf(long_stop, sizeof long_stop, "[\"%0*d\"]", length, 1);
        text = with_param("stop", long_stop);
        if (extra) {
            assert_refused(text, ERROR_INVALID_FIELD, "params.stop[0]");
        } else {
            job = decoded(text);
            job_deinit(&job);
        }
        free(text);
    }
}

static void wants_exactly_one_of_problem_prompt_and_messages(void **state) {
    assert_refused("{\"request_id\":\"r\"}", ERROR_INVALID_FIELD, "problem");
    assert_refused("{\"request_id\":\"r\",\"prompt\":null}", ERROR_INVALID_FIELD, "problem");
    assert_refused("{\"request_id\":\"r\",\"prompt\":\"p\",\"problem\":{\"statement\":\"s\"}}",
                   ERROR_INVALID_FIELD, "prompt");
    assert_refused("{\"request_id\":\"r\",\"prompt\":\"p\",\"messages\":[]}", ERROR_INVALID_FIELD,
                   "messages");
    assert_refused("{\"request_id\":\"r\",\"problem\":1,\"messages\":1}", ERROR_INVALID_FIELD,
                   "messages");
}

static void refuses_content_that_is_missing_or_misshapen(void **state) {
    static const char *const cases[][2] = {
        {"\"prompt\":7", "prompt"},
        {"\"prompt\":[\"p\"]", "prompt"},
        {"\"problem\":\"text\"", "problem"},
        {"\"problem\":[]", "problem"},
        {"\"problem\":{}", "problem.statement"},
        {"\"problem\":{\"statement\":null}", "problem.statement"},
        {"\"problem\":{\"statement\":1}", "problem.statement"},
        {"\"problem\":{\"statement\":\"s\",\"title\":1}", "problem.title"},
        {"\"problem\":{\"statement\":\"s\",\"constraints\":[]}", "problem.constraints"},
        {"\"problem\":{\"statement\":\"s\",\"examples\":{}}", "problem.examples"},
        {"\"problem\":{\"statement\":\"s\",\"examples\":[1]}", "problem.examples[0]"},
        {"\"problem\":{\"statement\":\"s\",\"examples\":[{\"output\":\"o\"}]}",
         "problem.examples[0].input"},
        {"\"problem\":{\"statement\":\"s\",\"examples\":[{\"input\":\"i\",\"output\":\"o\"},"
         "{\"input\":\"i\"}]}",
         "problem.examples[1].output"},
        {"\"problem\":{\"statement\":\"s\",\"examples\":[{\"input\":3,\"output\":\"o\"}]}",
         "problem.examples[0].input"},
        {"\"problem\":{\"statement\":\"s\",\"code_language\":7}", "problem.code_language"},
        {"\"problem\":{\"statement\":\"s\",\"code_language\":\"\"}", "problem.code_language"},
        {"\"problem\":{\"statement\":\"s\",\"code_language\":\"c\\n\"}", "problem.code_language"},
        {"\"problem\":{\"statement\":\"s\",\"code_language\":\"0123456789012345678901234567890x\"}",
         "problem.code_language"},
        {"\"problem\":{\"statement\":\"s\",\"answer_language\":\"fr\"}", "problem.answer_language"},
        {"\"messages\":{}", "messages"},
        {"\"messages\":\"hi\"", "messages"},
        {"\"messages\":[\"hi\"]", "messages[0]"},
        {"\"messages\":[{\"role\":\"user\"}]", "messages[0].content"},
        {"\"messages\":[{\"content\":\"c\"}]", "messages[0].role"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"tool\",\"content\":\"c\"}]",
         "messages[1].role"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[]}]", "messages[0].content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = NULL;
        assert_true(asprintf(&text, "{\"request_id\":\"r\",%s}", cases[i][0]) > 0);
        assert_refused(text, ERROR_INVALID_FIELD, cases[i][1]);
        free(text);
    }
}

static void refuses_blank_content_as_an_empty_prompt(void **state) {
    static const char *const blanks[] = {"", " ", "\\n\\t \\r", "\\u3000\\u00a0", "\\u200b\\ufeff"};
    static const char *const forms[][2] = {
        {"\"prompt\":\"%s\"", "prompt"},
        {"\"problem\":{\"statement\":\"%s\"}", "problem.statement"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]", "messages[0].content"}};
    for (size_t form = 0; form < 3; form++) {
        for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
            const char *before = forms[form][0];
            const char *hole = strstr(before, "%s");
            char *text = NULL;
            assert_true(asprintf(&text, "{\"request_id\":\"r\",%.*s%s%s}", (int)(hole - before),
                                 before, blanks[i], hole + 2) > 0);
            assert_refused(text, ERROR_EMPTY_PROMPT, forms[form][1]);
            free(text);
        }
    }
    assert_refused("{\"request_id\":\"r\",\"messages\":[]}", ERROR_EMPTY_PROMPT, "messages");
}

static void bounds_the_number_of_messages_and_examples(void **state) {
    static const struct {
        const char *before, *element, *after, *field;
        int most;
    } cases[] = {{"{\"request_id\":\"r\",\"messages\":[", "{\"role\":\"user\",\"content\":\"c\"}",
                  "]}", "messages", JOB_MESSAGES_MAX},
                 {"{\"request_id\":\"r\",\"problem\":{\"statement\":\"s\",\"examples\":[",
                  "{\"input\":\"i\",\"output\":\"o\"}", "]}}", "problem.examples",
                  JOB_EXAMPLES_MAX},
                 {"{\"request_id\":\"r\",\"prompt\":\"p\",\"params\":{\"stop_token_ids\":[", "7",
                  "]}}", "params.stop_token_ids", JOB_STOP_TOKENS_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int extra = 0; extra < 2; extra++) {
            char text[16384];
            size_t size = (size_t)sprintf(text, "%s", cases[i].before);
            for (int j = 0; j < cases[i].most + extra; j++) {
                size += (size_t)sprintf(text + size, "%s%s", j ? "," : "", cases[i].element);
            }
            sprintf(text + size, "%s", cases[i].after);
            if (extra) {
                assert_refused(text, ERROR_INVALID_FIELD, cases[i].field);
            } else {
                struct job job = decoded(text);
                job_deinit(&job);
            }
        }
    }
}

static void refuses_other_fields_out_of_range_by_name(void **state) {
    static const char *const cases[][2] = {
        {"\"priority\":10", "priority"},
        {"\"priority\":-1", "priority"},
        {"\"priority\":\"5\"", "priority"},
        {"\"priority\":4.5", "priority"},
        {"\"timeout_ms\":0", "timeout_ms"},
        {"\"timeout_ms\":-1", "timeout_ms"},
        {"\"timeout_ms\":604800001", "timeout_ms"},
        {"\"timeout_ms\":1700000000000", "timeout_ms"}, /* a point in time, not a duration */
        {"\"timeout_ms\":\"5000\"", "timeout_ms"},
        {"\"timeout_ms\":1e400", "timeout_ms"},
        {"\"timeout_ms\":true", "timeout_ms"},
        {"\"tenant\":\"\"", "tenant"},
        {"\"tenant\":7", "tenant"},
        {"\"reply_topic\":\"a b\"", "reply_topic"},
        {"\"reply_topic\":\"..\"", "reply_topic"},
        {"\"reply_topic\":\"\"", "reply_topic"},
        {"\"reply_topic\":[]", "reply_topic"},
        {"\"progress\":\"all\"", "progress"},
        {"\"progress\":true", "progress"},
        {"\"metadata\":[]", "metadata"},
        {"\"metadata\":\"x\"", "metadata"},
        {"\"version\":\"1\"", "version"},
        {"\"version\":true", "version"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_member_refused(cases[i][0], ERROR_INVALID_FIELD, cases[i][1]);
    }
    char *text = with_members("\"timeout_ms\":604800000");
    struct job job = decoded(text);
    assert_true(job.timeout_ms == JOB_TIMEOUT_MS_MAX);
    job_deinit(&job);
    free(text);
}

static void refuses_another_version_before_looking_at_the_rest(void **state) {
    static const char *const versions[] = {"0", "2", "-1", "1.5", "1e400", "99999999999999999999"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char *text = NULL;
        assert_true(asprintf(&text, "{\"prompt\":7,\"version\":%s}", versions[i]) > 0);
        assert_refused(text, ERROR_UNSUPPORTED_VERSION, "version");
        free(text);
    }
}

static void accepts_only_ids_of_the_agreed_characters(void **state) {
    char longest[JOB_ID_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest);
    assert_true(job_request_id_is_valid(longest, JOB_ID_BYTES_MAX));
    assert_false(job_request_id_is_valid(longest, JOB_ID_BYTES_MAX + 1));
    assert_false(job_request_id_is_valid("", 0));
    for (int c = 0; c < 256; c++) {
        const char text[2] = {'a', (char)c};
        const bool good = c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                           "0123456789._:-",
                                           c) != NULL;
        assert_int_equal(job_request_id_is_valid(text, 2), good);
    }
    static const char *const bad[] = {"null",         "7",  "\"\"", "\"a b\"", "\"{a}\"",
                                      "\"\xC3\xA9\"", "[]", "{}",   "\"a\\n\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *text = NULL;
        assert_true(asprintf(&text, "{\"request_id\":%s,\"prompt\":\"p\"}", bad[i]) > 0);
        assert_refused(text, ERROR_INVALID_FIELD, "request_id");
        free(text);
    }
    assert_refused("{\"prompt\":\"p\"}", ERROR_INVALID_FIELD, "request_id");
}

static void refuses_values_that_are_no_json_object(void **state) {
    static const char *const cases[] = {
        "",        " ", "null", "[]",       "7",
        "\"job\"", "{", "{}x",  "nonsense", "{\"request_id\":\"r\",\"prompt\":\"p\"},"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(cases[i], ERROR_INVALID_JSON, "");
    }
    const struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    assert_int_equal(job_decode(NULL, 0, &limits, &job, &error), ERROR_INVALID_JSON);
}

static void refuses_bytes_and_escapes_that_are_no_text(void **state) {
    assert_refused("{\"request_id\":\"r\",\"prompt\":\"\xFF\"}", ERROR_INVALID_UTF8, "");
    assert_member_refused("\"x\":\"\\ud800\"", ERROR_INVALID_FIELD, "x");
    assert_refused("{\"request_id\":\"r\",\"prompt\":\"a\\u0000b\"}", ERROR_INVALID_FIELD,
                   "prompt");
    assert_refused("{\"request_id\":\"r\",\"problem\":{\"statement\":\"\\udc00\"}}",
                   ERROR_INVALID_FIELD, "problem.statement");
    assert_member_refused("\"params\":{\"seed\":1,\"seed\":2}", ERROR_INVALID_FIELD, "params.seed");
    assert_member_refused("\"prompt\":\"q\"", ERROR_INVALID_FIELD, "prompt");
}

static void refuses_a_value_larger_than_the_limit(void **state) {
    const size_t size = 5u << 20;
    char *value = malloc(size + 1);
    memset(value, 'x', size);
    memcpy(value, "{\"request_id\":\"r\",\"prompt\":\"", 28);
    memcpy(value + size - 2, "\"}", 3);
    assert_refused(value, ERROR_TOO_LARGE, "");
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    limits.value_bytes_max = size;
    assert_int_equal(job_decode(value, size, &limits, &job, &error), ERROR_NONE);
    assert_int_equal(strlen(job.prompt), size - 30);
    job_deinit(&job);
    free(value);
}

static void refuses_deep_nesting_wherever_it_stands(void **state) {
    char *text = malloc(40000);
    strcpy(text, "{\"request_id\":\"r\",\"prompt\":\"p\",\"ignored\":");
    const size_t start = strlen(text);
    memset(text + start, '[', 10000);
    memset(text + start + 10000, ']', 10000);
    strcpy(text + start + 20000, "}");
    assert_refused(text, ERROR_INVALID_JSON, "");
    free(text);
}

static void bounds_metadata_as_it_is_written_back(void **state) {
    for (int extra = 0; extra < 2; extra++) {
        char *member = NULL; /* spaces do not count: 8 bytes are {"k":""} */
        assert_true(asprintf(&member, "\"metadata\": { \"k\" : \"%0*d\" }   ",
                             JOB_METADATA_BYTES_MAX - 8 + extra, 1) > 0);
        char *text = with_members(member);
        if (extra) {
            assert_refused(text, ERROR_INVALID_FIELD, "metadata");
        } else {
            struct job job = decoded(text);
            assert_int_equal(strlen(job.metadata), JOB_METADATA_BYTES_MAX);
            job_deinit(&job);
        }
        free(text);
        free(member);
    }
}

static void reads_the_id_of_a_job_that_is_refused(void **state) {
    static const struct {
        const char *text, *id;
    } cases[] = {{"{\"request_id\":\"r-1\",\"prompt\":7}", "r-1"},
                 {"{\"prompt\":\"\\u0000\\ud800\",\"request_id\":\"r-2\",\"prompt\":\"x\"}", "r-2"},
                 {"{\"version\":9,\"request_id\":\"r-3\"}", "r-3"},
                 {"{\"request_id\":\"a\",\"request_id\":\"a\"}", ""},
                 {"{\"request_id\":\"a\\u0000\"}", ""},
                 {"{\"request_id\":7}", ""},
                 {"{\"request_id\":\"a b\"}", ""},
                 {"{\"x\":{\"request_id\":\"a\"}}", ""},
                 {"[\"request_id\",\"a\"]", ""},
                 {"{\"request_id\":\"a\"", ""},
                 {"{\"request_id\":\"a\",\"x\":\"\xFF\"}", ""},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char id[JOB_ID_BYTES_MAX + 1] = "garbage";
        const bool found =
            job_read_request_id(cases[i].text, strlen(cases[i].text), JOB_VALUE_BYTES_MAX, id);
        assert_string_equal(id, cases[i].id);
        assert_int_equal(found, cases[i].id[0] != '\0');
    }
    char id[JOB_ID_BYTES_MAX + 1];
    assert_false(job_read_request_id(cases[0].text, strlen(cases[0].text), 10, id));
}

static void derives_a_seed_that_a_job_may_give(void **state) {
    uint8_t digest[SHA256_BYTES];
    assert_true(sha256_of("job-1", 5, digest));
    uint64_t first = 0;
    memcpy(&first, digest, sizeof first); /* little-endian, as the contract says */
    assert_true(seed_of("job-1") == (first & ((1ull << 53) - 1)));
    assert_true(seed_of("job-1") != seed_of("job-2"));
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%d", i);
        assert_true(seed_of(id) <= JOB_SEED_MAX);
    }
}

static void assert_encodes_as(const char *text, const char *expected) {
    struct job job = decoded(text);
    char *once = job_encode(&job);
    assert_string_equal(once, expected);
    struct job again = decoded(once);
    char *twice = job_encode(&again);
    assert_string_equal(twice, once);
    job_deinit(&job);
    job_deinit(&again);
    free(once);
    free(twice);
}

static void encodes_what_decodes_to_the_same_job(void **state) {
    assert_encodes_as("{\"prompt\":\" p \",\"request_id\":\"r\",\"params\":{\"top_k\":50}}",
                      "{\"request_id\":\"r\",\"prompt\":\" p \",\"params\":{}}");
    assert_encodes_as(
        "{\"request_id\":\"r\",\"messages\":[{\"role\":\"user\",\"content\":\"\\u9898\"}],"
        "\"params\":{\"seed\":0,\"temperature\":0.1,\"stop_token_ids\":[3]}}",
        "{\"request_id\":\"r\",\"messages\":[{\"role\":\"user\",\"content\":\"题\"}],"
        "\"params\":{\"temperature\":0.1,\"seed\":0,\"stop_token_ids\":[3]}}");
    assert_encodes_as(
        full_job,
        "{\"request_id\":\"Web-1:a_b.c\",\"problem\":{\"statement\":\"两数之和\\n两\",\"title\":\"Two "
        "Sum\",\"examples\":[{\"input\":\"[2,7], 9\",\"output\":\"[0,1]\",\"explanation\":\"2 + 7\"},"
        "{\"input\":\"\",\"output\":\"\"}],\"constraints\":\"n < 10\",\"code_language\":\"c++\","
        "\"answer_language\":\"zh\"},\"params\":{\"max_tokens\":64,\"temperature\":0.2,\"top_p\":0.5,"
        "\"top_k\":7,\"min_p\":0.05,\"repetition_penalty\":1.1,\"presence_penalty\":-0.5,"
        "\"frequency_penalty\":0.25,\"seed\":9007199254740991,\"stop\":[\"\\n\\n\",\"END\"],"
        "\"stop_token_ids\":[0,2]},\"priority\":0,\"timeout_ms\":60000,\"tenant\":\"team-1\","
        "\"reply_topic\":\"answers.v1\",\"progress\":\"text\",\"metadata\":{\"big\":"
        "12345678901234567890,\"x\":[1.50,\"é\"]}}");
}

static void takes_the_published_examples(void **state) {
    static const char *const names[] = {"job_problem.json", "job_prompt.json", "job_messages.json"};
    for (int kind = JOB_PROBLEM; kind <= JOB_MESSAGES; kind++) {
        char *text = example_read(names[kind]);
        struct job job = decoded(text);
        assert_int_equal(job.kind, kind);
        job_deinit(&job);
        free(text);
    }
}

static void a_new_job_holds_the_defaults_and_a_freed_one_nothing(void **state) {
    static const struct job zero;
    struct job job;
    job_init(&job);
    assert_int_equal(job.priority, JOB_PRIORITY_DEFAULT);
    assert_int_equal(job.params.max_tokens, JOB_MAX_TOKENS_DEFAULT);
    assert_true(job.params.top_p == 0.95f);
    job_deinit(&job);
    assert_memory_equal(&job, &zero, sizeof job);
    job_deinit(&job);
}

TEST_MAIN(cmocka_unit_test(decodes_every_field), cmocka_unit_test(fills_in_the_defaults),
          cmocka_unit_test(takes_the_workers_timeout_where_a_job_gives_none),
          cmocka_unit_test(takes_the_workers_parameters_where_a_job_gives_none),
          cmocka_unit_test(decodes_messages_in_order),
          cmocka_unit_test(accepts_each_parameter_at_its_bounds_and_refuses_it_beyond),
          cmocka_unit_test(refuses_a_parameter_of_any_wrong_type),
          cmocka_unit_test(takes_integers_written_as_doubles),
          cmocka_unit_test(refuses_reserved_parameters_by_name),
          cmocka_unit_test(bounds_the_stop_strings),
          cmocka_unit_test(wants_exactly_one_of_problem_prompt_and_messages),
          cmocka_unit_test(refuses_content_that_is_missing_or_misshapen),
          cmocka_unit_test(refuses_blank_content_as_an_empty_prompt),
          cmocka_unit_test(bounds_the_number_of_messages_and_examples),
          cmocka_unit_test(refuses_other_fields_out_of_range_by_name),
          cmocka_unit_test(refuses_another_version_before_looking_at_the_rest),
          cmocka_unit_test(accepts_only_ids_of_the_agreed_characters),
          cmocka_unit_test(refuses_values_that_are_no_json_object),
          cmocka_unit_test(refuses_bytes_and_escapes_that_are_no_text),
          cmocka_unit_test(refuses_a_value_larger_than_the_limit),
          cmocka_unit_test(refuses_deep_nesting_wherever_it_stands),
          cmocka_unit_test(bounds_metadata_as_it_is_written_back),
          cmocka_unit_test(reads_the_id_of_a_job_that_is_refused),
          cmocka_unit_test(derives_a_seed_that_a_job_may_give),
          cmocka_unit_test(encodes_what_decodes_to_the_same_job),
          cmocka_unit_test(takes_the_published_examples),
          cmocka_unit_test(a_new_job_holds_the_defaults_and_a_freed_one_nothing))
