/* What `submit` makes of the files it is given. */
#include "consumer/job_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

struct complaints {
    size_t count;
    char last[1024];
};

static void note(void *context, const char *text) {
    struct complaints *complaints = context;
    complaints->count++;
    snprintf(complaints->last, sizeof complaints->last, "%s", text);
}

static struct job_file added(const char *source, const char *text,
                             const struct job_file_wishes *wishes, struct complaints *complaints) {
    struct job_file file = {0};
    struct job_file_report report = {note, complaints};
    *complaints = (struct complaints){0};
    assert_true(job_file_add(&file, source, text, strlen(text), wishes, &report));
    return file;
}

static struct job decoded(const struct job_file_entry *entry) {
    struct job_limits limits = job_limits_default();
    struct job job;
    struct job_error error;
    assert_int_equal(job_decode(entry->value, entry->value_bytes, &limits, &job, &error),
                     ERROR_NONE);
    assert_string_equal(job.request_id, entry->request_id);
    return job;
}

static void tells_the_three_kinds_apart(void **state) {
    static const struct {
        const char *text;
        enum job_file_kind kind;
    } cases[] = {
        {"", JOB_FILE_TEXT},
        {"Two Sum", JOB_FILE_TEXT},
        {"# Two Sum\n\n{\"a\": 1}\n", JOB_FILE_TEXT},
        {"[1, 2]", JOB_FILE_TEXT},
        {"{\"a\":1}", JOB_FILE_JSON},
        {"\xEF\xBB\xBF  {\"a\":1}\r\n", JOB_FILE_JSON},
        {"{\n  \"a\": 1\n}\n", JOB_FILE_JSON},
        {"{\"a\": {\n}}\n", JOB_FILE_JSON},
        {"{\"a\":1}\n{\"a\":2}\n", JOB_FILE_LINES},
        {"{\"a\":1}\r\n\r\n  {\"a\":2}", JOB_FILE_LINES},
        {"{\"a\":1}\nnonsense\n", JOB_FILE_LINES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum job_file_kind kind = job_file_detect(cases[i].text, strlen(cases[i].text));
        if (kind != cases[i].kind) {
            fail_msg("case %zu: kind %d", i, kind);
        }
    }
}

static void makes_a_problem_of_a_text_with_its_heading_as_title(void **state) {
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    struct job_file file =
        added("dir/two sum.md", "\n# Two Sum\n\nFind two numbers.\n", &wishes, &complaints);
    assert_int_equal(file.count, 1);
    assert_int_equal(complaints.count, 0);
    struct job job = decoded(&file.entries[0]);
    assert_int_equal(job.kind, JOB_PROBLEM);
    assert_string_equal(job.problem.title, "Two Sum");
    assert_string_equal(job.problem.statement, "Find two numbers.");
    assert_memory_equal(job.request_id, "twosum-", 7);
    assert_int_equal(strlen(job.request_id), 7 + 12);
    job_deinit(&job);
    job_file_deinit(&file);
}

static void keeps_a_text_without_heading_whole(void **state) {
    const char *texts[] = {"Reverse a list.", "#hashtag problem\nmore", "# only a heading"};
    for (size_t i = 0; i < 3; i++) {
        struct job job;
        assert_true(job_file_make_problem(&job, "x", texts[i], strlen(texts[i])));
        assert_null(job.problem.title);
        assert_string_equal(job.problem.statement, texts[i]);
        job_deinit(&job);
    }
}

static void makes_ids_that_are_valid_and_differ(void **state) {
    const char *sources[] = {
        "-", "", "/", "a.md", ".md", "\xE4\xB8\xA4\xE6\x95\xB0.md", "x/--weird name!!.tar.gz"};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        char one[JOB_ID_BYTES_MAX + 1], two[JOB_ID_BYTES_MAX + 1];
        job_file_make_id(sources[i], one);
        job_file_make_id(sources[i], two);
        assert_true(job_request_id_is_valid(one, strlen(one)));
        assert_string_not_equal(one, two);
    }
}

static void sends_a_json_job_byte_for_byte(void **state) {
    const char *text = "{\"request_id\": \"a\",  \"prompt\": \"x\", \"from_the_future\": [1]}";
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    struct job_file file = added("a.json", text, &wishes, &complaints);
    assert_int_equal(file.count, 1);
    assert_int_equal(file.entries[0].value_bytes, strlen(text));
    assert_memory_equal(file.entries[0].value, text, strlen(text));
    job_file_deinit(&file);
}

static void gives_an_id_to_a_json_job_without_one(void **state) {
    const char *texts[] = {"{\"prompt\":\"x\"}", "{ \n \"prompt\": \"x\", \"priority\": 1 \n}\n"};
    for (size_t i = 0; i < 2; i++) {
        struct complaints complaints;
        struct job_file_wishes wishes = job_file_no_wishes();
        struct job_file file = added("my.json", texts[i], &wishes, &complaints);
        assert_int_equal(complaints.count, 0);
        struct job job = decoded(&file.entries[0]);
        assert_memory_equal(job.request_id, "my-", 3);
        assert_string_equal(job.prompt, "x");
        job_deinit(&job);
        job_file_deinit(&file);
    }
}

static void lets_options_beat_the_file(void **state) {
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    wishes.id = "mine";
    wishes.max_tokens = 7;
    wishes.temperature = 0;
    wishes.seed = 9007199254740991;
    wishes.priority = 0;
    wishes.timeout_ms = 1500;
    wishes.progress = JOB_PROGRESS_TEXT;
    wishes.answer_language = JOB_ANSWER_ZH;
    wishes.code_language = "rust";
    struct job_file file = added(
        "a.json",
        "{\"request_id\":\"a\",\"problem\":{\"statement\":\"s\"},\"params\":{\"max_tokens\":9}}",
        &wishes, &complaints);
    struct job job = decoded(&file.entries[0]);
    assert_string_equal(job.request_id, "mine");
    assert_int_equal(job.params.max_tokens, 7);
    assert_true(job.params.temperature < 0.001f);
    assert_true(job.params.seed == 9007199254740991);
    assert_int_equal(job.priority, 0);
    assert_int_equal(job.timeout_ms, 1500);
    assert_int_equal(job.progress, JOB_PROGRESS_TEXT);
    assert_int_equal(job.problem.answer_language, JOB_ANSWER_ZH);
    assert_string_equal(job.problem.code_language, "rust");
    job_deinit(&job);
    job_file_deinit(&file);
}

static void names_file_line_and_field_of_a_wrong_job(void **state) {
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    struct job_file file = added("jobs.jsonl",
                                 "{\"request_id\":\"a\",\"prompt\":\"x\"}\n\n"
                                 "{\"request_id\":\"b\",\"prompt\":\"x\","
                                 "\"params\":{\"max_tokens\":0}}\n"
                                 "{\"request_id\":\"c\",\"prompt\":\"x\"}\n",
                                 &wishes, &complaints);
    assert_int_equal(file.count, 2);
    assert_int_equal(file.complaint_count, 1);
    assert_memory_equal(complaints.last, "jobs.jsonl:3: params.max_tokens: ", 33);
    assert_non_null(strstr(complaints.last, "(invalid_field)"));
    job_file_deinit(&file);
}

static void says_no_more_than_ten_complaints_and_counts_all(void **state) {
    char text[4096] = "";
    for (int i = 0; i < 25; i++) {
        strcat(text, "{\"request_id\":\"\"}\n");
    }
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    struct job_file file = added("jobs.jsonl", text, &wishes, &complaints);
    assert_int_equal(complaints.count, JOB_FILE_COMPLAINTS_MAX);
    assert_int_equal(file.complaint_count, 25);
    job_file_deinit(&file);
}

static void finds_an_id_that_stands_twice(void **state) {
    struct complaints complaints;
    struct job_file_wishes wishes = job_file_no_wishes();
    struct job_file file = added("jobs.jsonl",
                                 "{\"request_id\":\"a\",\"prompt\":\"x\"}\n"
                                 "{\"request_id\":\"b\",\"prompt\":\"x\"}\n"
                                 "{\"request_id\":\"a\",\"prompt\":\"y\"}\n",
                                 &wishes, &complaints);
    struct job_file_report report = {note, &complaints};
    assert_true(job_file_check_ids(&file, &report));
    assert_int_equal(file.complaint_count, 1);
    assert_non_null(strstr(complaints.last, "jobs.jsonl:3: request_id"));
    assert_non_null(strstr(complaints.last, "jobs.jsonl:1"));
    job_file_deinit(&file);
}

static void refuses_binary_and_broken_texts(void **state) {
    static const struct {
        const char *text;
        size_t bytes;
        const char *said;
    } cases[] = {
        {"a\0b", 3, "zero byte"},
        {"\xFF\xFE text", 7, "invalid_utf8"},
        {"", 0, "problem.statement"},
        {"{\"request_id\":", 14, "invalid_json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct complaints complaints = {0};
        struct job_file_wishes wishes = job_file_no_wishes();
        struct job_file file = {0};
        struct job_file_report report = {note, &complaints};
        assert_true(job_file_add(&file, "f", cases[i].text, cases[i].bytes, &wishes, &report));
        assert_int_equal(file.count, 0);
        assert_int_equal(file.complaint_count, 1);
        if (!strstr(complaints.last, cases[i].said)) {
            fail_msg("case %zu says: %s", i, complaints.last);
        }
        job_file_deinit(&file);
    }
}

static void reads_a_file_and_says_why_it_cannot(void **state) {
    char *path = test_tmp_path("job.txt"), *text = NULL, err[256];
    size_t bytes = 0;
    FILE *out = fopen(path, "w");
    for (int i = 0; i < 50000; i++) {
        fputs("line\n", out);
    }
    fclose(out);
    assert_true(job_file_read(path, &text, &bytes, err, sizeof err));
    assert_int_equal(bytes, 250000);
    assert_int_equal(strlen(text), 250000);
    free(text);
    free(path);
    assert_false(job_file_read("/nowhere/at/all", &text, &bytes, err, sizeof err));
    assert_string_equal(err, "cannot read /nowhere/at/all: No such file or directory");
    assert_false(job_file_read(test_tmpdir(), &text, &bytes, err, sizeof err));
}

TEST_MAIN(cmocka_unit_test(tells_the_three_kinds_apart),
          cmocka_unit_test(makes_a_problem_of_a_text_with_its_heading_as_title),
          cmocka_unit_test(keeps_a_text_without_heading_whole),
          cmocka_unit_test(makes_ids_that_are_valid_and_differ),
          cmocka_unit_test(sends_a_json_job_byte_for_byte),
          cmocka_unit_test(gives_an_id_to_a_json_job_without_one),
          cmocka_unit_test(lets_options_beat_the_file),
          cmocka_unit_test(names_file_line_and_field_of_a_wrong_job),
          cmocka_unit_test(says_no_more_than_ten_complaints_and_counts_all),
          cmocka_unit_test(finds_an_id_that_stands_twice),
          cmocka_unit_test(refuses_binary_and_broken_texts),
          cmocka_unit_test(reads_a_file_and_says_why_it_cannot))
