#include "consumer/status_command.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static const char *const shared[STATUS_SCRIPT_SHARED_ARGS] = {"100", "solfleet:", "w1"};

static void writes_keys_before_all_arguments(void **state) {
    /* 3 words, 2 keys, 3 shared, 6 arguments */
    static const char expected[] = "*14\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n"
                                   "$2\r\nk1\r\n$2\r\nk2\r\n"
                                   "$3\r\n100\r\n$9\r\nsolfleet:\r\n$2\r\nw1\r\n"
                                   "$1\r\nf\r\n$3\r\njob\r\n$2\r\n-5\r\n"
                                   "$0\r\n\r\n$6\r\nqueued\r\n$20\r\n-9223372036854775808\r\n";
    struct status_command *command = status_command_new(STATUS_SCRIPT_CLAIM);
    status_command_key(command, 1, "k1");
    status_command_string(command, "f");
    status_command_string(command, "job");
    status_command_int(command, -5);
    status_command_key(command, 2, "k2");
    status_command_string(command, NULL);
    status_command_string(command, "queued");
    status_command_int(command, INT64_MIN);
    status_command_seal(command, "abc", shared);
    assert_int_equal(command->sealed.size, sizeof expected - 1);
    assert_memory_equal(command->sealed.data, expected, sizeof expected - 1);
    assert_int_equal(command->tickets[1], 2);
    status_command_free(command);
}

static void writes_texts_with_any_bytes(void **state) {
    struct status_command *command = status_command_new(STATUS_SCRIPT_CLAIM);
    status_command_key(command, 1, "k");
    status_command_text(command, "a\r\n\0b", 5);
    static const char expected[] = "$5\r\na\r\n\0b\r\n";
    assert_int_equal(command->args.size, sizeof expected - 1);
    assert_memory_equal(command->args.data, expected, sizeof expected - 1);
    status_command_free(command);
    status_command_free(NULL);
}

static void writes_plain_words(void **state) {
    struct status_command_bytes out = {0};
    status_command_words(&out, (const char *const[]){"SELECT", "12"}, 2);
    static const char expected[] = "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n";
    assert_int_equal(out.size, sizeof expected - 1);
    assert_memory_equal(out.data, expected, sizeof expected - 1);
    free(out.data);
}

TEST_MAIN(cmocka_unit_test(writes_keys_before_all_arguments),
          cmocka_unit_test(writes_texts_with_any_bytes), cmocka_unit_test(writes_plain_words))
