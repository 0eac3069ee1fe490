/* engine/repetition, against looking at all of the answer's end anew after each token. */
#include "engine/repetition.h"

#include <string.h>

#include "tests/support/test.h"

enum { ANSWER_MAX = 4096 };

static const struct repetition_rule usual = {
    .cycles = 8, .cycle_tokens_max = 64, .tokens_min = 256};

/* The obvious way: for each length, count whole turns of the last tokens backwards. */
static bool ends_in_cycles(const struct repetition_rule *rule, const int32_t *tokens,
                           uint32_t count) {
    for (uint32_t cycle = 1; cycle <= rule->cycle_tokens_max; cycle++) {
        uint32_t same = cycle;
        while (same < count && tokens[count - 1 - same] == tokens[count - 1 - same + cycle]) {
            same++;
        }
        if (same <= count && same >= rule->cycles * cycle && same >= rule->tokens_min) {
            return true;
        }
    }
    return false;
}

/* At which token the watch first speaks; 0 = never. */
static uint32_t first_repetition(const struct repetition_rule *rule, const int32_t *tokens,
                                 uint32_t count) {
    struct repetition repetition;
    repetition_init(&repetition, rule);
    for (uint32_t i = 1; i <= count; i++) {
        if (repetition_add(&repetition, tokens, i)) {
            return i;
        }
    }
    return 0;
}

static void says_of_random_answers_what_the_obvious_way_says(void **state) {
    uint64_t random = test_seed();
    uint32_t found_count = 0;
    for (int round = 0; round < 400; round++) {
        static int32_t tokens[600];
        const struct repetition_rule rule = {.cycles = 2 + (uint32_t)(test_random(&random) % 5u),
                                             .cycle_tokens_max =
                                                 1 + (uint32_t)(test_random(&random) % 12u),
                                             .tokens_min = (uint32_t)(test_random(&random) % 40u)};
        uint32_t letters = 1 + (uint32_t)(test_random(&random) % 4u);
        struct repetition repetition;
        repetition_init(&repetition, &rule);
        for (uint32_t i = 0; i < 600; i++) {
            uint32_t back = 1 + (uint32_t)(test_random(&random) % 13u);
            bool copies = i >= 13 && test_random(&random) % 16u != 0;
            tokens[i] = copies ? tokens[i - (i / 50 % 2 ? 7u : back)]
                               : (int32_t)(test_random(&random) % letters);
            bool expected = i + 1 >= rule.cycles && ends_in_cycles(&rule, tokens, i + 1);
            assert_int_equal(repetition_add(&repetition, tokens, i + 1), expected);
            found_count += expected;
        }
    }
    assert_in_range(found_count, 1000, 239000); /* both happened often */
}

static void speaks_with_the_token_that_completes_the_last_turn(void **state) {
    static int32_t tokens[ANSWER_MAX];
    for (uint32_t cycle = 1; cycle <= 64; cycle++) {
        for (uint32_t before = 0; before < 200; before += 67) {
            uint32_t turns = 8 * cycle > 256 ? 8 * cycle : 256;
            for (uint32_t i = 0; i < before; i++) {
                tokens[i] = 1000 + (int32_t)i;
            }
            for (uint32_t i = 0; i < ANSWER_MAX - before; i++) {
                tokens[before + i] = (int32_t)(i % cycle);
            }
            assert_int_equal(first_repetition(&usual, tokens, ANSWER_MAX), before + turns);
        }
    }
}

static void minds_one_wrong_token_and_cycles_that_are_too_long(void **state) {
    static int32_t tokens[ANSWER_MAX];
    for (uint32_t i = 0; i < ANSWER_MAX; i++) {
        tokens[i] = (int32_t)(i % 65); /* one longer than is looked for */
    }
    assert_int_equal(first_repetition(&usual, tokens, ANSWER_MAX), 0);
    for (uint32_t i = 0; i < ANSWER_MAX; i++) {
        tokens[i] = i % 250 == 249 ? 99 : (int32_t)(i % 5);
    }
    assert_int_equal(first_repetition(&usual, tokens, ANSWER_MAX), 0);
}

/* Rows of tables, grids and lists as code spells them out: "0, " a hundred times, a board of 12
 * rows of 19 tokens, numbers that count. */
static void lets_honest_tables_pass(void **state) {
    static int32_t tokens[ANSWER_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 100; i++) {
        tokens[count++] = 1;
        tokens[count++] = 2;
    }
    tokens[count++] = 3;
    for (uint32_t i = 0; i < 12 * 19; i++) {
        tokens[count++] = i % 19 == 0 ? 3 : i % 19 == 18 ? 4 : 5 + (int32_t)(i % 2);
    }
    for (int32_t i = 0; i < 300; i++) {
        tokens[count++] = 100;
        tokens[count++] = 200 + i;
    }
    assert_int_equal(first_repetition(&usual, tokens, count), 0);
}

static void never_looks_when_it_is_off(void **state) {
    static int32_t tokens[ANSWER_MAX];
    const struct repetition_rule off = {.cycles = 0};
    struct repetition zeroed = {.count = 0};
    assert_int_equal(first_repetition(&off, tokens, ANSWER_MAX), 0);
    assert_false(repetition_add(&zeroed, tokens, 1));
    assert_false(repetition_add(&zeroed, tokens, ANSWER_MAX));
}

static void knows_which_rules_make_sense(void **state) {
    const struct repetition_rule wrong[] = {
        {1, 64, 0}, {8, 0, 0}, {8, REPETITION_CYCLE_TOKENS_MAX + 1, 0}};
    const struct repetition_rule right[] = {
        {0, 0, 0}, {2, 1, 0}, {UINT32_MAX, REPETITION_CYCLE_TOKENS_MAX, UINT32_MAX}};
    for (size_t i = 0; i < 3; i++) {
        assert_false(repetition_rule_is_valid(&wrong[i]));
        assert_true(repetition_rule_is_valid(&right[i]));
    }
    static int32_t tokens[ANSWER_MAX];
    assert_int_equal(first_repetition(&right[1], tokens, ANSWER_MAX), 2);
    assert_int_equal(first_repetition(&right[2], tokens, ANSWER_MAX), 0); /* and no overflow */
}

TEST_MAIN(cmocka_unit_test(says_of_random_answers_what_the_obvious_way_says),
          cmocka_unit_test(speaks_with_the_token_that_completes_the_last_turn),
          cmocka_unit_test(minds_one_wrong_token_and_cycles_that_are_too_long),
          cmocka_unit_test(lets_honest_tables_pass), cmocka_unit_test(never_looks_when_it_is_off),
          cmocka_unit_test(knows_which_rules_make_sense))
