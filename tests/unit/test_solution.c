/* schemas/solution: what the goldens of tests/golden/solutions/ cannot hold. */
#include "schemas/solution.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/test.h"

#define LARGE_BYTES (1u << 20)
#define LARGE_S_MAX 5.0 /* of processor time: linear takes hundredths, quadratic takes minutes */

/* A text of LARGE_BYTES: `first` fills the first half, `then` the rest. */
static char *large(const char *first, const char *then) {
    char *text = malloc(LARGE_BYTES + 64);
    size_t at = 0;
    while (at < LARGE_BYTES) {
        const char *piece = at < LARGE_BYTES / 2 ? first : then;
        size_t bytes = strlen(piece);
        memcpy(text + at, piece, bytes);
        at += bytes;
    }
    text[at] = '\0';
    return text;
}

static void takes_a_megabyte_of_whatever_apart_in_linear_time(void **state) {
    static const char *const pieces[][2] = {
        {"\n", "## Approach\n"},
        {"## Approach\n", "## Approach\nx\n"},
        {"## ", "**"},
        {"1.", "（"},
        {"Time: O(n) ", "时间"},
        {"## Complexity\n", "O(n) time and "},
        {"```\n", "```x\n"},
        {"## Code\n```\nx\n", "```\n"},
        {"---\n", " \n"},
        {"【", "】："},
        {"Time: O(1), space", "space: "},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *text = large(pieces[i][0], pieces[i][1]);
        struct result_solution solution;
        clock_t begun = clock();
        assert_int_equal(solution_parse(text, "python", false, &solution), SOLUTION_OK);
        double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
        if (took_s > LARGE_S_MAX) {
            fail_msg("%s and %s took %.1f s", pieces[i][0], pieces[i][1], took_s);
        }
        solution_deinit(&solution);
        free(text);
    }
}

static void keeps_a_requested_language_as_it_is(void **state) {
    struct result_solution solution;
    assert_int_equal(solution_parse("```\nx\n```", "c++", true, &solution), SOLUTION_OK);
    assert_string_equal(solution.code_language, "c++");
    assert_string_equal(solution.code, "x\n");
    assert_false(solution.complete);
    solution_deinit(&solution);
    solution_deinit(&solution); /* zeroed */
}

TEST_MAIN(cmocka_unit_test(takes_a_megabyte_of_whatever_apart_in_linear_time),
          cmocka_unit_test(keeps_a_requested_language_as_it_is))
