/* A measure: what a line of prose says of time, and what of space.
 *
 * Splits the lines under a heading of both complexities where the words stand: `时间 O(n)，空间 O(1)`,
 * `O(n) time and O(1) space`, `Both O(n)`. Pure functions; any thread; no memory. */
#ifndef SOLFLEET_SCHEMAS_SOLUTION_MEASURE_H
#define SOLFLEET_SCHEMAS_SOLUTION_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

struct solution_span {
    const char *at;
    size_t bytes;
};

enum solution_measure {
    SOLUTION_MEASURE_NONE = 0, /* the line names neither */
    SOLUTION_MEASURE_TIME,
    SOLUTION_MEASURE_SPACE,
    SOLUTION_MEASURE_BOTH
};

/* Which of the two a line is about; time and space are the parts of it, for those it is about. */
enum solution_measure solution_measure_split(const char *line, size_t line_bytes,
                                             struct solution_span *time,
                                             struct solution_span *space);

/* Where in a line about one of them a value of the other begins, as in `O(n)，空间复杂度：O(1)`: *rest
 * is that value; *bytes what belongs to the one. False: nowhere. */
bool solution_measure_find_other(const char *line, size_t line_bytes, bool is_time, size_t *bytes,
                                 struct solution_span *rest);

/* True when a text gives an order: O(…), Θ(…). */
bool solution_measure_has_order(const char *text, size_t bytes);

#endif
