#include "schemas/result.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/job_params.h"
#include "tests/support/example.h"
#include "tests/support/test.h"

static void fill_names(struct result *result) {
    strcpy(result->request_id, "job-1");
    strcpy(result->model.name, "tiny");
    strcpy(result->model.sha256, "ab12");
    strcpy(result->model.policy, "int8");
    strcpy(result->model.numerics, "cpu-1");
    strcpy(result->model.prompt_version, "1");
    strcpy(result->worker, "w-7");
}

/* The caller frees with result_deinit. */
static struct result done_result(void) {
    struct result result;
    result_init(&result);
    fill_names(&result);
    result.status = RESULT_DONE;
    result.text = strdup("两\n\"x\"");
    strcpy(result.answer_sha256, "00ff");
    result.finish_reason = FINISH_LENGTH;
    result.truncated = true;
    result.usage = (struct result_usage){11, 22, 16};
    result.timings = (struct result_timings){0, 50, 120, 900};
    job_params_init(&result.params);
    result.params.seed = 77;
    result.params.temperature = 0.7f;
    result.params.stop[0] = strdup("END");
    result.params.stop_count = 1;
    result.params_present = true;
    result.attempt = 2;
    result.metadata = strdup("{\"a\":1.50}");
    return result;
}

static char *encoded(const struct result *result) {
    size_t size = 0;
    char *text = result_encode(result, &size);
    assert_non_null(text);
    assert_int_equal(size, strlen(text));
    return text;
}

static struct result decoded(const char *text) {
    struct result result;
    struct job_error error;
    if (result_decode(text, strlen(text), &result, &error) != ERROR_NONE) {
        fail_msg("%s: %s %s", text, error.field, error.message);
    }
    return result;
}

static void writes_its_fields_in_a_fixed_order(void **state) {
    struct result result = done_result();
    char *text = encoded(&result);
    assert_string_equal(
        text,
        "{\"version\":1,\"request_id\":\"job-1\",\"status\":\"done\",\"solution\":null,"
        "\"text\":\"两\\n\\\"x\\\"\",\"answer_sha256\":\"00ff\",\"finish_reason\":\"length\","
        "\"truncated\":true,\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":22,"
        "\"cached_tokens\":16},\"timings\":{\"queue_ms\":0,\"batch_wait_ms\":50,"
        "\"first_token_ms\":120,\"total_ms\":900},\"model\":{\"name\":\"tiny\",\"sha256\":\"ab12\","
        "\"policy\":\"int8\",\"numerics\":\"cpu-1\",\"prompt_version\":\"1\"},\"params\":{"
        "\"max_tokens\":512,\"temperature\":0.7,\"top_p\":0.95,\"top_k\":50,\"min_p\":0,"
        "\"repetition_penalty\":1,\"presence_penalty\":0,\"frequency_penalty\":0,\"seed\":77,"
        "\"stop\":[\"END\"],\"stop_token_ids\":[]},\"worker\":\"w-7\",\"attempt\":2,\"error\":null,"
        "\"metadata\":{\"a\":1.50}}");
    free(text);
    result_deinit(&result);
}

static void writes_null_for_all_that_a_failed_job_lacks(void **state) {
    struct result result;
    result_init(&result);
    fill_names(&result);
    result.status = RESULT_FAILED;
    result.finish_reason = FINISH_ERROR;
    (void)error_set(&result.error, ERROR_INVALID_FIELD, "params.seed", "must be \"small\"");
    char *text = encoded(&result);
    assert_non_null(strstr(text, "\"status\":\"failed\",\"solution\":null,\"text\":null,"
                                 "\"answer_sha256\":null,\"finish_reason\":\"error\""));
    assert_non_null(strstr(text, "\"timings\":{\"queue_ms\":null,\"batch_wait_ms\":null,"
                                 "\"first_token_ms\":null,\"total_ms\":null}"));
    assert_non_null(strstr(text, "\"params\":null"));
    assert_non_null(strstr(text, "\"error\":{\"code\":\"invalid_field\",\"message\":\"must be "
                                 "\\\"small\\\"\",\"field\":\"params.seed\"},\"metadata\":null}"));
    struct result again = decoded(text);
    assert_int_equal(again.error.code, ERROR_INVALID_FIELD);
    assert_string_equal(again.error.field, "params.seed");
    assert_string_equal(again.error.message, "must be \"small\"");
    assert_null(again.text);
    assert_false(again.params_present);
    assert_true(again.timings.total_ms == -1);
    result_deinit(&again);
    free(text);
}

static void decodes_what_it_encodes(void **state) {
    struct result result = done_result();
    result.solution.present = true;
    result.solution.analysis = strdup("hash map");
    result.solution.code = strdup("x = 1\n");
    strcpy(result.solution.code_language, "python");
    result.solution.complete = true;
    char *text = encoded(&result);
    assert_non_null(strstr(text,
                           "\"solution\":{\"analysis\":\"hash map\",\"time_complexity\":null,"
                           "\"space_complexity\":null,\"code\":\"x = 1\\n\",\"pitfalls\":null,"
                           "\"code_language\":\"python\",\"sections_found\":[\"analysis\","
                           "\"code\"],\"complete\":true}"));
    struct result again = decoded(text);
    char *twice = encoded(&again);
    assert_string_equal(twice, text);
    assert_string_equal(again.text, result.text);
    assert_true(again.params.seed == 77 && again.params.temperature == 0.7f);
    free(text);
    free(twice);
    result_deinit(&again);
    result_deinit(&result);
}

static void names_every_status_and_reason(void **state) {
    for (int status = RESULT_DONE; status <= RESULT_CANCELLED; status++) {
        for (int reason = 0; reason < FINISH_REASON_COUNT; reason++) {
            struct result result = done_result();
            result.status = (enum result_status)status;
            result.finish_reason = (enum finish_reason)reason;
            char *text = encoded(&result);
            struct result again = decoded(text);
            assert_int_equal(again.status, status);
            assert_int_equal(again.finish_reason, reason);
            free(text);
            result_deinit(&again);
            result_deinit(&result);
        }
    }
}

static void reads_neighbouring_versions_and_ignores_unknown_fields(void **state) {
    static const char *const texts[] = {
        "{\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\"}",
        "{\"version\":0,\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\"}",
        "{\"version\":1,\"new\":{\"x\":[1]},\"request_id\":\"r\",\"status\":\"done\","
        "\"finish_reason\":\"stop\",\"usage\":{\"reasoning_tokens\":3}}"};
    for (size_t i = 0; i < 3; i++) {
        struct result result = decoded(texts[i]);
        assert_string_equal(result.request_id, "r");
        assert_true(result.timings.queue_ms == -1);
        assert_false(result.solution.present);
        result_deinit(&result);
    }
}

static void refuses_what_is_no_result_naming_the_field(void **state) {
    static const struct {
        const char *text;
        enum error_code code;
        const char *field;
    } cases[] = {
        {"", ERROR_INVALID_JSON, ""},
        {"[]", ERROR_INVALID_JSON, ""},
        {"{}", ERROR_INVALID_FIELD, "request_id"},
        {"{\"version\":2}", ERROR_UNSUPPORTED_VERSION, "version"},
        {"{\"request_id\":\"a b\"}", ERROR_INVALID_FIELD, "request_id"},
        {"{\"request_id\":\"r\"}", ERROR_INVALID_FIELD, "status"},
        {"{\"request_id\":\"r\",\"status\":\"finished\"}", ERROR_INVALID_FIELD, "status"},
        {"{\"request_id\":\"r\",\"status\":\"done\"}", ERROR_INVALID_FIELD, "finish_reason"},
        {"{\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\",\"text\":7}",
         ERROR_INVALID_FIELD, "text"},
        {"{\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\",\"usage\":"
         "{\"prompt_tokens\":-1}}",
         ERROR_INVALID_FIELD, "usage.prompt_tokens"},
        {"{\"request_id\":\"r\",\"status\":\"done\",\"finish_reason\":\"stop\",\"error\":"
         "{\"code\":\"bad luck\"}}",
         ERROR_INVALID_FIELD, "error.code"}};
    static const struct result zero;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct result result;
        struct job_error error;
        assert_int_equal(result_decode(cases[i].text, strlen(cases[i].text), &result, &error),
                         cases[i].code);
        assert_string_equal(error.field, cases[i].field);
        assert_memory_equal(&result, &zero, sizeof zero);
    }
}

/* The digest of these bytes, from an independent implementation:
 * 03000000 01000000 00000100 ffffff7f, "a题", 00, "stop". */
static void digests_the_answer_as_the_contract_says(void **state) {
    const int32_t tokens[] = {1, 65536, 2147483647};
    char hex[SHA256_HEX_BYTES], other[SHA256_HEX_BYTES];
    assert_true(result_answer_sha256(tokens, 3, "a题", FINISH_STOP, hex));
    assert_string_equal(hex, "bbf5c4613a312325f56045ab5b4bea88a8658b3799cb3e70518b2933103cf5d4");
    assert_true(result_answer_sha256(tokens, 3, "a题", FINISH_LENGTH, other));
    assert_string_not_equal(hex, other);
    assert_true(result_answer_sha256(tokens, 2, "a题", FINISH_STOP, other));
    assert_string_not_equal(hex, other);
}

static void writes_the_published_examples_byte_for_byte(void **state) {
    static const char *const names[] = {"result_done.json", "result_failed.json"};
    for (size_t i = 0; i < 2; i++) {
        char *text = example_read(names[i]);
        struct result result = decoded(text);
        char *written = encoded(&result);
        assert_string_equal(written, text);
        free(written);
        free(text);
        result_deinit(&result);
    }
}

static void copies_parameters_deeply(void **state) {
    struct result result = done_result();
    struct job_params copy;
    assert_true(job_params_copy(&result.params, &copy));
    assert_ptr_not_equal(copy.stop[0], result.params.stop[0]);
    result_deinit(&result);
    assert_string_equal(copy.stop[0], "END");
    assert_true(copy.seed == 77);
    job_params_deinit(&copy);
}

static void carries_what_was_cut_and_nothing_where_nothing_was(void **state) {
    struct result result, decoded;
    struct job_error error;
    size_t size;
    char text[] = "beginning";
    result_init(&result);
    strcpy(result.request_id, "r");
    result.text = text;
    char *bytes = result_encode(&result, &size);
    assert_null(strstr(bytes, "\"cut\""));
    free(bytes);
    result.cut = (struct result_cut){.present = true, .text_bytes = 70000, .solution = true};
    bytes = result_encode(&result, &size);
    assert_int_equal(result_decode(bytes, size, &decoded, &error), ERROR_NONE);
    assert_true(decoded.cut.present && decoded.cut.solution);
    assert_int_equal(decoded.cut.text_bytes, 70000);
    result_deinit(&decoded);
    free(bytes);
}

TEST_MAIN(cmocka_unit_test(carries_what_was_cut_and_nothing_where_nothing_was),
          cmocka_unit_test(writes_its_fields_in_a_fixed_order),
          cmocka_unit_test(writes_null_for_all_that_a_failed_job_lacks),
          cmocka_unit_test(decodes_what_it_encodes),
          cmocka_unit_test(names_every_status_and_reason),
          cmocka_unit_test(reads_neighbouring_versions_and_ignores_unknown_fields),
          cmocka_unit_test(refuses_what_is_no_result_naming_the_field),
          cmocka_unit_test(digests_the_answer_as_the_contract_says),
          cmocka_unit_test(writes_the_published_examples_byte_for_byte),
          cmocka_unit_test(copies_parameters_deeply))
