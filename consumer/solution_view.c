#include "consumer/solution_view.h"

#include <string.h>

#include "consumer/terminal.h"

bool solution_view_has_any(const struct result_solution *solution) {
    return solution->present &&
           (solution->analysis || solution->time_complexity || solution->space_complexity ||
            solution->code || solution->pitfalls);
}

static void solution_view_title(FILE *to, const char *title, bool is_first) {
    bool is_terminal = terminal_is(to);
    fputs(is_first ? "" : "\n", to);
    fprintf(to, "%s## %s%s\n", is_terminal ? "\033[1m" : "", title, is_terminal ? "\033[0m" : "");
}

/* Ends with exactly one line break. */
static void solution_view_text(FILE *to, const char *text) {
    size_t bytes = strlen(text);
    terminal_print(to, text, bytes);
    if (bytes == 0 || text[bytes - 1] != '\n') {
        fputc('\n', to);
    }
}

/* Longer than every run of backticks in the code. */
static size_t solution_view_fence_marks(const char *code) {
    size_t marks = 3, run = 0;
    for (; *code != '\0'; code++) {
        run = *code == '`' ? run + 1 : 0;
        marks = run >= marks ? run + 1 : marks;
    }
    return marks;
}

static void solution_view_code(FILE *to, const struct result_solution *solution) {
    size_t marks = solution_view_fence_marks(solution->code);
    for (size_t i = 0; i < marks; i++) {
        fputc('`', to);
    }
    terminal_print(to, solution->code_language, strlen(solution->code_language));
    fputc('\n', to);
    solution_view_text(to, solution->code);
    for (size_t i = 0; i < marks; i++) {
        fputc('`', to);
    }
    fputc('\n', to);
}

void solution_view_print(FILE *to, const struct result_solution *solution, bool is_chinese) {
    const struct {
        const char *english, *chinese, *text;
    } sections[] = {{"Approach", "思路分析", solution->analysis},
                    {"Time complexity", "时间复杂度", solution->time_complexity},
                    {"Space complexity", "空间复杂度", solution->space_complexity},
                    {"Code", "代码示例", solution->code},
                    {"Pitfalls", "易错点", solution->pitfalls}};
    bool is_first = true;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!sections[i].text) {
            continue;
        }
        solution_view_title(to, is_chinese ? sections[i].chinese : sections[i].english, is_first);
        is_first = false;
        if (sections[i].text == solution->code) {
            solution_view_code(to, solution);
        } else {
            solution_view_text(to, sections[i].text);
        }
    }
    if (!solution->complete) {
        fputs(is_chinese ? "\n（未写完）\n" : "\n(cut off)\n", to);
    }
}
