#include "consumer/bench_child.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

static char err[256];

static void start(struct bench_child *child, const char *script, const char *log_path) {
    char shell[] = "sh", flag[] = "-c";
    char *copy = strdup(script);
    char *argv[] = {shell, flag, copy, NULL};
    assert_true(bench_child_start(child, argv, log_path, err, sizeof err));
    free(copy);
}

static void wait_for_log(const char *path, const char *words) {
    for (char *log = NULL; !(log && strstr(log, words)); poll(NULL, 0, 2)) {
        free(log);
        log = bench_child_read_log(path, 1000);
        if (log && strstr(log, words)) {
            free(log);
            return;
        }
    }
}

static void its_output_is_in_the_log_and_its_exit_code_is_told(void **state) {
    struct bench_child child;
    char *path = test_tmp_path("said.log");
    start(&child, "echo out; echo err >&2; exit 5", path);
    while (bench_child_is_running(&child)) {
        poll(NULL, 0, 2);
    }
    assert_int_equal(bench_child_stop(&child, 1000), 5);
    char *log = bench_child_read_log(path, 1000);
    assert_string_equal(log, "out\nerr\n");
    free(log);
    log = bench_child_read_log(path, 4);
    assert_string_equal(log, "err\n");
    free(log);
    free(path);
}

static void stops_by_asking_and_then_by_force(void **state) {
    struct bench_child child;
    char *path = test_tmp_path("asked.log");
    start(&child, "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done", path);
    wait_for_log(path, "up");
    assert_true(bench_child_is_running(&child));
    assert_int_equal(bench_child_stop(&child, 60000), 3);
    free(path);

    path = test_tmp_path("forced.log");
    start(&child, "trap '' TERM; echo up; while :; do sleep 0.01; done", path);
    wait_for_log(path, "up");
    assert_int_equal(bench_child_stop(&child, 20), 128 + SIGKILL);
    free(path);
}

static void an_unknown_program_ends_at_once(void **state) {
    struct bench_child child;
    char name[] = "no-such-program-of-ours";
    char *argv[] = {name, NULL};
    char *path = test_tmp_path("unknown.log");
    assert_true(bench_child_start(&child, argv, path, err, sizeof err));
    while (bench_child_is_running(&child)) {
        poll(NULL, 0, 2);
    }
    assert_int_equal(bench_child_stop(&child, 1000), 127);
    free(path);
}

static void says_when_its_log_cannot_be_written(void **state) {
    struct bench_child child;
    char name[] = "true";
    char *argv[] = {name, NULL};
    assert_false(bench_child_start(&child, argv, "/no/such/folder/log", err, sizeof err));
    assert_non_null(strstr(err, "/no/such/folder/log"));
    assert_int_equal(bench_child_stop(&child, 0), 0);
    assert_null(bench_child_read_log("/no/such/folder/log", 10));
}

TEST_MAIN(cmocka_unit_test(its_output_is_in_the_log_and_its_exit_code_is_told),
          cmocka_unit_test(stops_by_asking_and_then_by_force),
          cmocka_unit_test(an_unknown_program_ends_at_once),
          cmocka_unit_test(says_when_its_log_cannot_be_written))
