#include "schemas/json_scan.h"

#include <string.h>

#define DIGITS "0123456789"
#define REPLACEMENT 0xFFFD

struct json_scan json_scan_of(char *buffer, size_t size, struct job_error *error) {
    char *text = buffer + 1;
    text[size] = '\0';
    return (struct json_scan){
        .text = text, .end = text + size, .at = text, .out = buffer, .error = error};
}

bool json_scan_refuse(struct json_scan *scan, const char *at, const char *what) {
    if (scan->error->code == ERROR_NONE) {
        error_set(scan->error, ERROR_INVALID_JSON, NULL, "%s at byte %zu", what,
                  (size_t)(at - scan->text));
    }
    return false;
}

/* ---- between words ---- */

char json_scan_peek(struct json_scan *scan) {
    while (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r') {
        scan->at++;
    }
    return *scan->at;
}

bool json_scan_take(struct json_scan *scan, char c) {
    if (json_scan_peek(scan) != c) {
        return false;
    }
    scan->at++;
    return true;
}

bool json_scan_name(struct json_scan *scan, const char *name) {
    const size_t bytes = strlen(name);
    if (strncmp(scan->at, name, bytes) != 0) {
        return false;
    }
    scan->at += bytes;
    return true;
}

/* ---- strings ---- */

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The value of four hexadecimal digits, or -1; looks at nothing behind the text's NUL. */
static int32_t read_hex4(const char *at) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_value(at[i]);
        if (digit < 0) {
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

static void put_utf8(struct json_scan *scan, uint32_t code_point) {
    char *out = scan->out;
    if (code_point < 0x80) {
        *out++ = (char)code_point;
    } else if (code_point < 0x800) {
        *out++ = (char)(0xC0 | code_point >> 6);
        *out++ = (char)(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        *out++ = (char)(0xE0 | code_point >> 12);
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code_point & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code_point >> 18);
        *out++ = (char)(0x80 | (code_point >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code_point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code_point & 0x3F));
    }
    scan->out = out;
}

static bool is_half(int32_t unit) {
    return unit >= 0xD800 && unit <= 0xDFFF;
}

/* The low half of a pair that goes on at `at`, or -1. */
static int32_t read_low_half(const char *at) {
    const int32_t low = at[0] == '\\' && at[1] == 'u' ? read_hex4(at + 2) : -1;
    return low >= 0xDC00 && low <= 0xDFFF ? low : -1;
}

/* At the backslash of \u. */
static bool scan_unicode(struct json_scan *scan, struct json_scan_word *word) {
    const int32_t unit = read_hex4(scan->at + 2);
    if (unit < 0) {
        return json_scan_refuse(scan, scan->at, "a \\u without four hexadecimal digits");
    }
    scan->at += 6;
    const int32_t low = unit >= 0xD800 && unit <= 0xDBFF ? read_low_half(scan->at) : -1;
    if (low >= 0) {
        scan->at += 6;
        put_utf8(scan, (uint32_t)(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)));
        return true;
    }
    if (unit != 0 && !is_half(unit)) {
        put_utf8(scan, (uint32_t)unit);
        return true;
    }
    if (word->fault == JSON_SCAN_NO_FAULT) {
        word->fault = unit == 0 ? JSON_SCAN_NUL : JSON_SCAN_SURROGATE;
    }
    put_utf8(scan, REPLACEMENT);
    return true;
}

static bool scan_escape(struct json_scan *scan, struct json_scan_word *word) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char name = scan->at[1];
    if (name == 'u') {
        return scan_unicode(scan, word);
    }
    const char *found = name != '\0' ? strchr(names, name) : NULL;
    if (found == NULL) {
        return json_scan_refuse(scan, scan->at, "an unknown escape");
    }
    *scan->out++ = meanings[found - names];
    scan->at += 2;
    return true;
}

static bool is_plain(char c) {
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static void copy_plain(struct json_scan *scan) {
    const char *from = scan->at;
    while (is_plain(*scan->at)) {
        scan->at++;
    }
    const size_t bytes = (size_t)(scan->at - from);
    memmove(scan->out, from, bytes);
    scan->out += bytes;
}

static void finish_word(struct json_scan *scan, struct json_scan_word *word) {
    word->bytes = (uint32_t)(scan->out - word->text);
    *scan->out++ = '\0';
}

bool json_scan_string(struct json_scan *scan, struct json_scan_word *word) {
    *word = (struct json_scan_word){.text = scan->out};
    scan->at++;
    for (;;) {
        copy_plain(scan);
        if (*scan->at == '"') {
            scan->at++;
            finish_word(scan, word);
            return true;
        }
        if (*scan->at != '\\') {
            return json_scan_refuse(scan, scan->at,
                                    scan->at == scan->end ? "an unclosed string"
                                                          : "a control character in a string");
        }
        if (!scan_escape(scan, word)) {
            return false;
        }
    }
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

bool json_scan_number(struct json_scan *scan, struct json_scan_word *word) {
    const char *from = scan->at, *end = number_end(from);
    if (end == NULL) {
        return json_scan_refuse(scan, from, "a number without digits where they must stand,");
    }
    const size_t bytes = (size_t)(end - from);
    if (bytes > JSON_SCAN_NUMBER_BYTES_MAX) {
        return json_scan_refuse(scan, from, "a number of more than 63 bytes");
    }
    if (strchr(" \t\r\n,]}", *end) == NULL) { /* a NUL is found, too */
        return json_scan_refuse(scan, end, "a number goes on as none can");
    }
    *word = (struct json_scan_word){.text = scan->out};
    memmove(scan->out, from, bytes);
    scan->out += bytes;
    scan->at = end;
    finish_word(scan, word);
    return true;
}
