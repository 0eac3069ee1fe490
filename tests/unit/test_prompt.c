/* engine/prompt and the prompts that the build takes from engine/prompts/. */
#include "engine/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/sha256.h"
#include "tests/support/test.h"
#include "tests/support/test_file.h"

static struct job_problem small_problem(void) {
    return (struct job_problem){.statement = "Add a and b.", .code_language = "rust"};
}

static struct job_problem whole_problem(void) {
    static struct job_example examples[] = {{"1 2", "3", NULL}, {"2 2", "4", "two and two"}};
    struct job_problem problem = small_problem();
    problem.title = "Sum {}";
    problem.examples = examples;
    problem.example_count = 2;
    problem.constraints = "a, b < 10";
    return problem;
}

static void holds_every_part_of_a_problem_in_order(void **state) {
    struct job_problem problem = whole_problem();
    size_t bytes = 0;
    char *text = prompt_build_problem(&prompt_text_en, &problem, &bytes);
    assert_string_equal(text, "Problem: Sum {}\n\nAdd a and b.\n\n"
                              "Example 1\nInput: 1 2\nOutput: 3\n\n"
                              "Example 2\nInput: 2 2\nOutput: 4\nExplanation: two and two\n\n"
                              "Constraints: a, b < 10");
    assert_int_equal(bytes, strlen(text));
    free(text);
    text = prompt_build_problem(&prompt_text_zh, &problem, &bytes);
    assert_string_equal(text, "题目：Sum {}\n\nAdd a and b.\n\n"
                              "示例 1\n输入：1 2\n输出：3\n\n"
                              "示例 2\n输入：2 2\n输出：4\n解释：two and two\n\n"
                              "约束：a, b < 10");
    free(text);
}

static void is_the_bare_statement_where_a_problem_has_nothing_else(void **state) {
    struct job_problem problem = small_problem();
    size_t bytes = 0;
    char *text = prompt_build_problem(&prompt_text_en, &problem, &bytes);
    assert_string_equal(text, "Add a and b.");
    free(text);
}

static void tells_the_form_first_and_the_programming_language_last(void **state) {
    struct job_problem problem = small_problem();
    static const struct prompt_text *const texts[] = {&prompt_text_en, &prompt_text_zh};
    static const char *const ends[] = {"Write the code in rust.", "代码用 rust 编写。"};
    for (size_t i = 0; i < 2; i++) {
        size_t bytes = 0, front = strlen(texts[i]->system);
        char *text = prompt_build_system(texts[i], &problem, &bytes);
        assert_int_equal(bytes, strlen(text));
        assert_memory_equal(text, texts[i]->system, front);
        assert_string_equal(text + front, ends[i]);
        /* The answer is begun with the first heading that is asked for. */
        const char *heading = strstr(text, "## ");
        size_t heading_bytes = strlen(texts[i]->opening) - 1;
        assert_non_null(heading);
        assert_memory_equal(heading, texts[i]->opening, heading_bytes);
        assert_int_equal(texts[i]->opening[heading_bytes], '\n');
        free(text);
    }
}

static void answers_in_the_language_of_the_statement_unless_told_otherwise(void **state) {
    static const struct {
        const char *statement;
        const struct prompt_text *text;
    } cases[] = {
        {"Return the sum.", &prompt_text_en},
        {"返回两数之和。", &prompt_text_zh},
        {"给定数组 nums 和整数 target，返回 twoSum(nums, target) 的下标。", &prompt_text_zh},
        {"Print the string 你好 to the standard output and then end.", &prompt_text_en},
        {"1 + 1 = ?", &prompt_text_en},
        {"Найдите сумму двух чисел.", &prompt_text_en},
        {"", &prompt_text_en},
    };
    struct job_problem problem = small_problem();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem.statement = (char *)(uintptr_t)cases[i].statement;
        problem.answer_language = JOB_ANSWER_AUTO;
        assert_ptr_equal(prompt_choose(&problem), cases[i].text);
        problem.answer_language = JOB_ANSWER_ZH;
        assert_ptr_equal(prompt_choose(&problem), &prompt_text_zh);
        problem.answer_language = JOB_ANSWER_EN;
        assert_ptr_equal(prompt_choose(&problem), &prompt_text_en);
    }
}

static void counts_the_title_as_part_of_the_statement(void **state) {
    struct job_problem problem = small_problem();
    problem.title = "两数之和";
    assert_ptr_equal(prompt_choose(&problem), &prompt_text_zh);
}

static void digest_text(struct sha256 *hash, const char *text) {
    sha256_update(hash, text, strlen(text) + 1);
}

/* Of all that a model is told: the messages of one problem with every part, and the opening. */
static void digest(const struct prompt_text *text, char hex[SHA256_HEX_BYTES]) {
    struct job_problem problem = whole_problem();
    struct sha256 hash;
    uint8_t bytes[SHA256_BYTES];
    size_t size = 0;
    char *system = prompt_build_system(text, &problem, &size);
    char *user = prompt_build_problem(text, &problem, &size);
    sha256_init(&hash);
    digest_text(&hash, system);
    digest_text(&hash, user);
    digest_text(&hash, text->opening);
    assert_true(sha256_finish(&hash, bytes));
    sha256_hex(bytes, hex);
    hex[16] = '\0';
    free(system);
    free(user);
}

/* Whoever changes a byte of a prompt must change its version, and then this table. */
static void has_a_version_for_its_bytes(void **state) {
    static const struct {
        const struct prompt_text *text;
        const char *version, *digest;
    } known[] = {{&prompt_text_en, "en-1", "fe5b5b7406299cd7"},
                 {&prompt_text_zh, "zh-1", "49a7eb3487197952"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char hex[SHA256_HEX_BYTES];
        digest(known[i].text, hex);
        assert_string_equal(known[i].text->version, known[i].version);
        assert_string_equal(hex, known[i].digest);
    }
}

/* Whether a file says `=== field`, the text, and then another field or nothing. */
static void assert_file_says(const char *file, const char *field, const char *text) {
    char expected[2048];
    snprintf(expected, sizeof expected, "=== %s\n%s\n", field, text);
    const char *at = strstr(file, expected);
    assert_non_null(at);
    at += strlen(expected);
    assert_true(*at == '\0' || strncmp(at, "=== ", 4) == 0);
}

static void carries_the_files_byte_for_byte(void **state) {
    static const struct {
        const char *path;
        const struct prompt_text *text;
    } files[] = {{"engine/prompts/en.txt", &prompt_text_en},
                 {"engine/prompts/zh.txt", &prompt_text_zh}};
    for (size_t i = 0; i < 2; i++) {
        const struct prompt_text *text = files[i].text;
        size_t size = 0;
        char *bytes = (char *)test_file_read(files[i].path, &size);
        char *file = strndup(bytes, size);
        assert_file_says(file, "version", text->version);
        assert_file_says(file, "system", text->system);
        assert_file_says(file, "code", text->code);
        assert_file_says(file, "title", text->title);
        assert_file_says(file, "example", text->example);
        assert_file_says(file, "input", text->input);
        assert_file_says(file, "output", text->output);
        assert_file_says(file, "explanation", text->explanation);
        assert_file_says(file, "constraints", text->constraints);
        assert_file_says(file, "opening", text->opening);
        free(file);
        free(bytes);
    }
}

TEST_MAIN(cmocka_unit_test(holds_every_part_of_a_problem_in_order),
          cmocka_unit_test(is_the_bare_statement_where_a_problem_has_nothing_else),
          cmocka_unit_test(tells_the_form_first_and_the_programming_language_last),
          cmocka_unit_test(answers_in_the_language_of_the_statement_unless_told_otherwise),
          cmocka_unit_test(counts_the_title_as_part_of_the_statement),
          cmocka_unit_test(has_a_version_for_its_bytes),
          cmocka_unit_test(carries_the_files_byte_for_byte))
