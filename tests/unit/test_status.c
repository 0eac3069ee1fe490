#include "schemas/status.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/example.h"
#include "tests/support/test.h"

static bool set(struct status *status, const char *name, const char *value) {
    return status_set_field(status, name, strlen(name), value, strlen(value));
}

static void assert_encodes_as(const struct status *status, const char *expected) {
    char *text = status_encode(status);
    assert_string_equal(text, expected);
    free(text);
}

static void a_key_that_is_missing_is_unknown_and_never_failed(void **state) {
    struct status status;
    status_init(&status, "job-1");
    assert_int_equal(status.state, STATUS_UNKNOWN);
    assert_false(status_state_is_terminal(status.state));
    assert_encodes_as(&status, "{\"request_id\":\"job-1\",\"state\":\"unknown\"}");
    status_deinit(&status);
}

static void every_state_has_a_name_that_reads_back(void **state) {
    for (int i = STATUS_QUEUED; i <= STATUS_CANCELLED; i++) {
        enum status_state read = STATUS_UNKNOWN;
        const char *name = status_state_name((enum status_state)i);
        assert_true(status_state_parse(name, strlen(name), &read));
        assert_int_equal(read, i);
        assert_int_equal(status_state_is_terminal(read), i >= STATUS_DONE);
    }
    enum status_state read = STATUS_DONE;
    assert_false(status_state_parse("unknown", 7, &read));
    assert_false(status_state_parse("don", 3, &read));
    assert_false(status_state_parse("done!", 5, &read));
    assert_false(status_state_parse("", 0, &read));
    assert_int_equal(read, STATUS_DONE);
}

static void shows_what_the_hash_holds(void **state) {
    static const char *const fields[][2] = {{"state", "done"},
                                            {"attempt", "2"},
                                            {"deaths", "0"},
                                            {"worker", "w-1"},
                                            {"lease_until", "1790000000000"},
                                            {"fingerprint", "ab"},
                                            {"sealed", "done"},
                                            {"owner", "w-1/0123456789abcdef"},
                                            {"claim", "3:17:1"},
                                            {"running_attempt", "2"},
                                            {"cancel_requested", "1"},
                                            {"of_a_later_version", "\xFF"},
                                            {"queued_at", "1790000000000"},
                                            {"started_at", "1790000000001"},
                                            {"finished_at", "1790000000900"},
                                            {"prompt_tokens", "11"},
                                            {"completion_tokens", "22"},
                                            {"text", "a\n题"},
                                            {"error_code", "internal"},
                                            {"error_message", "so it is"},
                                            {"result", "{\"status\": \"done\"}"},
                                            {"result_topic", "solfleet.results"},
                                            {"result_partition", "3"},
                                            {"result_offset", "9007199254740993"}};
    struct status status;
    status_init(&status, "job-1");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_true(set(&status, fields[i][0], fields[i][1]));
    }
    assert_string_equal(status.fingerprint, "ab");
    assert_encodes_as(
        &status,
        "{\"request_id\":\"job-1\",\"state\":\"done\",\"attempt\":2,\"deaths\":0,\"worker\":\"w-1\","
        "\"queued_at\":1790000000000,\"started_at\":1790000000001,\"finished_at\":1790000000900,"
        "\"prompt_tokens\":11,\"completion_tokens\":22,\"text\":\"a\\n题\",\"error_code\":"
        "\"internal\",\"error_message\":\"so it is\",\"result\":{\"status\": \"done\"},"
        "\"result_topic\":\"solfleet.results\",\"result_partition\":3,"
        "\"result_offset\":9007199254740993,\"cancel_requested\":true}");
    status_deinit(&status);
    status_deinit(&status);
}

static void shows_nothing_of_an_outcome_that_is_only_sealed(void **state) {
    static const char *const fields[][2] = {{"state", "running"},
                                            {"sealed", "failed"},
                                            {"finished_at", "1790000000900"},
                                            {"completion_tokens", "22"},
                                            {"text", "so far"},
                                            {"error_code", "internal"},
                                            {"error_message", "so it is"},
                                            {"result", "{\"status\":\"failed\"}"}};
    struct status status;
    status_init(&status, "j");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_true(set(&status, fields[i][0], fields[i][1]));
    }
    status_hide_sealed(&status);
    assert_encodes_as(&status, "{\"request_id\":\"j\",\"state\":\"running\","
                               "\"completion_tokens\":22,\"text\":\"so far\"}");
    status_deinit(&status);
}

static void hides_nothing_of_a_job_that_has_ended(void **state) {
    struct status status;
    status_init(&status, "j");
    assert_true(set(&status, "state", "failed"));
    assert_true(set(&status, "error_code", "internal"));
    status_hide_sealed(&status);
    assert_encodes_as(&status,
                      "{\"request_id\":\"j\",\"state\":\"failed\",\"error_code\":\"internal\"}");
    status_deinit(&status);
}

static void reports_a_field_that_is_malformed(void **state) {
    static const char *const fields[][2] = {
        {"state", "finished"},    {"state", ""},
        {"attempt", ""},          {"attempt", "-1"},
        {"attempt", "1 "},        {"attempt", "0x1"},
        {"queued_at", "1.5"},     {"queued_at", "9999999999999999999"},
        {"worker", "\xFF"},       {"text", "\xED\xA0\x80"},
        {"result", "{"},          {"result", "[]"},
        {"result", ""},           {"result", "{\"a\":1,\"a\":2}"},
        {"error_message", "\x80"}};
    struct status status;
    status_init(&status, "job-1");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_false(set(&status, fields[i][0], fields[i][1]));
    }
    assert_false(status_set_field(&status, "text", 4, "a\0b", 3));
    assert_encodes_as(&status, "{\"request_id\":\"job-1\",\"state\":\"unknown\"}");
    status_deinit(&status);
}

static void a_later_reading_replaces_an_earlier_one(void **state) {
    struct status status;
    status_init(&status, "j");
    assert_true(set(&status, "text", "first"));
    assert_true(set(&status, "text", "second"));
    assert_true(set(&status, "state", "running"));
    assert_true(set(&status, "state", "done"));
    assert_encodes_as(&status, "{\"request_id\":\"j\",\"state\":\"done\",\"text\":\"second\"}");
    status_deinit(&status);
}

static void writes_the_published_example_byte_for_byte(void **state) {
    char *result = example_read("result_done.json");
    const char *const fields[][2] = {{"state", "done"},
                                     {"attempt", "1"},
                                     {"deaths", "0"},
                                     {"worker", "host-1:4711"},
                                     {"queued_at", "1790000000000"},
                                     {"started_at", "1790000000053"},
                                     {"finished_at", "1790000005210"},
                                     {"prompt_tokens", "143"},
                                     {"completion_tokens", "288"},
                                     {"result", result},
                                     {"result_topic", "solfleet.results"},
                                     {"result_partition", "4"},
                                     {"result_offset", "1033"}};
    struct status status;
    status_init(&status, "web-000001");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_true(set(&status, fields[i][0], fields[i][1]));
    }
    char *expected = example_read("status_done.json");
    assert_encodes_as(&status, expected);
    free(expected);
    free(result);
    status_deinit(&status);
}

static void names_the_key_and_the_channel_of_a_job(void **state) {
    char out[24];
    assert_true(status_key(out, sizeof out, "solfleet:", "a:b"));
    assert_string_equal(out, "solfleet:job:{a:b}");
    assert_true(status_channel(out, sizeof out, "x:", "a:b"));
    assert_string_equal(out, "x:events:{a:b}");
    assert_true(status_key(out, sizeof out, "solfleet:", "12345678"));
    assert_false(status_key(out, sizeof out, "solfleet:", "123456789"));
}

TEST_MAIN(cmocka_unit_test(a_key_that_is_missing_is_unknown_and_never_failed),
          cmocka_unit_test(every_state_has_a_name_that_reads_back),
          cmocka_unit_test(shows_what_the_hash_holds),
          cmocka_unit_test(shows_nothing_of_an_outcome_that_is_only_sealed),
          cmocka_unit_test(hides_nothing_of_a_job_that_has_ended),
          cmocka_unit_test(reports_a_field_that_is_malformed),
          cmocka_unit_test(a_later_reading_replaces_an_earlier_one),
          cmocka_unit_test(writes_the_published_example_byte_for_byte),
          cmocka_unit_test(names_the_key_and_the_channel_of_a_job))
