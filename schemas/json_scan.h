/* A look over a JSON text before cJSON reads it, at everything cJSON would pass or cannot tell.
 *
 * cJSON takes any byte below 33 for space, control characters in strings, \u without digits,
 * numbers such as 01 and 1., and reads 63 bytes of a number; it skips a byte order mark, cuts
 * strings at U+0000, and recurses up to a limit of its own. Here each string, escape and number is
 * checked by itself and nesting is counted; whether they stand in the right order is left to
 * cJSON. Pure, any thread, no memory of its own. Knows no node and no field. */
#ifndef SOLFLEET_SCHEMAS_JSON_SCAN_H
#define SOLFLEET_SCHEMAS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define JSON_SCAN_NUMBER_BYTES_MAX 63 /* cJSON reads no more of a number */

enum json_scan_fault { JSON_SCAN_NO_FAULT, JSON_SCAN_NUL, JSON_SCAN_SURROGATE };

struct json_scan {
    uint32_t values_max;        /* as many values and keys as there can be */
    enum json_scan_fault fault; /* the first escape of a character that no string may hold... */
    uint32_t fault_string;      /* ...and in which string, counted from 0, keys included */
};

/* Looks at `text`, `size` bytes and a NUL. A \u that stands for U+0000 or for half of a surrogate
 * pair is noted and becomes \ufffd in the text. Each number goes to `numbers` (size + 2 bytes) as
 * it is written, a NUL after it. False: ERROR_INVALID_JSON is set, with the byte offset. */
bool json_scan(char *text, size_t size, uint32_t depth_max, char *numbers, struct json_scan *scan,
               struct job_error *error) __attribute__((warn_unused_result));

#endif
