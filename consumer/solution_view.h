/* A solution view: an answer as a person reads it, section by section, in Markdown; on a terminal
 * its titles are bold.
 *
 * One thread, no state. Refuses to know where answers come from. */
#ifndef SOLFLEET_CONSUMER_SOLUTION_VIEW_H
#define SOLFLEET_CONSUMER_SOLUTION_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "schemas/result.h"

/* True when there is a section to show. */
bool solution_view_has_any(const struct result_solution *solution);

/* `is_chinese`: the language of the titles. A last line says if the answer is cut off. */
void solution_view_print(FILE *to, const struct result_solution *solution, bool is_chinese);

#endif
