#include "engine/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"

static const char *const log_level_names[] = {"error", "warn", "info", "debug"};
#define LOG_LEVEL_COUNT (sizeof log_level_names / sizeof log_level_names[0])

/* One byte is kept for the line's end. */
struct log_line {
    char bytes[LOG_LINE_BYTES_MAX];
    size_t count;
};

static void log_put(struct log_line *line, char c) {
    if (line->count + 1 < sizeof line->bytes) {
        line->bytes[line->count++] = c;
    }
}

static void log_puts(struct log_line *line, const char *text) {
    while (*text != '\0') {
        log_put(line, *text++);
    }
}

static bool log_needs_quotes(const char *text) {
    if (text[0] == '\0') {
        return true;
    }
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at <= ' ' || *at == '"' || *at == '\\' || *at == '=' || *at == 0x7F) {
            return true;
        }
    }
    return false;
}

static void log_put_quoted(struct log_line *line, const char *text) {
    static const char digits[] = "0123456789abcdef";
    log_put(line, '"');
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            log_put(line, '\\');
            log_put(line, (char)*at);
        } else if (*at == '\n') {
            log_puts(line, "\\n");
        } else if (*at < ' ' || *at == 0x7F) {
            log_puts(line, "\\x");
            log_put(line, digits[*at >> 4]);
            log_put(line, digits[*at & 15]);
        } else {
            log_put(line, (char)*at);
        }
    }
    log_put(line, '"');
}

static void log_put_time(struct log_line *line, const struct clock *clock) {
    int64_t unix_ms = clock_unix_ms(clock);
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    char text[64];
    size_t count = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + count, sizeof text - count, ".%03dZ ", (int)(unix_ms % 1000));
    log_puts(line, text);
}

static void log_put_field(struct log_line *line, const struct log_field *field) {
    char number[64];
    log_put(line, ' ');
    log_puts(line, field->key);
    log_put(line, '=');
    switch (field->kind) {
    case LOG_KIND_INT:
        snprintf(number, sizeof number, "%lld", (long long)field->integer);
        log_puts(line, number);
        break;
    case LOG_KIND_REAL:
        snprintf(number, sizeof number, "%.6g", field->real);
        log_puts(line, number);
        break;
    case LOG_KIND_TEXT:
        if (field->text == NULL) {
            log_put(line, '-');
        } else if (log_needs_quotes(field->text)) {
            log_put_quoted(line, field->text);
        } else {
            log_puts(line, field->text);
        }
        break;
    }
}

void log_init(struct log *log, int fd, enum log_level level, struct clock *clock) {
    *log = (struct log){.fd = fd, .level = level, .clock = clock};
}

void log_write(const struct log *log, enum log_level level, const char *event,
               const struct log_field *fields) {
    if (log == NULL || level > log->level) {
        return;
    }
    struct log_line line = {.count = 0};
    log_put_time(&line, log->clock);
    log_puts(&line, log_level_name(level));
    log_put(&line, ' ');
    log_puts(&line, event);
    for (; fields != NULL && fields->key != NULL; fields++) {
        log_put_field(&line, fields);
    }
    line.bytes[line.count++] = '\n';
    ssize_t written = write(log->fd, line.bytes, line.count);
    (void)written; /* there is nowhere to complain about a log that cannot be written */
}

const char *log_level_name(enum log_level level) {
    assert((size_t)level < LOG_LEVEL_COUNT);
    return log_level_names[level];
}

bool log_level_parse(const char *name, enum log_level *out) {
    for (size_t i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (strcmp(name, log_level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}
