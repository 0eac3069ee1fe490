#include "consumer/bench_prompt.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static uint32_t count_words(const char *text) {
    uint32_t count = 1;
    for (; (text = strchr(text, ' ')) != NULL; text++) {
        count++;
    }
    return count;
}

static void has_as_many_words_as_asked(void **state) {
    const uint32_t counts[] = {1, 2, 128, 4096};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char *prompt = bench_prompt_make(counts[i], 3);
        assert_int_equal(count_words(prompt), counts[i]);
        assert_null(strstr(prompt, "  "));
        assert_true(prompt[0] != ' ' && prompt[strlen(prompt) - 1] != ' ');
        free(prompt);
    }
}

static void is_the_same_for_a_seed_and_begins_otherwise_for_another(void **state) {
    uint64_t seed = test_seed();
    char *first = bench_prompt_make(64, seed);
    char *again = bench_prompt_make(64, seed);
    assert_string_equal(first, again);
    for (uint64_t i = 1; i < 100; i++) {
        char *other = bench_prompt_make(64, seed + i);
        assert_true(strncmp(first, other, 40) != 0);
        free(other);
    }
    free(first);
    free(again);
}

TEST_MAIN(cmocka_unit_test(has_as_many_words_as_asked),
          cmocka_unit_test(is_the_same_for_a_seed_and_begins_otherwise_for_another))
