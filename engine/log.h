/* A log: one line an event, `time level event key=value …`, written to a file descriptor.
 *
 *     log_write(log, LOG_LEVEL_INFO, "engine.open",
 *               LOG_FIELDS(log_text("model", name), log_int("kv_bytes", bytes)));
 *     2026-11-29T18:16:45.123Z info engine.open model=SmolLM2 kv_bytes=94371840
 *
 * Threads: any; a line is one write(2), so lines do not mix. The caller's memory; the descriptor is
 * borrowed. A NULL log is silent. A value with a space, a quote, a control character or nothing in
 * it is quoted and escaped, so a line is always one line. A longer line is cut. Refuses to know
 * files, rotation and who reads. There is no global log. */
#ifndef SOLFLEET_ENGINE_LOG_H
#define SOLFLEET_ENGINE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock;

#define LOG_LINE_BYTES_MAX 4096 /* a write of so much to a pipe is atomic */

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log {
    int fd;
    enum log_level level; /* the last level that is written */
    struct clock *clock;  /* borrowed; NULL = the real one */
};

enum log_kind { LOG_KIND_INT, LOG_KIND_REAL, LOG_KIND_TEXT };

struct log_field {
    const char *key; /* NULL ends a list */
    enum log_kind kind;
    int64_t integer;
    double real;
    const char *text; /* NULL is written as `-` */
};

static inline struct log_field log_int(const char *key, int64_t value) {
    return (struct log_field){.key = key, .kind = LOG_KIND_INT, .integer = value};
}

static inline struct log_field log_real(const char *key, double value) {
    return (struct log_field){.key = key, .kind = LOG_KIND_REAL, .real = value};
}

static inline struct log_field log_text(const char *key, const char *value) {
    return (struct log_field){.key = key, .kind = LOG_KIND_TEXT, .text = value};
}

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__, {.key = NULL}})

void log_init(struct log *log, int fd, enum log_level level, struct clock *clock);
/* `fields` is a LOG_FIELDS(…) or NULL. */
void log_write(const struct log *log, enum log_level level, const char *event,
               const struct log_field *fields);

const char *log_level_name(enum log_level level);
bool log_level_parse(const char *name, enum log_level *out);

#endif
