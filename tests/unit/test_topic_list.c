/* consumer/topic_list. */
#include "consumer/topic_list.h"

#include "tests/support/test.h"

static void reads_topics_in_their_order(void **state) {
    struct topic_list list;
    char err[256];
    assert_true(topic_list_read(&list, "urgent,usual,bulk", err, sizeof err));
    assert_int_equal(list.count, 3);
    assert_int_equal(topic_list_find(&list, "urgent"), 0);
    assert_int_equal(topic_list_find(&list, "bulk"), 2);
    assert_int_equal(topic_list_find(&list, "bul"), -1);
}

static void refuses_what_is_no_list_of_topics(void **state) {
    static const char *const bad[] = {"", ",", "a,", ",a", "a,,b", "a,b,a", "1,2,3,4,5,6,7,8,9"};
    struct topic_list list;
    char err[256];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err[0] = '\0';
        assert_false(topic_list_read(&list, bad[i], err, sizeof err));
        assert_true(err[0] != '\0');
    }
    assert_true(topic_list_read(&list, "1,2,3,4,5,6,7,8", err, sizeof err));
}

static void numbers_every_partition_of_every_topic_once(void **state) {
    struct topic_list list;
    char err[256];
    bool seen[3 * 20] = {false};
    assert_true(topic_list_read(&list, "a,b,c", err, sizeof err));
    for (int32_t index = 0; index < 3; index++) {
        for (int32_t partition = 0; partition < 20; partition++) {
            int32_t number = topic_list_number(&list, index, partition);
            assert_false(seen[number]);
            seen[number] = true;
            assert_int_equal(topic_list_index(&list, number), index);
            assert_int_equal(topic_list_partition(&list, number), partition);
            assert_string_equal(topic_list_name(&list, number), list.names[index]);
        }
    }
}

static void leaves_the_numbers_of_one_topic_as_they_are(void **state) {
    struct topic_list list;
    char err[256];
    assert_true(topic_list_read(&list, "solfleet.jobs", err, sizeof err));
    assert_int_equal(topic_list_number(&list, 0, 17), 17);
}

TEST_MAIN(cmocka_unit_test(reads_topics_in_their_order),
          cmocka_unit_test(refuses_what_is_no_list_of_topics),
          cmocka_unit_test(numbers_every_partition_of_every_topic_once),
          cmocka_unit_test(leaves_the_numbers_of_one_topic_as_they_are))
