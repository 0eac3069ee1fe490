#include "consumer/worker_result.h"

#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "tests/support/test.h"

static const struct engine_info model = {
    .model_name = "m", .model_sha256 = "s", .policy = "int8", .numerics = "cpu-1"};

static struct inflight_job job_of(const char *id) {
    struct inflight_job job = {.timestamp_unix_ms = 10000, .has_params = true, .attempt = 3};
    struct job defaults;
    job_init(&defaults);
    job.params = defaults.params;
    strcpy(job.request_id, id);
    return job;
}

static struct result decode(char *bytes, size_t size) {
    struct result result;
    struct job_error error;
    if (result_decode(bytes, size, &result, &error) != ERROR_NONE) {
        fail_msg("%s %s", error.field, error.message);
    }
    free(bytes);
    return result;
}

static void says_of_each_way_to_end_what_the_status_is(void **state) {
    assert_int_equal(worker_result_state(FINISH_STOP), STATUS_DONE);
    assert_int_equal(worker_result_state(FINISH_LENGTH), STATUS_DONE);
    assert_int_equal(worker_result_state(FINISH_REPETITION), STATUS_DONE);
    assert_int_equal(worker_result_state(FINISH_DEADLINE), STATUS_EXPIRED);
    assert_int_equal(worker_result_state(FINISH_CANCELLED), STATUS_CANCELLED);
    assert_int_equal(worker_result_state(FINISH_ERROR), STATUS_FAILED);
}

static void counts_times_from_the_record_on(void **state) {
    struct inflight_job job = job_of("a");
    char text[] = "answer";
    /* Now is 12 s by both clocks: 7 s monotonic, 12000 ms unix. */
    struct worker_result_context context = {
        .model = &model, .worker = "w", .now_ns = 7 * CLOCK_NS_PER_S, .now_unix_ms = 12000};
    struct engine_event event = {.kind = ENGINE_EVENT_FINISHED,
                                 .finish_reason = FINISH_STOP,
                                 .text = text,
                                 .usage = {.prompt_tokens = 5, .completion_tokens = 2},
                                 .admitted_ns = 5100 * CLOCK_NS_PER_MS,
                                 .started_ns = 5300 * CLOCK_NS_PER_MS,
                                 .first_token_ns = 6000 * CLOCK_NS_PER_MS,
                                 .finished_ns = 6900 * CLOCK_NS_PER_MS};
    size_t size;
    char *bytes = worker_result_finished(&context, &job, &event, &size);
    struct result result = decode(bytes, size);
    assert_int_equal(result.timings.queue_ms, 100);
    assert_int_equal(result.timings.batch_wait_ms, 200);
    assert_int_equal(result.timings.first_token_ms, 1000);
    assert_int_equal(result.timings.total_ms, 1900);
    assert_int_equal(result.attempt, 3);
    assert_string_equal(result.text, "answer");
    assert_string_equal(result.worker, "w");
    assert_string_equal(result.model.numerics, "cpu-1");
    result_deinit(&result);
}

static struct result finished(bool is_problem, const char *answer, enum finish_reason reason) {
    struct inflight_job job = job_of("a");
    job.is_problem = is_problem;
    strcpy(job.code_language, "rust");
    struct worker_result_context context = {.model = &model, .worker = "w", .now_ns = 1};
    char *text = strdup(answer);
    struct engine_event event = {.kind = ENGINE_EVENT_FINISHED,
                                 .finish_reason = reason,
                                 .text = text,
                                 .prompt_version = is_problem ? "en-7" : "none"};
    size_t size;
    char *bytes = worker_result_finished(&context, &job, &event, &size);
    free(text);
    return decode(bytes, size);
}

static void takes_the_answer_to_a_problem_apart(void **state) {
    const char *answer = "## Approach\nSort.\n## Code\n```\nlet x = 1;\n```\n";
    struct result result = finished(true, answer, FINISH_STOP);
    assert_true(result.solution.present);
    assert_string_equal(result.solution.analysis, "Sort.");
    assert_string_equal(result.solution.code, "let x = 1;\n");
    assert_string_equal(result.solution.code_language, "rust");
    assert_null(result.solution.pitfalls);
    assert_string_equal(result.model.prompt_version, "en-7");
    assert_true(result.solution.complete);
    assert_string_equal(result.text, answer);
    result_deinit(&result);
}

static void says_of_a_cut_answer_that_its_solution_is_not_complete(void **state) {
    static const enum finish_reason cuts[] = {FINISH_LENGTH, FINISH_REPETITION, FINISH_DEADLINE,
                                              FINISH_CANCELLED};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct result result = finished(true, "## Approach\nSort", cuts[i]);
        assert_string_equal(result.solution.analysis, "Sort");
        assert_false(result.solution.complete);
        result_deinit(&result);
    }
}

static void finds_no_solution_where_no_problem_was_set_or_nothing_was_answered(void **state) {
    struct result result = finished(false, "## Approach\nSort.", FINISH_STOP);
    assert_false(result.solution.present);
    result_deinit(&result);
    result = finished(true, "", FINISH_ERROR);
    assert_false(result.solution.present);
    result_deinit(&result);
}

static void gives_no_negative_time_when_clocks_disagree(void **state) {
    struct inflight_job job = job_of("a");
    struct worker_result_context context = {
        .model = &model, .worker = "w", .now_ns = CLOCK_NS_PER_S, .now_unix_ms = 9000};
    error_set(&job.error, ERROR_PROMPT_TOO_LONG, "prompt", "too long");
    size_t size;
    char *bytes = worker_result_unanswered(&context, &job, STATUS_FAILED, false, &size);
    struct result result = decode(bytes, size);
    assert_int_equal(result.status, RESULT_FAILED);
    assert_int_equal(result.timings.total_ms, 0);
    assert_int_equal(result.timings.first_token_ms, -1);
    assert_int_equal(result.error.code, ERROR_PROMPT_TOO_LONG);
    assert_true(result.params_present);
    result_deinit(&result);
}

static void leaves_out_what_the_client_sent_when_brief(void **state) {
    struct inflight_job job = job_of("a");
    char metadata[] = "{\"big\":1}";
    job.metadata = metadata;
    struct worker_result_context context = {
        .model = &model, .worker = "w", .now_ns = CLOCK_NS_PER_S, .now_unix_ms = 11000};
    error_set(&job.error, ERROR_RESULT_TOO_LARGE, NULL, "too large");
    size_t size;
    char *bytes = worker_result_unanswered(&context, &job, STATUS_FAILED, true, &size);
    struct result result = decode(bytes, size);
    assert_null(result.metadata);
    assert_false(result.params_present);
    assert_string_equal(result.request_id, "a");
    assert_string_equal(result.model.prompt_version, "none");
    result_deinit(&result);
}

TEST_MAIN(cmocka_unit_test(says_of_each_way_to_end_what_the_status_is),
          cmocka_unit_test(counts_times_from_the_record_on),
          cmocka_unit_test(takes_the_answer_to_a_problem_apart),
          cmocka_unit_test(says_of_a_cut_answer_that_its_solution_is_not_complete),
          cmocka_unit_test(finds_no_solution_where_no_problem_was_set_or_nothing_was_answered),
          cmocka_unit_test(gives_no_negative_time_when_clocks_disagree),
          cmocka_unit_test(leaves_out_what_the_client_sent_when_brief))
