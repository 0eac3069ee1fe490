/* The words of a JSON text, read one by one: strings, numbers and names.
 *
 * Each word's text is moved to where it is unescaped and ends with a NUL, in the buffer that held
 * it: what was read makes room for it. Which word may follow which is not known here. Pure, any
 * thread, no memory of its own. Knows no node and no field. */
#ifndef SOLFLEET_SCHEMAS_JSON_SCAN_H
#define SOLFLEET_SCHEMAS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define JSON_SCAN_NUMBER_BYTES_MAX 63

/* The buffer has a spare byte before its text, and a NUL behind it. */
#define JSON_SCAN_SPARE_BYTES 2

struct json_scan {
    const char *text, *end; /* *end is NUL */
    const char *at;         /* of the next byte to be read */
    char *out;              /* where the next word's text goes: at least a byte before `at` */
    struct job_error *error;
};

/* `buffer` holds a byte of any value, then the text of `size` bytes, and has room for a NUL. */
struct json_scan json_scan_of(char *buffer, size_t size, struct job_error *error);

/* Passes white space; gives the byte behind it, NUL at the end (and for a NUL in the text). */
char json_scan_peek(struct json_scan *scan);
/* Passes `c` and the white space before it; false when something else stands there. */
bool json_scan_take(struct json_scan *scan, char c);
/* Passes the letters of `name`; false when they do not stand there. */
bool json_scan_name(struct json_scan *scan, const char *name);

enum json_scan_fault { JSON_SCAN_NO_FAULT, JSON_SCAN_NUL, JSON_SCAN_SURROGATE };

struct json_scan_word {
    const char *text; /* in the buffer, with a NUL behind it */
    uint32_t bytes;
    enum json_scan_fault fault; /* of a string: the first escape of what is no character;
                                   U+FFFD stands in its place */
};

/* At a quotation mark; at a digit or a minus. False: ERROR_INVALID_JSON is set, with the byte. */
bool json_scan_string(struct json_scan *scan, struct json_scan_word *word)
    __attribute__((warn_unused_result));
bool json_scan_number(struct json_scan *scan, struct json_scan_word *word)
    __attribute__((warn_unused_result));

/* Sets ERROR_INVALID_JSON with the byte offset of `at`, unless there is an error; gives false. */
bool json_scan_refuse(struct json_scan *scan, const char *at, const char *what);

#endif
