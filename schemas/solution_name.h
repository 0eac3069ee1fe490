/* The name of a section: what a heading calls it, in Chinese or English.
 *
 * Names come folded: lower case, half width, without blanks, hyphens and marks. Pure; any thread;
 * no memory. Refuses to know what makes a line a heading: that is solution_heading. */
#ifndef SOLFLEET_SCHEMAS_SOLUTION_NAME_H
#define SOLFLEET_SCHEMAS_SOLUTION_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define SOLUTION_NAME_BYTES_MAX 63 /* folded; no name of ours is longer */

enum solution_section {
    SOLUTION_NONE = 0,
    SOLUTION_ANALYSIS,
    SOLUTION_TIME,
    SOLUTION_SPACE,
    SOLUTION_COMPLEXITY, /* of time and space together, to be split */
    SOLUTION_CODE,
    SOLUTION_PITFALLS,
    SOLUTION_SECTION_COUNT
};

struct solution_name_match {
    enum solution_section section; /* NONE: no name of ours */
    bool is_loose; /* a name that also heads a part of its section: `Approach 2`, `Algorithm` */
};

/* bytes <= SOLUTION_NAME_BYTES_MAX. */
struct solution_name_match solution_name_match(const char *key, size_t bytes);

#endif
