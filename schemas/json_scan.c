#include "schemas/json_scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

struct scanner {
    const char *text, *end;
    char *at;
    char *number; /* where the next one goes */
    uint32_t depth, depth_max;
    uint32_t string_count;
    struct json_scan *scan;
    struct job_error *error;
};

static bool refuse(struct scanner *scanner, const char *at, const char *what) {
    error_set(scanner->error, ERROR_INVALID_JSON, NULL, "%s at byte %zu", what,
              (size_t)(at - scanner->text));
    return false;
}

/* ---- strings ---- */

/* The value of four hexadecimal digits, or -1; looks at nothing behind the text's NUL. */
static long read_hex4(const char *at) {
    char digits[5] = "";
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)at[i])) {
            return -1;
        }
        digits[i] = at[i];
    }
    return strtol(digits, NULL, 16);
}

static bool low_half_follows(const char *at) {
    const long low = at[0] == '\\' && at[1] == 'u' ? read_hex4(at + 2) : -1;
    return low >= 0xDC00 && low <= 0xDFFF;
}

/* At the backslash of \u. */
static bool scan_unicode(struct scanner *scanner) {
    const long unit = read_hex4(scanner->at + 2);
    if (unit < 0) {
        return refuse(scanner, scanner->at, "a \\u without four hexadecimal digits");
    }
    if (unit >= 0xD800 && unit <= 0xDBFF && low_half_follows(scanner->at + 6)) {
        scanner->at += 12;
        return true;
    }
    if (unit == 0 || (unit >= 0xD800 && unit <= 0xDFFF)) {
        if (scanner->scan->fault == JSON_SCAN_NO_FAULT) {
            scanner->scan->fault = unit == 0 ? JSON_SCAN_NUL : JSON_SCAN_SURROGATE;
            scanner->scan->fault_string = scanner->string_count;
        }
        memcpy(scanner->at + 2, "fffd", 4);
    }
    scanner->at += 6;
    return true;
}

static bool scan_escape(struct scanner *scanner) {
    const char name = scanner->at[1];
    if (name == 'u') {
        return scan_unicode(scanner);
    }
    if (name == '\0' || strchr("\"\\/bfnrt", name) == NULL) {
        return refuse(scanner, scanner->at, "an unknown escape");
    }
    scanner->at += 2;
    return true;
}

static bool scan_string(struct scanner *scanner) {
    scanner->at++;
    while (*scanner->at != '"') {
        if ((unsigned char)*scanner->at < 0x20) {
            return refuse(scanner, scanner->at,
                          scanner->at == scanner->end ? "an unclosed string"
                                                      : "a control character in a string");
        }
        if (*scanner->at != '\\') {
            scanner->at++;
        } else if (!scan_escape(scanner)) {
            return false;
        }
    }
    scanner->at++;
    scanner->string_count++;
    return true;
}

/* ---- numbers ---- */

/* The end of the number at `at`, NULL if it has no digits where it must. */
static const char *number_end(const char *at) {
    at += *at == '-';
    size_t digits = *at == '0' ? 1 : strspn(at, DIGITS);
    bool good = digits > 0;
    at += digits;
    if (*at == '.') {
        digits = strspn(++at, DIGITS);
        good = good && digits > 0;
        at += digits;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        digits = strspn(at, DIGITS);
        good = good && digits > 0;
        at += digits;
    }
    return good ? at : NULL;
}

/* What must follow each number leaves room for the NUL that follows its copy. */
static bool scan_number(struct scanner *scanner) {
    const char *end = number_end(scanner->at);
    if (end == NULL) {
        return refuse(scanner, scanner->at, "a number without digits where they must stand,");
    }
    const size_t bytes = (size_t)(end - scanner->at);
    if (bytes > JSON_SCAN_NUMBER_BYTES_MAX) {
        return refuse(scanner, scanner->at, "a number of more than 63 bytes");
    }
    if (strchr(" \t\r\n,]}", *end) == NULL) {
        return refuse(scanner, end, "a number goes on as none can");
    }
    memcpy(scanner->number, scanner->at, bytes);
    scanner->number[bytes] = '\0';
    scanner->number += bytes + 1;
    scanner->at += bytes;
    return true;
}

/* ---- the text ---- */

static bool scan_opening(struct scanner *scanner) {
    if (scanner->depth == scanner->depth_max) {
        error_set(scanner->error, ERROR_INVALID_JSON, NULL,
                  "nested more than %u levels deep at byte %zu", scanner->depth_max,
                  (size_t)(scanner->at - scanner->text));
        return false;
    }
    scanner->depth++;
    scanner->scan->values_max++;
    scanner->at++;
    return true;
}

static bool scan_token(struct scanner *scanner) {
    const char c = *scanner->at;
    switch (c) {
    case '"': return scan_string(scanner);
    case '[':
    case '{': return scan_opening(scanner);
    case ']':
    case '}': scanner->depth -= scanner->depth > 0; break;
    case ',':
    case ':': scanner->scan->values_max++; break;
    case ' ':
    case '\t':
    case '\r':
    case '\n': break;
    default:
        if (c == '-' || isdigit((unsigned char)c)) {
            return scan_number(scanner);
        }
        if (!isalpha((unsigned char)c)) { /* cJSON looks at words */
            return refuse(scanner, scanner->at, "a character that cannot stand");
        }
    }
    scanner->at++;
    return true;
}

bool json_scan(char *text, size_t size, uint32_t depth_max, char *numbers, struct json_scan *scan,
               struct job_error *error) {
    struct scanner scanner = {.text = text,
                              .end = text + size,
                              .at = text,
                              .number = numbers,
                              .depth_max = depth_max,
                              .scan = scan,
                              .error = error};
    *scan = (struct json_scan){.values_max = 1};
    while (scanner.at < scanner.end) {
        if (!scan_token(&scanner)) {
            return false;
        }
    }
    return true;
}
