/* The harness around cmocka that every C test includes: it adds a main that can run one case, a
 * reason to skips, scratch folders, free ports and a seed. Not for threads other than main's.
 *
 *     static void counts_an_unsettled_record_as_unfinished(void **state) { ... }
 *     TEST_MAIN(cmocka_unit_test(counts_an_unsettled_record_as_unfinished), ...)
 */
#ifndef SOLFLEET_TESTS_SUPPORT_TEST_H
#define SOLFLEET_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Defines main. Arguments of the binary: nothing (all cases), a case name or a pattern with `*`
 * (those cases; none matching is an error), or --list. */
#define TEST_MAIN(...) TEST_MAIN_WITH(NULL, NULL, __VA_ARGS__)

/* The same with a set-up and a tear-down around the whole file. */
#define TEST_MAIN_WITH(setup, teardown, ...)                                                    \
    int main(int argc, char **argv) {                                                           \
        const struct CMUnitTest tests_[] = {__VA_ARGS__};                                       \
        return test_run(tests_, sizeof tests_ / sizeof tests_[0], setup, teardown, argc, argv); \
    }

/* Skips the running case and says why. In CI only "this CPU lacks ..." passes as a reason. */
#define TEST_SKIP(reason)                 \
    do {                                  \
        test_note_skip(__func__, reason); \
        skip();                           \
    } while (0)

int test_run(const struct CMUnitTest *tests, size_t tests_count, CMFixtureFunction setup,
             CMFixtureFunction teardown, int argc, char **argv);
void test_note_skip(const char *test_case, const char *reason);

/* A folder for this process, made at the first call, removed with all it holds at exit. */
const char *test_tmpdir(void);

/* "<test_tmpdir()>/<name>"; the caller frees. */
char *test_tmp_path(const char *name);

/* A TCP port of 127.0.0.1 that was free a moment ago. */
int test_free_port(void);

/* SOLFLEET_TEST_SEED if set, else from the clock: one value a process. Printed, so that the runner
 * shows it with a failure. */
uint64_t test_seed(void);

/* splitmix64: a stream of well mixed values from any seed. */
uint64_t test_random(uint64_t *state);

#endif
