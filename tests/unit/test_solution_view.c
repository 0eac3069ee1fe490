#include "consumer/solution_view.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

static char *shown(const struct result_solution *solution, bool is_chinese) {
    char *path = test_tmp_path("shown");
    FILE *to = fopen(path, "w+");
    static char text[1024];
    solution_view_print(to, solution, is_chinese);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = '\0';
    fclose(to);
    free(path);
    return text;
}

static void shows_sections_in_the_order_of_their_value(void **state) {
    struct result_solution solution = {.present = true,
                                       .analysis = "Sort.",
                                       .time_complexity = "O(n)",
                                       .space_complexity = "O(1)",
                                       .code = "x = 1\n",
                                       .pitfalls = "None.",
                                       .code_language = "python",
                                       .complete = true};
    assert_string_equal(shown(&solution, false), "## Approach\nSort.\n"
                                                 "\n## Time complexity\nO(n)\n"
                                                 "\n## Space complexity\nO(1)\n"
                                                 "\n## Code\n```python\nx = 1\n```\n"
                                                 "\n## Pitfalls\nNone.\n");
}

static void leaves_out_what_is_missing_and_says_what_is_cut(void **state) {
    struct result_solution solution = {
        .present = true, .code = "s = '```'\n", .code_language = "python"};
    assert_string_equal(shown(&solution, true),
                        "## 代码示例\n````python\ns = '```'\n````\n\n（未写完）\n");
}

static void knows_whether_there_is_anything_to_show(void **state) {
    struct result_solution solution = {.pitfalls = "x"};
    assert_false(solution_view_has_any(&solution));
    solution.present = true;
    assert_true(solution_view_has_any(&solution));
    solution.pitfalls = NULL;
    assert_false(solution_view_has_any(&solution));
}

TEST_MAIN(cmocka_unit_test(shows_sections_in_the_order_of_their_value),
          cmocka_unit_test(leaves_out_what_is_missing_and_says_what_is_cut),
          cmocka_unit_test(knows_whether_there_is_anything_to_show))
