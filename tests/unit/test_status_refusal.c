#include "consumer/status_refusal.h"

#include <string.h>

#include "tests/support/test.h"

static void knows_what_passes_from_what_somebody_must_mend(void **state) {
    static const struct {
        const char *error;
        enum status_refusal_kind kind;
    } cases[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", STATUS_REFUSAL_NO_SCRIPT},
        {"OOM command not allowed when used memory > 'maxmemory'.", STATUS_REFUSAL_PASSING},
        {"READONLY You can't write against a read only replica.", STATUS_REFUSAL_PASSING},
        {"LOADING Redis is loading the dataset in memory", STATUS_REFUSAL_PASSING},
        {"BUSY Redis is busy running a script.", STATUS_REFUSAL_PASSING},
        {"MASTERDOWN Link with MASTER is down", STATUS_REFUSAL_PASSING},
        {"MISCONF Redis is configured to save RDB snapshots", STATUS_REFUSAL_PASSING},
        {"MOVED 1234 127.0.0.1:1", STATUS_REFUSAL_LASTING},
        {"NOAUTH Authentication required.", STATUS_REFUSAL_LASTING},
        {"NOPERM this user has no permissions", STATUS_REFUSAL_LASTING},
        {"BUSYGROUP is another code", STATUS_REFUSAL_LASTING},
        {"ERR unknown command", STATUS_REFUSAL_LASTING},
        {"", STATUS_REFUSAL_LASTING}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(status_refusal_of(cases[i].error).kind, cases[i].kind);
    }
}

static void says_what_to_do_where_there_is_something(void **state) {
    assert_non_null(strstr(status_refusal_of("MOVED 1 a:1").advice, "Cluster is not supported"));
    assert_non_null(strstr(status_refusal_of("NOAUTH x").advice, "user:password"));
    assert_string_equal(status_refusal_of("ERR x").advice, "");
}

TEST_MAIN(cmocka_unit_test(knows_what_passes_from_what_somebody_must_mend),
          cmocka_unit_test(says_what_to_do_where_there_is_something))
