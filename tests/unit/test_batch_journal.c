#include "consumer/batch_journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

static struct batch_journal journal = {.fd = -1};
static char *path, *output, *errors;
static char err[512];

static bool open_journal(const char *hash, size_t count, bool *resumed) {
    batch_journal_close(&journal);
    err[0] = '\0';
    return batch_journal_open(&journal, path, hash, count, resumed, err, sizeof err);
}

static void begin(size_t count) {
    bool resumed;
    unlink(path);
    assert_true(open_journal("h", count, &resumed));
    assert_false(resumed);
}

static void resume(size_t count) {
    bool resumed;
    if (!open_journal("h", count, &resumed)) {
        fail_msg("%s", err);
    }
    assert_true(resumed);
}

static void end_line(size_t index, bool failed, const char *text) {
    assert_true(batch_journal_note_end(&journal, index, failed, text, err, sizeof err));
}

static void send_line(size_t index) {
    assert_true(batch_journal_note_sent(&journal, index, err, sizeof err));
}

static void holds(const char *name, const char *text) {
    char found[4096];
    FILE *from = fopen(name, "rb");
    assert_non_null(from);
    found[fread(found, 1, sizeof found - 1, from)] = '\0';
    fclose(from);
    assert_string_equal(found, text);
}

static void append(const char *text) {
    FILE *to = fopen(path, "ab");
    assert_non_null(to);
    fputs(text, to);
    fclose(to);
}

static void writes_outcomes_in_the_order_of_the_input(void **state) {
    begin(5);
    end_line(3, false, "{\"d\":3}");
    end_line(4, true, "{\"f\":4}");
    send_line(0);
    end_line(0, false, "{\"d\":0}");
    end_line(2, true, "{\"f\":2}");
    end_line(1, false, "");
    assert_int_equal(journal.done_count, 3);
    assert_int_equal(journal.failed_count, 2);
    assert_true(batch_journal_publish(&journal, output, errors, err, sizeof err));
    holds(output, "{\"d\":0}\n\n{\"d\":3}\n");
    holds(errors, "{\"f\":2}\n{\"f\":4}\n");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void leaves_no_file_of_errors_without_errors(void **state) {
    begin(1);
    end_line(0, false, "x");
    FILE *old = fopen(errors, "wb");
    fclose(old);
    assert_true(batch_journal_publish(&journal, output, errors, err, sizeof err));
    holds(output, "x\n");
    assert_int_not_equal(access(errors, F_OK), 0);
}

static void goes_on_where_it_was(void **state) {
    begin(4);
    send_line(0);
    send_line(1);
    end_line(1, false, "one");
    end_line(2, true, "two");
    resume(4);
    assert_int_equal(journal.marks[0].kind, BATCH_MARK_SENT);
    assert_false(batch_journal_has_ended(&journal, 0));
    assert_true(batch_journal_has_ended(&journal, 1));
    assert_true(batch_journal_has_ended(&journal, 2));
    assert_int_equal(journal.marks[3].kind, BATCH_MARK_NONE);
    assert_int_equal(journal.done_count, 1);
    assert_int_equal(journal.failed_count, 1);
    end_line(0, false, "zero");
    end_line(3, false, "three");
    assert_true(batch_journal_publish(&journal, output, errors, err, sizeof err));
    holds(output, "zero\none\nthree\n");
    holds(errors, "two\n");
}

static void drops_a_last_line_that_was_cut(void **state) {
    begin(2);
    end_line(0, false, "zero");
    batch_journal_close(&journal);
    append("D 1 {\"cut");
    resume(2);
    assert_false(batch_journal_has_ended(&journal, 1));
    end_line(1, false, "one");
    resume(2);
    assert_int_equal(journal.done_count, 2);
    assert_true(batch_journal_publish(&journal, output, errors, err, sizeof err));
    holds(output, "zero\none\n");
}

static void begins_anew_when_even_the_head_was_cut(void **state) {
    bool resumed;
    batch_journal_close(&journal);
    unlink(path);
    append("solfleet bat");
    assert_true(open_journal("h", 1, &resumed));
    assert_false(resumed);
    end_line(0, false, "zero");
    resume(1);
    assert_int_equal(journal.done_count, 1);
}

static void refuses_the_journal_of_another_input(void **state) {
    bool resumed;
    begin(2);
    assert_false(open_journal("other", 2, &resumed));
    assert_non_null(strstr(err, "another batch"));
    assert_false(open_journal("h", 3, &resumed));
}

static void refuses_lines_that_it_did_not_write(void **state) {
    static const char *const bad[] = {"D 2 x\n", "X 0 x\n", "D x\n", "S 0 x\n", "D 0\n", "\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool resumed;
        begin(2);
        batch_journal_close(&journal);
        append(bad[i]);
        if (open_journal("h", 2, &resumed)) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_non_null(strstr(err, "is damaged"));
    }
}

static void refuses_a_second_run_at_the_same_time(void **state) {
    struct batch_journal second;
    bool resumed;
    begin(1);
    assert_false(batch_journal_open(&second, path, "h", 1, &resumed, err, sizeof err));
    assert_non_null(strstr(err, "another run"));
    batch_journal_close(&second);
    end_line(0, false, "zero");
    resume(1);
    assert_int_equal(journal.done_count, 1);
}

static void keeps_the_journal_when_the_output_cannot_be_written(void **state) {
    begin(1);
    end_line(0, false, "zero");
    assert_false(batch_journal_publish(&journal, "/nowhere/at/all", errors, err, sizeof err));
    assert_non_null(strstr(err, "/nowhere/at/all"));
    resume(1);
    assert_int_equal(journal.done_count, 1);
}

static int start(void **state) {
    path = test_tmp_path("journal");
    output = test_tmp_path("out");
    errors = test_tmp_path("err");
    return 0;
}

static int stop(void **state) {
    batch_journal_close(&journal);
    free(path);
    free(output);
    free(errors);
    return 0;
}

TEST_MAIN_WITH(start, stop, cmocka_unit_test(writes_outcomes_in_the_order_of_the_input),
               cmocka_unit_test(leaves_no_file_of_errors_without_errors),
               cmocka_unit_test(goes_on_where_it_was),
               cmocka_unit_test(drops_a_last_line_that_was_cut),
               cmocka_unit_test(begins_anew_when_even_the_head_was_cut),
               cmocka_unit_test(refuses_the_journal_of_another_input),
               cmocka_unit_test(refuses_lines_that_it_did_not_write),
               cmocka_unit_test(refuses_a_second_run_at_the_same_time),
               cmocka_unit_test(keeps_the_journal_when_the_output_cannot_be_written))
