/* The worker among its neighbours: jobs, and what is none, from the topic to result, status and
 * committed offset. One worker for all cases: joining a group takes its time. */
#include "consumer/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/result.h"
#include "tests/support/test.h"
#include "tests/support/worker_rig.h"

#define GROUP "test-worker"
#define MESSAGE_BYTES_MAX 8000
#define PROMPT_BYTES_MAX 200

static struct worker_rig rig;

static void produce(const char *key, const char *value) {
    worker_rig_produce(&rig, -1, key, value, strlen(value), NULL);
}

static struct result decoded(const struct worker_rig_record *record) {
    struct result result;
    struct job_error error;
    if (result_decode(record->value, record->value_bytes, &result, &error) != ERROR_NONE) {
        fail_msg("%s: %s in %s", error.field, error.message, record->value);
    }
    return result;
}

static void assert_status(const char *id, const char *field, const char *expected) {
    char *value = worker_rig_status(&rig, id, field);
    if (expected == NULL) {
        assert_null(value);
    } else {
        assert_non_null(value);
        assert_string_equal(value, expected);
    }
    free(value);
}

/* The next result must be of this id and status. */
static void expect_result(const char *id, const char *status) {
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, id);
    assert_true(worker_rig_has_header(&record, "status", status));
    worker_rig_free(&record);
}

/* All is settled, and nothing came out that was not expected. */
static void expect_quiet(void) {
    worker_rig_until_drained(&rig);
    assert_true(worker_rig_has_no_result(&rig));
    assert_true(worker_rig_has_no_letter(&rig));
}

static void expect_letter(const char *key, const char *value, const char *code, const char *field) {
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    if (key != NULL) {
        assert_string_equal(letter.key, key);
    } else {
        assert_null(letter.key);
    }
    if (value != NULL) {
        assert_string_equal(letter.value, value);
    }
    if (!worker_rig_has_header(&letter, "solfleet-code", code) ||
        (field != NULL && !worker_rig_has_header(&letter, "solfleet-field", field))) {
        fail_msg("headers: %s", letter.headers);
    }
    assert_true(worker_rig_has_header(&letter, "solfleet-topic", "solfleet.jobs." GROUP));
    worker_rig_free(&letter);
}

static void answers_a_job_with_result_status_and_commit(void **state) {
    const char *headers[] = {"traceparent", "00-abc", "X-Correlation-ID", "c1", "secret",
                             "s",           NULL};
    const char value[] = "{\"request_id\": \"good\", \"prompt\": \"hi\", \"metadata\": {\"a\": 1},"
                         " \"params\": {\"seed\": 7, \"stop\": [\"END\"]}}";
    worker_rig_produce(&rig, -1, "good", value, strlen(value), headers);
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, "good");
    assert_true(worker_rig_has_header(&record, "status", "done"));
    assert_true(worker_rig_has_header(&record, "traceparent", "00-abc"));
    assert_true(worker_rig_has_header(&record, "X-Correlation-ID", "c1"));
    assert_null(strstr(record.headers, "secret"));
    struct result result = decoded(&record);
    assert_int_equal(result.status, RESULT_DONE);
    assert_string_equal(result.metadata, "{\"a\":1}");
    assert_int_equal(result.params.seed, 7);
    assert_string_equal(result.params.stop[0], "END");
    assert_string_equal(result.worker, "rig");
    assert_int_equal(result.attempt, 1);
    assert_int_equal(result.usage.completion_tokens, 4);
    assert_true(result.timings.queue_ms >= 0);
    assert_true(result.timings.total_ms >= result.timings.queue_ms);
    worker_rig_until_drained(&rig);
    assert_status("good", "state", "done");
    assert_status("good", "worker", "rig");
    assert_status("good", "completion_tokens", "4");
    assert_status("good", "result_topic", "solfleet.results");
    assert_status("good", "result", record.value);
    result_deinit(&result);
    worker_rig_free(&record);
    expect_quiet();
}

static void answers_a_record_delivered_twice_only_once(void **state) {
    uint64_t before = worker_rig_stats(&rig).duplicates;
    worker_rig_produce_job(&rig, "twice");
    expect_result("twice", "done");
    worker_rig_until_drained(&rig);
    worker_rig_produce_job(&rig, "twice");
    while (worker_rig_stats(&rig).duplicates == before) {
        worker_rig_step(&rig);
    }
    expect_quiet();
}

static void leaves_the_first_untouched_when_an_id_comes_with_other_content(void **state) {
    static const char other[] = "{\"request_id\": \"mine\", \"prompt\": \"something else\"}";
    worker_rig_produce_job(&rig, "mine");
    expect_result("mine", "done");
    worker_rig_until_drained(&rig);
    char *first = worker_rig_status(&rig, "mine", "result");
    produce("mine", other);
    expect_letter("mine", other, "conflict", "request_id");
    expect_quiet();
    assert_status("mine", "result", first);
    free(first);
}

static void sends_what_is_no_job_to_the_dead_letters_untouched(void **state) {
    const char *headers[] = {"traceparent", "00-abc", "secret", "s", NULL};
    worker_rig_produce(&rig, 2, "!foreign key!", "not json", 8, headers);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.key, "!foreign key!");
    assert_string_equal(letter.value, "not json");
    assert_true(worker_rig_has_header(&letter, "traceparent", "00-abc"));
    assert_true(worker_rig_has_header(&letter, "secret", "s"));
    assert_true(worker_rig_has_header(&letter, "solfleet-code", "invalid_json"));
    assert_true(worker_rig_has_header(&letter, "solfleet-partition", "2"));
    worker_rig_free(&letter);
    expect_quiet();
}

static void fails_the_id_of_a_record_that_is_no_job_where_it_is_new(void **state) {
    static const char bad[] = "{\"request_id\": \"bad-new\", \"prompt\": 5}";
    produce(NULL, bad);
    expect_letter(NULL, bad, "invalid_field", "prompt");
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_string_equal(record.key, "bad-new");
    struct result result = decoded(&record);
    assert_int_equal(result.status, RESULT_FAILED);
    assert_int_equal(result.error.code, ERROR_INVALID_FIELD);
    assert_string_equal(result.error.field, "prompt");
    result_deinit(&result);
    worker_rig_free(&record);
    worker_rig_until_drained(&rig);
    assert_status("bad-new", "state", "failed");
    assert_status("bad-new", "error_code", "invalid_field");
    expect_quiet();
}

static void does_not_fail_the_id_of_another_job_by_a_record_that_is_none(void **state) {
    static const char bad[] = "{\"request_id\": \"taken\", \"prompt\": 5}";
    worker_rig_produce_job(&rig, "taken");
    expect_result("taken", "done");
    worker_rig_until_drained(&rig);
    produce(NULL, bad);
    expect_letter(NULL, bad, "invalid_field", "prompt");
    expect_quiet();
    assert_status("taken", "state", "done");
}

static void takes_the_key_as_the_id_only_where_that_is_queued(void **state) {
    produce("nobody", "not json");
    expect_letter("nobody", "not json", "invalid_json", NULL);
    expect_quiet();
    assert_status("nobody", "state", NULL);

    worker_rig_produce_job(&rig, "key-done");
    expect_result("key-done", "done");
    worker_rig_until_drained(&rig);
    produce("key-done", "not json");
    expect_letter("key-done", "not json", "invalid_json", NULL);
    expect_quiet();
    assert_status("key-done", "state", "done");
}

static void fails_the_queued_id_that_keys_a_record_without_a_readable_one(void **state) {
    worker_rig_queue(&rig, "key-queued");
    produce("key-queued", "not json");
    expect_letter("key-queued", "not json", "invalid_json", NULL);
    expect_result("key-queued", "failed");
    expect_quiet();
    assert_status("key-queued", "state", "failed");
    assert_status("key-queued", "queued_at", "1");
}

static void accepts_any_key_or_none(void **state) {
    produce(NULL, "{\"request_id\": \"no-key\", \"prompt\": \"x\"}");
    expect_result("no-key", "done");
    produce("", "{\"request_id\": \"empty-key\", \"prompt\": \"x\"}");
    expect_result("empty-key", "done");
    produce("other", "{\"request_id\": \"other-key\", \"prompt\": \"x\"}");
    expect_result("other-key", "done");
    expect_quiet();
}

static void sends_a_null_value_to_the_dead_letters(void **state) {
    worker_rig_produce(&rig, -1, "gone", NULL, 0, NULL);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.key, "gone");
    assert_null(letter.value);
    assert_true(worker_rig_has_header(&letter, "solfleet-code", "invalid_json"));
    worker_rig_free(&letter);
    expect_quiet();
}

static void leaves_out_the_value_of_a_dead_letter_that_is_too_large(void **state) {
    static char value[MESSAGE_BYTES_MAX * 2];
    memset(value, 'x', sizeof value - 1);
    produce("large", value);
    struct worker_rig_record letter = worker_rig_next_letter(&rig);
    assert_string_equal(letter.key, "large");
    assert_int_equal(letter.value_bytes, 0);
    char size[16];
    snprintf(size, sizeof size, "%zu", sizeof value - 1);
    assert_true(worker_rig_has_header(&letter, "solfleet-value-bytes", size));
    assert_non_null(strstr(letter.headers, "solfleet-value-sha256="));
    worker_rig_free(&letter);
    expect_quiet();
}

static void fails_a_job_whose_reply_topic_is_not_allowed(void **state) {
    static const char bad[] =
        "{\"request_id\": \"reply-bad\", \"prompt\": \"x\", \"reply_topic\": \"elsewhere\"}";
    produce(NULL, bad);
    expect_letter(NULL, bad, "invalid_field", "reply_topic");
    expect_result("reply-bad", "failed");
    produce(NULL, "{\"request_id\": \"reply-good\", \"prompt\": \"x\","
                  " \"reply_topic\": \"solfleet.dead-letter\"}");
    struct worker_rig_record record = worker_rig_next_letter(&rig);
    assert_string_equal(record.key, "reply-good");
    assert_true(worker_rig_has_header(&record, "status", "done"));
    worker_rig_free(&record);
    expect_quiet();
    assert_status("reply-good", "result_topic", "solfleet.dead-letter");
}

static void fails_a_job_that_the_engine_rejects_without_a_dead_letter(void **state) {
    char value[PROMPT_BYTES_MAX + 100];
    snprintf(value, sizeof value, "{\"request_id\": \"long\", \"prompt\": \"%0*d\"}",
             PROMPT_BYTES_MAX + 1, 0);
    produce("long", value);
    struct worker_rig_record record = worker_rig_next_result(&rig);
    struct result result = decoded(&record);
    assert_int_equal(result.status, RESULT_FAILED);
    assert_int_equal(result.error.code, ERROR_PROMPT_TOO_LONG);
    result_deinit(&result);
    worker_rig_free(&record);
    expect_quiet();
    assert_status("long", "state", "failed");
    assert_status("long", "error_code", "prompt_too_long");
}

static void lets_no_bad_record_touch_its_neighbours(void **state) {
    static const char *const bad[] = {"",
                                      "null",
                                      "[]",
                                      "{}",
                                      "{\"request_id\": 5}",
                                      "\xff\xfe",
                                      "{\"request_id\":\"b\",\"prompt\":\"\\ud800\"}"};
    size_t count = sizeof bad / sizeof bad[0];
    for (size_t i = 0; i < count; i++) {
        char id[16];
        snprintf(id, sizeof id, "n-%zu", i);
        worker_rig_produce_job(&rig, id);
        worker_rig_produce(&rig, -1, NULL, bad[i], strlen(bad[i]), NULL);
    }
    size_t done = 0, failed = 0;
    for (size_t i = 0; i < count; i++) {
        struct worker_rig_record letter = worker_rig_next_letter(&rig);
        worker_rig_free(&letter);
    }
    worker_rig_until_drained(&rig);
    while (!worker_rig_has_no_result(&rig)) {
        struct worker_rig_record record = worker_rig_next_result(&rig);
        done += worker_rig_has_header(&record, "status", "done");
        failed += worker_rig_has_header(&record, "status", "failed");
        worker_rig_free(&record);
    }
    assert_int_equal(done, count);
    assert_in_range(failed, 0, 1); /* of those only the lone surrogate's id may be readable */
    expect_quiet();
}

static void commits_everything_that_is_settled(void **state) {
    worker_rig_until_drained(&rig);
    struct worker_stats stats = worker_rig_stats(&rig);
    int64_t committed = 0;
    for (int32_t i = 0; i < WORKER_RIG_PARTITIONS; i++) {
        int64_t offset = worker_rig_committed(&rig, GROUP, i);
        committed += offset > 0 ? offset : 0;
    }
    assert_int_equal(committed, stats.source.received_total);
    assert_int_equal(stats.source.settled_total, stats.source.received_total);
    assert_int_equal(stats.source.commits_failed_total, 0);
}

static int start(void **state) {
    static const char *const words[] = {"--max-message-bytes", "8000", "--reply-topics",
                                        "solfleet.dead-letter,b", NULL};
    static const struct engine_null_options engine = {
        .completion_tokens = 4, .answer_bytes = 64, .prompt_bytes_max = PROMPT_BYTES_MAX};
    worker_rig_open(&rig);
    worker_rig_start(&rig, GROUP, words, &engine);
    worker_rig_until_ready(&rig);
    return 0;
}

static int stop(void **state) {
    worker_rig_close(&rig);
    return 0;
}

TEST_MAIN_WITH(start, stop, cmocka_unit_test(answers_a_job_with_result_status_and_commit),
               cmocka_unit_test(answers_a_record_delivered_twice_only_once),
               cmocka_unit_test(leaves_the_first_untouched_when_an_id_comes_with_other_content),
               cmocka_unit_test(sends_what_is_no_job_to_the_dead_letters_untouched),
               cmocka_unit_test(fails_the_id_of_a_record_that_is_no_job_where_it_is_new),
               cmocka_unit_test(does_not_fail_the_id_of_another_job_by_a_record_that_is_none),
               cmocka_unit_test(takes_the_key_as_the_id_only_where_that_is_queued),
               cmocka_unit_test(fails_the_queued_id_that_keys_a_record_without_a_readable_one),
               cmocka_unit_test(accepts_any_key_or_none),
               cmocka_unit_test(sends_a_null_value_to_the_dead_letters),
               cmocka_unit_test(leaves_out_the_value_of_a_dead_letter_that_is_too_large),
               cmocka_unit_test(fails_a_job_whose_reply_topic_is_not_allowed),
               cmocka_unit_test(fails_a_job_that_the_engine_rejects_without_a_dead_letter),
               cmocka_unit_test(lets_no_bad_record_touch_its_neighbours),
               cmocka_unit_test(commits_everything_that_is_settled))
