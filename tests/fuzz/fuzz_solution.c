/* Any text gives a solution whose texts are text, none empty, and not longer than what they come
 * from; the code is in it byte for byte. The first byte says whether the answer was cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/solution.h"
#include "schemas/utf8.h"
#include "tests/fuzz/fuzz.h"

static void check_section(const char *section, const char *text, bool is_text) {
    if (section == NULL) {
        return;
    }
    size_t bytes = strlen(section);
    assert(bytes > 0 && bytes <= strlen(text));
    assert(strchr(" \t\r\n", section[0]) == NULL && strchr(" \t\r\n", section[bytes - 1]) == NULL);
    assert(!is_text || utf8_is_valid(section, bytes, NULL));
}

static void check_code(const char *code, const char *text) {
    size_t bytes = code != NULL ? strlen(code) : 0;
    assert(code == NULL || (bytes >= 2 && code[bytes - 1] == '\n'));
    assert(code == NULL || memmem(text, strlen(text), code, bytes - 1) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    if (data_bytes == 0) {
        return 0;
    }
    bool was_cut = data[0] % 2 == 1;
    char *text = strndup((const char *)data + 1, data_bytes - 1);
    bool is_text = utf8_is_valid(text, strlen(text), NULL);
    struct result_solution solution;
    enum solution_status status = solution_parse(text, "python", was_cut, &solution);
    assert(status == SOLUTION_OK && solution.present);
    assert(!was_cut || !solution.complete);
    assert(solution.code_language[0] != '\0');
    check_section(solution.analysis, text, is_text);
    check_section(solution.time_complexity, text, is_text);
    check_section(solution.space_complexity, text, is_text);
    check_section(solution.pitfalls, text, is_text);
    check_code(solution.code, text);
    solution_deinit(&solution);
    free(text);
    return 0;
}
