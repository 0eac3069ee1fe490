#include "consumer/batch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/test.h"

static struct batch_file file = {.fd = -1};
static char said[8192];
static char err[512];

static void note(void *context, const char *text) {
    (void)context;
    size_t used = strlen(said);
    const char *name = strrchr(text, '/'); /* the folder's name is any */
    snprintf(said + used, sizeof said - used, "%s\n", name ? name + 1 : text);
}

static char *write_file(const char *text, size_t bytes) {
    char *path = test_tmp_path("in.jsonl");
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, bytes, to), bytes);
    fclose(to);
    return path;
}

static char path_kept[512];

static bool open_text(const char *text) {
    const struct batch_file_report report = {note, NULL};
    char *path = write_file(text, strlen(text));
    snprintf(path_kept, sizeof path_kept, "%s", path);
    free(path);
    batch_file_close(&file);
    said[0] = err[0] = '\0';
    return batch_file_open(&file, path_kept, &report, err, sizeof err);
}

static void indexes_the_lines_that_are_not_blank(void **state) {
    assert_true(open_text("\n{\"request_id\":\"a\",\"prompt\":\"1\"}\r\n \t\n{\"prompt\":\"2\"}"));
    assert_string_equal(said, "");
    assert_int_equal(file.kind, BATCH_JOBS);
    assert_int_equal(file.count, 2);
    assert_int_equal(file.entries[1].line, 4);
    struct batch_line line;
    assert_true(batch_file_read(&file, 0, &line, err, sizeof err));
    assert_string_equal(line.request_id, "a");
    batch_line_deinit(&line);
    char id[64];
    snprintf(id, sizeof id, "batch-%.16s-4", file.sha256);
    assert_true(batch_file_read(&file, 1, &line, err, sizeof err));
    assert_string_equal(line.request_id, id);
    batch_line_deinit(&line);
}

static void gives_equal_ids_to_equal_files(void **state) {
    char first[BATCH_LINE_FILE_ID_BYTES];
    assert_true(open_text("{\"prompt\":\"1\"}\n"));
    memcpy(first, file.id, sizeof first);
    assert_true(open_text("{\"prompt\":\"1\"}\n"));
    assert_string_equal(file.id, first);
    assert_true(open_text("{\"prompt\":\"2\"}\n"));
    assert_string_not_equal(file.id, first);
}

static void reports_every_line_that_is_wrong(void **state) {
    assert_true(open_text("{\"request_id\":\"a\",\"prompt\":\"1\"}\n{\"request_id\":\"b\"}\n{\n"));
    assert_int_equal(file.complaint_count, 2);
    assert_non_null(strstr(said, "in.jsonl:2: problem: "));
    assert_non_null(strstr(said, "in.jsonl:3: "));
}

static void judges_all_lines_by_the_kind_of_the_first(void **state) {
    assert_true(
        open_text("{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
                  "\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}}\n"
                  "{\"request_id\":\"a\",\"prompt\":\"1\"}\n"));
    assert_int_equal(file.kind, BATCH_OPENAI);
    assert_int_equal(file.complaint_count, 1);
    assert_non_null(strstr(said, "in.jsonl:2: custom_id: is required"));
}

static void reports_ids_that_stand_twice(void **state) {
    assert_true(
        open_text("{\"request_id\":\"a\",\"prompt\":\"1\"}\n{\"request_id\":\"b\",\"prompt\":"
                  "\"1\"}\n{\"request_id\":\"a\",\"prompt\":\"2\"}\n{\"request_id\":\"a\","
                  "\"prompt\":\"3\"}\n"));
    assert_int_equal(file.complaint_count, 2);
    assert_string_equal(said, "in.jsonl:3: request_id: stands on line 1, too (invalid_field)\n"
                              "in.jsonl:4: request_id: stands on line 3, too (invalid_field)\n");
}

static void says_ten_complaints_and_counts_the_rest(void **state) {
    char text[256] = "";
    for (int i = 0; i < 25; i++) {
        strcat(text, "{}\n");
    }
    assert_true(open_text(text));
    assert_int_equal(file.complaint_count, 25);
    size_t lines = 0;
    for (const char *at = said; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    assert_int_equal(lines, BATCH_FILE_COMPLAINTS_MAX);
}

static void refuses_a_line_beyond_the_limit_and_reads_on(void **state) {
    size_t bytes = BATCH_LINE_BYTES_MAX + 1;
    char *text = malloc(bytes + 64);
    memset(text, ' ', bytes);
    strcpy(text + bytes, "\n{\"request_id\":\"a\",\"prompt\":\"1\"}");
    text[0] = '{';
    assert_true(open_text(text));
    free(text);
    assert_int_equal(file.complaint_count, 1);
    assert_non_null(strstr(said, "in.jsonl:1: the line is longer than"));
    struct batch_line line;
    assert_true(batch_file_read(&file, 0, &line, err, sizeof err));
    assert_string_equal(line.request_id, "a");
    batch_line_deinit(&line);
}

static void notices_that_a_file_has_changed(void **state) {
    struct batch_line line;
    assert_true(open_text("{\"request_id\":\"a\",\"prompt\":\"1\"}\n"));
    free(write_file("{\"request_id\":\"b\",\"prompt\":\"1\"}\n", 33));
    assert_false(batch_file_read(&file, 0, &line, err, sizeof err));
    assert_non_null(strstr(err, "has changed"));
    free(write_file("{}", 2));
    assert_false(batch_file_read(&file, 0, &line, err, sizeof err));
}

static void refuses_what_is_no_file(void **state) {
    const struct batch_file_report report = {note, NULL};
    batch_file_close(&file);
    assert_false(batch_file_open(&file, "/nowhere/x.jsonl", &report, err, sizeof err));
    batch_file_close(&file);
    assert_false(batch_file_open(&file, test_tmpdir(), &report, err, sizeof err));
    assert_non_null(strstr(err, "must be a file"));
}

static int forget(void **state) {
    batch_file_close(&file);
    return 0;
}

TEST_MAIN_WITH(NULL, forget, cmocka_unit_test(indexes_the_lines_that_are_not_blank),
               cmocka_unit_test(gives_equal_ids_to_equal_files),
               cmocka_unit_test(reports_every_line_that_is_wrong),
               cmocka_unit_test(judges_all_lines_by_the_kind_of_the_first),
               cmocka_unit_test(reports_ids_that_stand_twice),
               cmocka_unit_test(says_ten_complaints_and_counts_the_rest),
               cmocka_unit_test(refuses_a_line_beyond_the_limit_and_reads_on),
               cmocka_unit_test(notices_that_a_file_has_changed),
               cmocka_unit_test(refuses_what_is_no_file))
