#include "consumer/shutdown.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#define EXIT_AT_ONCE 75

static bool is_readable(void) {
    struct pollfd watch = {.fd = shutdown_fd(), .events = POLLIN};
    return poll(&watch, 1, 0) == 1;
}

static void makes_its_descriptor_readable_at_the_first_signal(void **state) {
    shutdown_open(EXIT_AT_ONCE, 0);
    assert_false(is_readable());
    assert_false(shutdown_is_wanted());
    raise(SIGTERM);
    assert_true(is_readable());
    assert_true(shutdown_is_wanted());
    shutdown_close();
}

/* Runs in a child and gives its exit code. */
static int exit_of(void (*run)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        shutdown_open(EXIT_AT_ONCE, 1);
        run();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void signal_twice(void) {
    raise(SIGINT);
    raise(SIGTERM);
}

static void hang_under_watch(void) {
    shutdown_watch(1);
    for (;;) {
        pause();
    }
}

static void hang_after_a_signal(void) {
    raise(SIGTERM);
    for (;;) {
        pause();
    }
}

static void end_in_time(void) {
    shutdown_watch(1000);
    shutdown_close();
}

static void ends_at_once_at_the_second_signal(void **state) {
    assert_int_equal(exit_of(signal_twice), EXIT_AT_ONCE);
}

static void ends_a_shutdown_that_hangs(void **state) {
    assert_int_equal(exit_of(hang_under_watch), EXIT_AT_ONCE);
}

static void bounds_what_follows_the_first_signal(void **state) {
    assert_int_equal(exit_of(hang_after_a_signal), EXIT_AT_ONCE);
}

static void lets_a_shutdown_in_time_be(void **state) {
    assert_int_equal(exit_of(end_in_time), 0);
}

TEST_MAIN(cmocka_unit_test(makes_its_descriptor_readable_at_the_first_signal),
          cmocka_unit_test(ends_at_once_at_the_second_signal),
          cmocka_unit_test(ends_a_shutdown_that_hangs),
          cmocka_unit_test(bounds_what_follows_the_first_signal),
          cmocka_unit_test(lets_a_shutdown_in_time_be))
