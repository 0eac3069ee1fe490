#include "consumer/config_value.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 96

static void *config_value_at(const struct config_option *option, void *values) {
    return (char *)values + option->offset;
}

static bool config_value_bool(const char *text, bool *out) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return true;
        }
    }
    return false;
}

static bool config_value_int(const struct config_option *option, const char *text, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || (double)value < option->min ||
        (double)value > option->max) {
        return false;
    }
    *out = value;
    return true;
}

static bool config_value_real(const struct config_option *option, const char *text, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= option->min && value <= option->max)) {
        return false;
    }
    *out = value;
    return true;
}

static bool config_value_choice(const char *choices, const char *text) {
    size_t size = strlen(text);
    for (const char *at = choices; size > 0; at++) {
        size_t span = strcspn(at, "|");
        if (span == size && memcmp(at, text, size) == 0) {
            return true;
        }
        at += span;
        if (*at == '\0') {
            break;
        }
    }
    return false;
}

static void config_value_refuse_choice(const struct config_option *option, const char *text,
                                       const char *where, char *err, size_t err_bytes) {
    char near[NAME_BYTES_MAX] = "";
    unsigned best = (unsigned)strlen(text) / 2 + 1; /* farther is no help */
    for (const char *at = option->choices; *at != '\0'; at += strspn(at, "|")) {
        char choice[NAME_BYTES_MAX];
        size_t span = strcspn(at, "|");
        snprintf(choice, sizeof choice, "%.*s", (int)span, at);
        unsigned distance = config_value_distance(text, choice);
        if (distance < best) {
            memcpy(near, choice, sizeof near);
            best = distance;
        }
        at += span;
    }
    snprintf(err, err_bytes, "%s: '%s' is not one of %s%s%s%s", where, text, option->choices,
             near[0] ? ": did you mean " : "", near, near[0] ? "?" : "");
}

static bool config_value_refuse(const struct config_option *option, const char *text,
                                const char *where, char *err, size_t err_bytes) {
    switch (option->type) {
    case CONFIG_BOOL: snprintf(err, err_bytes, "%s: '%s' is not true or false", where, text); break;
    case CONFIG_INT:
        snprintf(err, err_bytes, "%s: '%s' is not a whole number in %.0f..%.0f", where, text,
                 option->min, option->max);
        break;
    case CONFIG_REAL:
        snprintf(err, err_bytes, "%s: '%s' is not a number in %g..%g", where, text, option->min,
                 option->max);
        break;
    default: config_value_refuse_choice(option, text, where, err, err_bytes); break;
    }
    return false;
}

bool config_value_set(const struct config_option *option, void *values, const char *text,
                      const char *where, char *err, size_t err_bytes) {
    void *field = config_value_at(option, values);
    bool fits = true;
    switch (option->type) {
    case CONFIG_BOOL: fits = config_value_bool(text, field); break;
    case CONFIG_INT: fits = config_value_int(option, text, field); break;
    case CONFIG_REAL: fits = config_value_real(option, text, field); break;
    case CONFIG_CHOICE: fits = config_value_choice(option->choices, text); break;
    case CONFIG_TEXT:
    case CONFIG_LIST: break;
    }
    if (!fits) {
        return config_value_refuse(option, text, where, err, err_bytes);
    }
    if (option->type >= CONFIG_TEXT) {
        *(const char **)field = text;
    }
    return true;
}

bool config_value_same_name(const char *a, const char *b) {
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        char x = *a == '-' ? '_' : *a;
        char y = *b == '-' ? '_' : *b;
        if (x != y) {
            return false;
        }
    }
    return *a == *b;
}

unsigned config_value_distance(const char *a, const char *b) {
    size_t a_size = strnlen(a, NAME_BYTES_MAX);
    size_t b_size = strnlen(b, NAME_BYTES_MAX);
    unsigned row[NAME_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_size; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_size; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            unsigned step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < step ? change : step;
        }
    }
    return row[b_size];
}
