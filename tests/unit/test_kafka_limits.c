#include "consumer/kafka_limits.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

static struct kafka_limits limits_of(const char *const *names, size_t count) {
    struct kafka_limits limits;
    kafka_limits_init(&limits, 1000000);
    for (size_t i = 0; i < count; i++) {
        kafka_limits_add(&limits, names[i], strlen(names[i]));
    }
    return limits;
}

static void assumes_the_given_size_until_it_is_told(void **state) {
    static const char *const names[] = {"results", "letters"};
    struct kafka_limits limits = limits_of(names, 2);
    assert_int_equal(kafka_limits_of(&limits, "results"), 1000000);
    assert_int_equal(kafka_limits_of(&limits, "unheard of"), 1000000);
    assert_int_equal(kafka_limits_least(&limits), 1000000);
}

static void keeps_a_topic_once(void **state) {
    static const char *const names[] = {"results", "results", "", "result"};
    struct kafka_limits limits = limits_of(names, 4);
    assert_int_equal(limits.count, 2);
}

static void leaves_out_what_is_beyond_its_bounds(void **state) {
    struct kafka_limits limits = limits_of(NULL, 0);
    char name[300];
    memset(name, 'n', sizeof name);
    kafka_limits_add(&limits, name, sizeof name);
    assert_int_equal(limits.count, 0);
    for (int i = 0; i < KAFKA_LIMITS_TOPICS_MAX + 3; i++) {
        snprintf(name, sizeof name, "t%d", i);
        kafka_limits_add(&limits, name, strlen(name));
    }
    assert_int_equal(limits.count, KAFKA_LIMITS_TOPICS_MAX);
}

static void assumes_less_of_a_topic_that_refuses(void **state) {
    static const char *const names[] = {"results", "letters"};
    struct kafka_limits limits = limits_of(names, 2);
    kafka_limits_refused(&limits, "letters", 5000);
    assert_int_equal(kafka_limits_of(&limits, "letters"), 2500);
    kafka_limits_refused(&limits, "letters", 6000); /* sent before that was known */
    assert_int_equal(kafka_limits_of(&limits, "letters"), 2500);
    assert_int_equal(kafka_limits_of(&limits, "results"), 1000000);
    assert_int_equal(kafka_limits_least(&limits), 2500);
}

TEST_MAIN(cmocka_unit_test(assumes_the_given_size_until_it_is_told),
          cmocka_unit_test(keeps_a_topic_once),
          cmocka_unit_test(leaves_out_what_is_beyond_its_bounds),
          cmocka_unit_test(assumes_less_of_a_topic_that_refuses))
