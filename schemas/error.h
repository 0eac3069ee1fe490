/* The reason codes of the wire contract, and the structure that carries one with its place.
 *
 * A `struct job_error` is a client's error (it becomes a result or a dead letter); it is never an
 * operating error of ours. Plain values, no ownership, any thread. Knows no transport. */
#ifndef SOLFLEET_SCHEMAS_ERROR_H
#define SOLFLEET_SCHEMAS_ERROR_H

#include <stdbool.h>
#include <stddef.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_INVALID_JSON,
    ERROR_INVALID_UTF8,
    ERROR_INVALID_FIELD,
    ERROR_UNSUPPORTED_VERSION,
    ERROR_TOO_LARGE,
    ERROR_PROMPT_TOO_LONG,
    ERROR_EMPTY_PROMPT,
    ERROR_CONFLICT,
    ERROR_EXPIRED,
    ERROR_INFEASIBLE,
    ERROR_CANCELLED,
    ERROR_POISON,
    ERROR_NUMERIC,
    ERROR_ENGINE_FAILED,
    ERROR_RESULT_TOO_LARGE,
    ERROR_CONTENT_REJECTED,
    ERROR_INTERNAL,
    ERROR_CODE_COUNT
};

#define ERROR_FIELD_BYTES_MAX 128   /* path such as "params.stop[3]", NUL included */
#define ERROR_MESSAGE_BYTES_MAX 256 /* one sentence, NUL included, always valid UTF-8 */

struct job_error {
    enum error_code code;
    char field[ERROR_FIELD_BYTES_MAX]; /* "" where no field is to blame */
    char message[ERROR_MESSAGE_BYTES_MAX];
};

/* The code's name on the wire, e.g. "invalid_json"; "none" for ERROR_NONE. Static storage. */
const char *error_code_name(enum error_code code);

/* False when `name` is no code of this version; *out is then untouched. */
bool error_code_parse(const char *name, enum error_code *out);

/* Fills *error; `field` may be NULL. The message is formatted as by printf and cut at a code point
 * when too long. Returns error->code, so a caller can write `return error_set(...)`. */
enum error_code error_set(struct job_error *error, enum error_code code, const char *field,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
