/* engine/prompt. */
#include "engine/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/sha256.h"
#include "tests/support/test.h"

static struct job_problem small_problem(void) {
    return (struct job_problem){.statement = "Add a and b.", .code_language = "rust"};
}

static void holds_every_part_of_a_problem_in_order(void **state) {
    struct job_example examples[] = {{"1 2", "3", NULL}, {"2 2", "4", "two and two"}};
    struct job_problem problem = small_problem();
    size_t bytes = 0;
    problem.title = "Sum";
    problem.examples = examples;
    problem.example_count = 2;
    problem.constraints = "a, b < 10";
    problem.answer_language = JOB_ANSWER_ZH;
    char *text = prompt_build(&problem, &bytes);
    assert_string_equal(text, "Problem: Sum\n\nAdd a and b.\n\n"
                              "Example 1\nInput: 1 2\nOutput: 3\n\n"
                              "Example 2\nInput: 2 2\nOutput: 4\nExplanation: two and two\n\n"
                              "Constraints\na, b < 10\n\n"
                              "Write the code in rust. Explain in Chinese.");
    assert_int_equal(bytes, strlen(text));
    free(text);
}

static void leaves_out_what_a_problem_does_not_have(void **state) {
    struct job_problem problem = small_problem();
    size_t bytes = 0;
    char *text = prompt_build(&problem, &bytes);
    assert_string_equal(text, "Problem\n\nAdd a and b.\n\nWrite the code in rust. "
                              "Explain in the language of the problem statement.");
    free(text);
}

/* Whoever changes a byte of the prompt must change its version, and then this pair. */
static void has_a_version_for_its_bytes(void **state) {
    struct job_example example = {"i", "o", "e"};
    struct job_problem problem = small_problem();
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    problem.title = "t";
    problem.constraints = "c";
    problem.examples = &example;
    problem.example_count = 1;
    sha256_init(&hash);
    sha256_update(&hash, prompt_system(), strlen(prompt_system()));
    for (int language = JOB_ANSWER_AUTO; language <= JOB_ANSWER_EN; language++) {
        size_t bytes = 0;
        problem.answer_language = (enum job_answer_language)language;
        char *text = prompt_build(&problem, &bytes);
        sha256_update(&hash, text, bytes);
        free(text);
    }
    assert_true(sha256_finish(&hash, digest));
    sha256_hex(digest, hex);
    hex[16] = '\0';
    assert_string_equal(prompt_version(), "builtin-en-1");
    assert_string_equal(hex, "cc0f704664b8a305");
}

TEST_MAIN(cmocka_unit_test(holds_every_part_of_a_problem_in_order),
          cmocka_unit_test(leaves_out_what_a_problem_does_not_have),
          cmocka_unit_test(has_a_version_for_its_bytes))
