/* Solutions against answers taken apart by hand: tests/golden/solutions/, whose README tells the
 * format. Every answer is also read cut at every byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/solution.h"
#include "schemas/solution_fence.h"
#include "tests/support/test.h"
#include "tests/support/test_file.h"

#define ANSWERS_MIN 80
#define FIELDS 5

static const char *const files[] = {"tests/golden/solutions/zh.txt",
                                    "tests/golden/solutions/en.txt"};
static const char *const names[FIELDS] = {"analysis", "time", "space", "code", "pitfalls"};

struct answer {
    char name[128], language[32], code_language[32];
    char *text, *fields[FIELDS]; /* owned; a field that is missing is NULL */
    bool was_cut, is_incomplete;
};

/* ---- reading ---- */

/* The text up to the next line that begins with '@'; owned. */
static char *take_block(const char **at, bool keeps_end) {
    const char *from = *at;
    while (**at != '\0' && **at != '@') {
        const char *end = strchr(*at, '\n');
        *at = end != NULL ? end + 1 : *at + strlen(*at);
    }
    size_t bytes = (size_t)(*at - from);
    return strndup(from, keeps_end || bytes == 0 ? bytes : bytes - 1);
}

static void take_line(const char **at, char *line, size_t line_bytes) {
    size_t bytes = strcspn(*at, "\n");
    assert_true(bytes < line_bytes);
    memcpy(line, *at, bytes);
    line[bytes] = '\0';
    *at += bytes + 1;
}

static void take_field(const char **at, struct answer *answer) {
    char line[128];
    take_line(at, line, sizeof line);
    if (strcmp(line, "@> incomplete") == 0) {
        answer->is_incomplete = true;
        return;
    }
    for (size_t i = 0; i < FIELDS; i++) {
        if (strncmp(line + 3, names[i], strlen(names[i])) == 0) {
            bool is_code = strcmp(names[i], "code") == 0;
            if (is_code) {
                snprintf(answer->code_language, sizeof answer->code_language, "%.31s", line + 8);
            }
            answer->fields[i] = take_block(at, is_code);
            return;
        }
    }
    fail_msg("%s: no field %s", answer->name, line);
}

static bool take_answer(const char **at, struct answer *answer) {
    char line[256], cut[8] = "";
    *answer = (struct answer){0};
    if (**at == '\0') {
        return false;
    }
    take_line(at, line, sizeof line);
    assert_true(sscanf(line, "@@@ %127[^|]| %31s | %7s", answer->name, answer->language, cut) >= 2);
    answer->was_cut = strcmp(cut, "cut") == 0;
    strcpy(answer->code_language, answer->language);
    answer->text = take_block(at, true);
    while (strncmp(*at, "@> ", 3) == 0) {
        take_field(at, answer);
    }
    return true;
}

static void free_answer(struct answer *answer) {
    free(answer->text);
    for (size_t i = 0; i < FIELDS; i++) {
        free(answer->fields[i]);
    }
}

static uint32_t for_each_answer(void (*visit)(const struct answer *answer, void *context),
                                void *context) {
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t size = 0;
        char *bytes = (char *)test_file_read(files[i], &size);
        char *text = strndup(bytes, size);
        const char *at = text;
        struct answer answer;
        while (take_answer(&at, &answer)) {
            visit(&answer, context);
            free_answer(&answer);
            count++;
        }
        free(text);
        free(bytes);
    }
    return count;
}

/* ---- the fields ---- */

struct tally {
    uint32_t right, wrong;
};

static struct result_solution parsed(const char *text, const struct answer *answer) {
    struct result_solution solution;
    assert_int_equal(solution_parse(text, answer->language, answer->was_cut, &solution),
                     SOLUTION_OK);
    return solution;
}

static void count_field(struct tally *tally, const struct answer *answer, const char *field,
                        const char *got, const char *expected) {
    if (got == NULL ? expected == NULL : expected != NULL && strcmp(got, expected) == 0) {
        tally->right++;
        return;
    }
    tally->wrong++;
    print_error("%s, %s:\n[%s]\nexpected\n[%s]\n", answer->name, field, got ? got : "(none)",
                expected ? expected : "(none)");
}

static void compare_answer(const struct answer *answer, void *context) {
    struct result_solution got = parsed(answer->text, answer);
    const char *const fields[] = {got.analysis, got.time_complexity, got.space_complexity, got.code,
                                  got.pitfalls};
    for (size_t i = 0; i < FIELDS; i++) {
        count_field(context, answer, names[i], fields[i], answer->fields[i]);
    }
    count_field(context, answer, "language", got.code_language, answer->code_language);
    count_field(context, answer, "complete", got.complete ? "yes" : "no",
                answer->is_incomplete ? "no" : "yes");
    solution_deinit(&got);
}

static void takes_every_answer_apart_as_a_reader_would(void **state) {
    struct tally tally = {0};
    uint32_t count = for_each_answer(compare_answer, &tally);
    print_message("%u answers, %u fields right, %u wrong\n", count, tally.right, tally.wrong);
    assert_true(count >= ANSWERS_MIN);
    assert_int_equal(tally.wrong, 0);
}

/* ---- cuts ---- */

/* Whether a text ends within a fence, said the plain way. */
static bool ends_in_fence(const char *text) {
    struct solution_fence fence = {0};
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        if (fence.mark == 0) {
            (void)solution_fence_open(text, bytes, &fence);
        } else if (solution_fence_closes(&fence, text, bytes)) {
            fence.mark = '\0';
        }
        text += bytes + (text[bytes] == '\n');
    }
    return fence.mark != 0;
}

static void check_part(const struct answer *answer, size_t bytes, const char *field,
                       const char *part, const char *whole) {
    if (part == NULL) {
        return;
    }
    assert_true(part[0] != '\0' && strlen(part) <= bytes + 1);
    size_t same = strlen(part);
    bool goes_on = whole != NULL && strncmp(part, whole, same) == 0;
    if (answer->text[bytes - 1] == '\n' && !goes_on) { /* else a line is not whole */
        fail_msg("%s, %s of %zu bytes: [%s] becomes [%s]", answer->name, field, bytes, part,
                 whole ? whole : "(none)");
    }
}

static void check_cut(const struct answer *answer, size_t bytes,
                      const struct result_solution *whole) {
    char *text = strndup(answer->text, bytes);
    struct result_solution part = parsed(text, answer);
    assert_true(part.present);
    assert_int_equal(part.complete, !answer->was_cut && !ends_in_fence(text));
    if (bytes > 0) {
        check_part(answer, bytes, "analysis", part.analysis, whole->analysis);
        check_part(answer, bytes, "time", part.time_complexity, whole->time_complexity);
        check_part(answer, bytes, "space", part.space_complexity, whole->space_complexity);
        check_part(answer, bytes, "pitfalls", part.pitfalls, whole->pitfalls);
    }
    if (part.code != NULL) {
        size_t code_bytes = strlen(part.code);
        assert_int_equal(part.code[code_bytes - 1], '\n');
        assert_non_null(memmem(text, bytes, part.code, code_bytes - 1));
    }
    solution_deinit(&part);
    free(text);
}

static void check_cuts(const struct answer *answer, void *context) {
    (void)context;
    struct result_solution whole = parsed(answer->text, answer);
    for (size_t bytes = 0; bytes <= strlen(answer->text); bytes++) {
        check_cut(answer, bytes, &whole);
    }
    solution_deinit(&whole);
}

static void grows_line_by_line_wherever_an_answer_is_cut(void **state) {
    assert_true(for_each_answer(check_cuts, NULL) >= ANSWERS_MIN);
}

TEST_MAIN(cmocka_unit_test(takes_every_answer_apart_as_a_reader_would),
          cmocka_unit_test(grows_line_by_line_wherever_an_answer_is_cut))
