/* A solution: an answer's text taken apart into the sections that a reader looks for.
 *
 * Takes what models write, not only what they were asked for: see solution_heading.h for headings,
 * solution_fence.h for code. The rules:
 *   - Outside fences a heading begins a section, which lasts to the next heading of ours; any other
 *     heading is part of the section it stands in. Of a section that comes twice the first counts.
 *   - The code is the longest fence under the code heading, else the longest anywhere; its bytes
 *     are the model's, and end with a line break. A fence that is not closed runs to the end.
 *   - Its language is what stands behind the fence, else the one asked for.
 *   - A section that is missing or empty is NULL.
 *   - The solution is complete unless the text was cut or a fence is open at its end.
 * Any thread; no state; time and memory are linear in the text. */
#ifndef SOLFLEET_SCHEMAS_SOLUTION_H
#define SOLFLEET_SCHEMAS_SOLUTION_H

#include <stdbool.h>

#include "schemas/result.h"

enum solution_status { SOLUTION_OK = 0, SOLUTION_NO_MEMORY };

/* `was_cut`: the model did not end the text itself. On OK *out owns its strings (result_deinit, or
 * solution_deinit); otherwise it is zeroed. */
enum solution_status solution_parse(const char *text, const char *code_language, bool was_cut,
                                    struct result_solution *out)
    __attribute__((warn_unused_result));
void solution_deinit(struct result_solution *solution); /* accepts zeroed */

#endif
