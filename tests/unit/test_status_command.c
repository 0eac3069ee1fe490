#include "consumer/status_command.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static const char *const shared[STATUS_SCRIPT_SHARED_ARGS] = {"100", "solfleet:", "w1", "w1/0",
                                                              "1000"};

static void writes_keys_before_all_arguments(void **state) {
    /* 3 words, 2 keys, 5 shared, 8 arguments */
    static const char expected[] = "*18\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n"
                                   "$2\r\nk1\r\n$2\r\nk2\r\n"
                                   "$3\r\n100\r\n$9\r\nsolfleet:\r\n$2\r\nw1\r\n"
                                   "$4\r\nw1/0\r\n$4\r\n1000\r\n"
                                   "$3\r\n0:1\r\n$1\r\nf\r\n$3\r\njob\r\n$2\r\n-5\r\n"
                                   "$0\r\n\r\n$1\r\nf\r\n$6\r\nqueued\r\n"
                                   "$20\r\n-9223372036854775808\r\n";
    struct status_command *command = status_command_new(STATUS_SCRIPT_CLAIM);
    status_command_key(command, 1, "k1");
    status_command_string(command, "0:1");
    status_command_string(command, "f");
    status_command_string(command, "job");
    status_command_int(command, -5);
    status_command_key(command, 2, "k2");
    status_command_string(command, NULL);
    status_command_string(command, "f");
    status_command_string(command, "queued");
    status_command_int(command, INT64_MIN);
    status_command_join(command, "abc", shared, false);
    assert_int_equal(command->joined.size, sizeof expected - 1);
    assert_memory_equal(command->joined.data, expected, sizeof expected - 1);
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

static void gather_finish(struct status_command *command, const char *key, const char *result,
                          bool is_spared) {
    status_command_key(command, 1, key);
    for (uint32_t i = 1; i < status_script_args_per_key(STATUS_SCRIPT_FINISH); i++) {
        status_command_string(command, NULL);
    }
    status_command_spare(command, result, strlen(result), is_spared);
}

static bool joined_ends_with(const struct status_command *command, const char *end) {
    size_t size = strlen(end);
    return command->joined.size > size &&
           memcmp(command->joined.data + command->joined.size - size, end, size) == 0;
}

static void spares_what_the_server_has_until_it_is_asked_for(void **state) {
    struct status_command *command = status_command_new(STATUS_SCRIPT_FINISH);
    gather_finish(command, "k1", "given", false);
    gather_finish(command, "k2", "spared", true);
    gather_finish(command, "k3", "last", false);
    status_command_join(command, "abc", shared, false);
    char expected[256] = "", full[256] = "";
    for (int i = 0; i < 13; i++) {
        strcat(expected, "$0\r\n\r\n");
    }
    strcpy(full, expected);
    strcat(expected, "$4\r\nlast\r\n");
    strcat(full, "$6\r\nspared\r\n");
    assert_true(joined_ends_with(command, expected));
    assert_null(memmem(command->joined.data, command->joined.size, "spared", 6));
    assert_non_null(memmem(command->joined.data, command->joined.size, "given", 5));
    size_t spared_bytes = command->joined.size;
    status_command_join(command, "abc", shared, true);
    assert_non_null(memmem(command->joined.data, command->joined.size, full, strlen(full)));
    assert_int_equal(command->joined.size, spared_bytes + 6);
    status_command_free(command);
}

static void keeps_the_order_of_a_list(void **state) {
    struct status_command_list list = {0};
    struct status_command *commands[3];
    for (int i = 0; i < 3; i++) {
        commands[i] = status_command_new(STATUS_SCRIPT_RENEW);
        status_command_key(commands[i], 1, "k");
    }
    assert_null(status_command_shift(&list));
    status_command_append(&list, commands[1]);
    status_command_append(&list, commands[2]);
    status_command_unshift(&list, commands[0]);
    assert_int_equal(list.key_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(status_command_shift(&list), commands[i]);
        status_command_append(&list, commands[i]);
    }
    status_command_free_list(&list);
    assert_int_equal(list.key_count, 0);
}

static void inserts_by_order(void **state) {
    uint64_t seed = test_seed();
    struct status_command_list list = {0};
    for (int i = 0; i < 100; i++) {
        struct status_command *command = status_command_new(STATUS_SCRIPT_RENEW);
        status_command_key(command, 1, "k");
        command->order = test_random(&seed) % 50;
        status_command_insert(&list, command);
    }
    assert_int_equal(list.key_count, 100);
    uint64_t before = 0;
    for (struct status_command *command; (command = status_command_shift(&list)) != NULL;) {
        assert_true(command->order >= before);
        before = command->order;
        status_command_free(command);
    }
    assert_null(list.tail);
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
          cmocka_unit_test(writes_texts_with_any_bytes),
          cmocka_unit_test(spares_what_the_server_has_until_it_is_asked_for),
          cmocka_unit_test(keeps_the_order_of_a_list), cmocka_unit_test(inserts_by_order),
          cmocka_unit_test(writes_plain_words))
