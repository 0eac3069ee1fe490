#include "consumer/since.h"

#include <stddef.h>
#include <time.h>

#define DIGITS_MAX 15 /* of a number, far below what overflows */

/* Reads exactly `digits` digits (0 = as many as there are, at least one). */
static bool since_number(const char **at, int digits, int64_t *out) {
    int count = 0;
    int64_t value = 0;
    for (; **at >= '0' && **at <= '9' && count < DIGITS_MAX && (digits == 0 || count < digits);
         count++) {
        value = value * 10 + (*(*at)++ - '0');
    }
    *out = value;
    return count > 0 && (digits == 0 || count == digits);
}

static bool since_skip(const char **at, char wanted) {
    if (**at != wanted) {
        return false;
    }
    ++*at;
    return true;
}

static int64_t since_unit_ms(char unit) {
    switch (unit) {
    case 's': return 1000;
    case 'm': return 60 * 1000;
    case 'h': return 3600 * 1000;
    case 'd': return 24 * 3600 * 1000;
    default: return 0;
    }
}

/* Milliseconds of what stands behind the seconds' point; further digits are of no use. */
static bool since_fraction(const char **at, int64_t *ms) {
    int64_t scale = 100;
    *ms = 0;
    if (!since_skip(at, '.')) {
        return true;
    }
    if (**at < '0' || **at > '9') {
        return false;
    }
    for (; **at >= '0' && **at <= '9'; ++*at, scale /= 10) {
        *ms += (**at - '0') * scale;
    }
    return true;
}

/* "", "Z", "+01:00", "-0530": what is to be taken from the time to get UTC. */
static bool since_zone(const char **at, int64_t *ms) {
    int64_t hours, minutes;
    *ms = 0;
    if (**at == '\0' || since_skip(at, 'Z')) {
        return true;
    }
    int64_t sign = **at == '-' ? -1 : 1;
    if (!since_skip(at, '+') && !since_skip(at, '-')) {
        return false;
    }
    if (!since_number(at, 2, &hours)) {
        return false;
    }
    since_skip(at, ':');
    if (!since_number(at, 2, &minutes) || hours > 14 || minutes > 59) {
        return false;
    }
    *ms = sign * (hours * 60 + minutes) * 60 * 1000;
    return true;
}

struct since_date {
    int64_t year, month, day, hour, minute, second, ms, zone_ms;
};

/* "HH:MM[:SS[.fff]][zone]" */
static bool since_clock(const char **at, struct since_date *date) {
    if (!since_number(at, 2, &date->hour) || !since_skip(at, ':') ||
        !since_number(at, 2, &date->minute)) {
        return false;
    }
    if (since_skip(at, ':') &&
        (!since_number(at, 2, &date->second) || !since_fraction(at, &date->ms))) {
        return false;
    }
    return since_zone(at, &date->zone_ms);
}

static bool since_date(const char *text, int64_t *unix_ms) {
    struct since_date date = {0};
    const char *at = text;
    if (!since_number(&at, 4, &date.year) || !since_skip(&at, '-') ||
        !since_number(&at, 2, &date.month) || !since_skip(&at, '-') ||
        !since_number(&at, 2, &date.day)) {
        return false;
    }
    if ((since_skip(&at, 'T') || since_skip(&at, ' ')) && !since_clock(&at, &date)) {
        return false;
    }
    struct tm tm = {.tm_year = (int)date.year - 1900,
                    .tm_mon = (int)date.month - 1,
                    .tm_mday = (int)date.day,
                    .tm_hour = (int)date.hour,
                    .tm_min = (int)date.minute,
                    .tm_sec = (int)date.second};
    if (*at != '\0' || date.hour > 23 || date.minute > 59 || date.second > 59) {
        return false;
    }
    int64_t seconds = timegm(&tm); /* puts a day that does not exist into the next month */
    if (tm.tm_mon != date.month - 1 || tm.tm_mday != date.day) {
        return false;
    }
    *unix_ms = seconds * 1000 + date.ms - date.zone_ms;
    return true;
}

bool since_parse(const char *text, int64_t now_unix_ms, int64_t *unix_ms) {
    const char *at = text;
    int64_t number;
    if (since_date(text, unix_ms)) {
        return *unix_ms >= 0 && *unix_ms <= now_unix_ms;
    }
    if (!since_number(&at, 0, &number)) {
        return false;
    }
    int64_t unit_ms = since_unit_ms(*at);
    if (*at == '\0') {
        *unix_ms = number;
    } else if (unit_ms > 0 && at[1] == '\0' && number <= now_unix_ms / unit_ms) {
        *unix_ms = now_unix_ms - number * unit_ms;
    } else {
        return false;
    }
    return *unix_ms <= now_unix_ms;
}
