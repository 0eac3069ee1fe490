#include "tests/support/test.h"

#include <string.h>

#include "engine/speculation.h"

static uint32_t find(const char *text, uint32_t most, char *draft) {
    int32_t tokens[64], found[SPECULATION_TOKENS_MAX];
    uint32_t count = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = text[i];
    }
    uint32_t length = speculation_find(tokens, count, most, found);
    for (uint32_t i = 0; i < length; i++) {
        draft[i] = (char)found[i];
    }
    draft[length] = '\0';
    return length;
}

static void assert_draft(const char *text, uint32_t most, const char *wanted) {
    char draft[SPECULATION_TOKENS_MAX + 1];
    assert_int_equal(find(text, most, draft), strlen(wanted));
    assert_string_equal(draft, wanted);
}

static void says_what_followed_the_same_tokens(void **state) {
    assert_draft("the sum of xy: the s", 5, "um of");
    assert_draft("abXYcd abX", 3, "Ycd");
}

static void prefers_the_last_occurrence_and_a_long_match(void **state) {
    assert_draft("abc1 abc2 abc", 1, "2");
    assert_draft("zbc1 abc2 zbc", 1, "1"); /* three tokens rather than the nearer two */
    assert_draft("abc1 xbc", 1, "1");      /* two, where three are nowhere */
}

static void goes_on_with_a_short_turn(void **state) {
    assert_draft("xy,,,,", 5, ",,,,,");
    assert_draft("1ab1ab1ab", 5, "1ab1a");
}

static void has_none_where_nothing_was_said_before(void **state) {
    assert_draft("", 5, "");
    assert_draft("a", 5, "");
    assert_draft("aa", 5, "");
    assert_draft("abcdefg", 5, "");
    assert_draft("abab", 0, "");
}

static void grows_with_success_and_rests_after_misses(void **state) {
    struct speculation speculation = {0};
    uint32_t length = speculation_next_length(&speculation, 5);
    assert_int_equal(length, 2);
    for (uint32_t wanted = 3; wanted <= 5; wanted++) {
        speculation_learn(&speculation, length, length);
        length = speculation_next_length(&speculation, 5);
        assert_int_equal(length, wanted);
    }
    speculation_learn(&speculation, 5, 1);
    assert_int_equal(speculation_next_length(&speculation, 5), 1);
    uint32_t rests = 0;
    for (uint32_t miss = 1; miss <= 9; miss++) {
        speculation_learn(&speculation, 1, 0);
        uint32_t rest = 0;
        while ((length = speculation_next_length(&speculation, 5)) == 0) {
            rest++;
        }
        assert_int_equal(length, 1);
        assert_true(rest >= rests && rest <= 128);
        rests = rest;
    }
    assert_int_equal(rests, 128);
    speculation_learn(&speculation, 1, 1);
    assert_int_equal(speculation_next_length(&speculation, 5), 2);
}

static void never_says_more_than_asked(void **state) {
    uint64_t random = test_seed();
    for (int i = 0; i < 20000; i++) {
        int32_t tokens[40], draft[SPECULATION_TOKENS_MAX];
        uint32_t count = (uint32_t)(test_random(&random) % 40);
        uint32_t most = (uint32_t)(test_random(&random) % (SPECULATION_TOKENS_MAX + 1));
        for (uint32_t at = 0; at < count; at++) {
            tokens[at] = (int32_t)(test_random(&random) % 3);
        }
        uint32_t length = speculation_find(tokens, count, most, draft);
        assert_true(length == 0 || length == most);
        for (uint32_t at = 0; at < length; at++) {
            assert_true(draft[at] >= 0 && draft[at] < 3);
        }
    }
}

TEST_MAIN(cmocka_unit_test(says_what_followed_the_same_tokens),
          cmocka_unit_test(prefers_the_last_occurrence_and_a_long_match),
          cmocka_unit_test(goes_on_with_a_short_turn),
          cmocka_unit_test(has_none_where_nothing_was_said_before),
          cmocka_unit_test(grows_with_success_and_rests_after_misses),
          cmocka_unit_test(never_says_more_than_asked))
