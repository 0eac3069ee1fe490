/* Terminal output of text that we did not write: answers, error messages, file names.
 *
 * A model's text may hold escape sequences that would move the cursor, retitle the window or fake a
 * prompt. On a terminal every control character but newline and tab is shown as a symbol, and so
 * are the characters that reverse the direction of text; into a file or a pipe the bytes go as they
 * are. Any thread, no state. Refuses to know what the text means. */
#ifndef SOLFLEET_CONSUMER_TERMINAL_H
#define SOLFLEET_CONSUMER_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

bool terminal_is(FILE *to);

/* Columns and rows; 80 by 24 where the system does not tell. */
void terminal_size(FILE *to, int *columns, int *rows);

/* Writes text: cleaned if `to` is a terminal, else unchanged. */
void terminal_print(FILE *to, const char *text, size_t bytes);

/* Writes cleaned text whatever `to` is. */
void terminal_print_clean(FILE *to, const char *text, size_t bytes);

#endif
