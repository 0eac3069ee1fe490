#include "consumer/batch_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/sha256.h"

/* A name that must be the only one of its kind, by its hash. */
struct batch_file_name {
    uint8_t hash[16];
    uint32_t line;
};

/* The reading of a file from end to end. */
struct batch_file_scan {
    struct batch_file *file;
    const struct batch_file_report *report;
    FILE *stream;
    char *line;                    /* BATCH_LINE_BYTES_MAX + 1 */
    struct batch_file_name *names; /* as many as the file has room for entries */
    struct sha256 hash;
    uint64_t offset;
    uint32_t number;
};

/* ---- complaints ------------------------------------------------------------------------------ */

static void batch_file_complain(struct batch_file *file, const struct batch_file_report *report,
                                uint32_t line, const struct job_error *error) {
    file->complaint_count++;
    if (file->complaint_count > BATCH_FILE_COMPLAINTS_MAX) {
        return;
    }
    char text[ERROR_MESSAGE_BYTES_MAX + ERROR_FIELD_BYTES_MAX + 512];
    snprintf(text, sizeof text, "%s:%u: %s%s%s (%s)", file->path, line, error->field,
             error->field[0] ? ": " : "", error->message, error_code_name(error->code));
    report->say(report->context, text);
}

static int batch_file_compare(const void *a, const void *b) {
    const struct batch_file_name *left = a, *right = b;
    int order = memcmp(left->hash, right->hash, sizeof left->hash);
    return order ? order : (left->line > right->line) - (left->line < right->line);
}

static void batch_file_check_names(struct batch_file_scan *scan) {
    struct batch_file *file = scan->file;
    if (file->count == 0) {
        return;
    }
    qsort(scan->names, file->count, sizeof *scan->names, batch_file_compare);
    for (size_t i = 1; i < file->count; i++) {
        const struct batch_file_name *first = &scan->names[i - 1], *second = &scan->names[i];
        if (memcmp(first->hash, second->hash, sizeof first->hash) == 0) {
            struct job_error error;
            error_set(&error, ERROR_INVALID_FIELD,
                      file->kind == BATCH_OPENAI ? "custom_id" : "request_id",
                      "stands on line %u, too", first->line);
            batch_file_complain(file, scan->report, second->line, &error);
        }
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads a line without its newline. False at the end; a line that is too long comes cut, with
 * *bytes beyond the limit. */
static bool batch_file_next_line(struct batch_file_scan *scan, size_t *bytes) {
    int letter = getc_unlocked(scan->stream);
    *bytes = 0;
    if (letter == EOF) {
        return false;
    }
    for (; letter != EOF && letter != '\n'; letter = getc_unlocked(scan->stream)) {
        if (*bytes < BATCH_LINE_BYTES_MAX) {
            scan->line[*bytes] = (char)letter;
        }
        *bytes += 1;
    }
    return true;
}

static bool batch_file_is_blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (!isspace((unsigned char)text[i])) {
            return false;
        }
    }
    return true;
}

static bool batch_file_grow(struct batch_file_scan *scan) {
    struct batch_file *file = scan->file;
    if (file->count < file->capacity) {
        return true;
    }
    size_t capacity = file->capacity ? file->capacity * 2 : 1024;
    struct batch_file_entry *entries = realloc(file->entries, capacity * sizeof *entries);
    file->entries = entries ? entries : file->entries;
    struct batch_file_name *names = realloc(scan->names, capacity * sizeof *names);
    scan->names = names ? names : scan->names;
    file->capacity = entries && names ? capacity : file->capacity;
    return entries && names;
}

static uint64_t batch_file_check(const char *text, size_t bytes) {
    uint8_t digest[SHA256_BYTES] = {0};
    uint64_t check = 0;
    if (sha256_of(text, bytes, digest)) {
        memcpy(&check, digest, sizeof check);
    }
    return check;
}

/* False when memory ran out. */
static bool batch_file_add(struct batch_file_scan *scan, size_t bytes,
                           const struct batch_line *line) {
    struct batch_file *file = scan->file;
    uint8_t digest[SHA256_BYTES];
    const char *name = batch_line_name(line);
    if (!batch_file_grow(scan) || !sha256_of(name, strlen(name), digest)) {
        return false;
    }
    memcpy(scan->names[file->count].hash, digest, sizeof scan->names[0].hash);
    scan->names[file->count].line = scan->number;
    file->entries[file->count++] =
        (struct batch_file_entry){.offset = scan->offset,
                                  .check = batch_file_check(scan->line, bytes),
                                  .bytes = (uint32_t)bytes,
                                  .line = scan->number};
    return true;
}

/* Checks a line and adds it. The file's id is not known yet; ids of equal length stand for it. */
static bool batch_file_take_line(struct batch_file_scan *scan, size_t bytes) {
    struct batch_file *file = scan->file;
    struct job_error error = {0};
    struct batch_line line = {0};
    if (bytes > BATCH_LINE_BYTES_MAX) {
        error_set(&error, ERROR_TOO_LARGE, NULL, "the line is longer than %u bytes",
                  BATCH_LINE_BYTES_MAX);
    } else if (file->count == 0 && file->complaint_count == 0) {
        file->kind = batch_line_detect(scan->line, bytes);
    }
    if (error.code == ERROR_NONE &&
        batch_line_read(file->kind, scan->line, bytes, "0000000000000000", scan->number, &line,
                        &error) == ERROR_NONE) {
        bool added = batch_file_add(scan, bytes, &line);
        batch_line_deinit(&line);
        return added;
    }
    if (error.code == ERROR_INTERNAL) {
        return false;
    }
    batch_file_complain(file, scan->report, scan->number, &error);
    return true;
}

static bool batch_file_scan_lines(struct batch_file_scan *scan, char *err, size_t err_bytes) {
    struct batch_file *file = scan->file;
    size_t bytes;
    while (batch_file_next_line(scan, &bytes)) {
        size_t kept = bytes < BATCH_LINE_BYTES_MAX ? bytes : BATCH_LINE_BYTES_MAX;
        scan->number++;
        sha256_update(&scan->hash, scan->line, kept);
        sha256_update(&scan->hash, "\n", 1);
        if (!batch_file_is_blank(scan->line, kept) && !batch_file_take_line(scan, bytes)) {
            snprintf(err, err_bytes, "%s: out of memory", file->path);
            return false;
        }
        if (file->count > BATCH_FILE_LINES_MAX) {
            snprintf(err, err_bytes, "%s: more than %u lines: split it", file->path,
                     BATCH_FILE_LINES_MAX);
            return false;
        }
        scan->offset += bytes + 1;
    }
    if (ferror(scan->stream)) {
        snprintf(err, err_bytes, "%s: %s", file->path, strerror(errno));
        return false;
    }
    return true;
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool batch_file_scan(struct batch_file_scan *scan, char *err, size_t err_bytes) {
    struct batch_file *file = scan->file;
    uint8_t digest[SHA256_BYTES];
    scan->line = malloc(BATCH_LINE_BYTES_MAX + 1);
    scan->stream = fopen(file->path, "rb");
    if (!scan->line || !scan->stream) {
        snprintf(err, err_bytes, "%s: %s", file->path, strerror(errno));
        return false;
    }
    sha256_init(&scan->hash);
    bool scanned = batch_file_scan_lines(scan, err, err_bytes);
    bool hashed = sha256_finish(&scan->hash, digest);
    if (!scanned) {
        return false;
    }
    if (!hashed) {
        snprintf(err, err_bytes, "%s: out of memory", file->path);
        return false;
    }
    sha256_hex(digest, file->sha256);
    snprintf(file->id, sizeof file->id, "%.16s", file->sha256);
    batch_file_check_names(scan);
    return true;
}

bool batch_file_open(struct batch_file *file, const char *path,
                     const struct batch_file_report *report, char *err, size_t err_bytes) {
    *file = (struct batch_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    struct stat about;
    if (file->fd < 0 || fstat(file->fd, &about) != 0) {
        snprintf(err, err_bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(about.st_mode)) {
        snprintf(err, err_bytes, "%s: must be a file, since it is read more than once", path);
        return false;
    }
    struct batch_file_scan scan = {.file = file, .report = report};
    bool scanned = batch_file_scan(&scan, err, err_bytes);
    if (scan.stream) {
        fclose(scan.stream);
    }
    free(scan.line);
    free(scan.names);
    return scanned;
}

void batch_file_close(struct batch_file *file) {
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->entries);
    *file = (struct batch_file){.fd = -1};
}

bool batch_file_read(const struct batch_file *file, size_t index, struct batch_line *out, char *err,
                     size_t err_bytes) {
    const struct batch_file_entry *entry = &file->entries[index];
    struct job_error error = {0};
    char *text = malloc(entry->bytes + 1);
    *out = (struct batch_line){0};
    bool read =
        text && pread(file->fd, text, entry->bytes, (off_t)entry->offset) == (ssize_t)entry->bytes;
    bool same = read && batch_file_check(text, entry->bytes) == entry->check;
    bool understood = same && batch_line_read(file->kind, text, entry->bytes, file->id, entry->line,
                                              out, &error) == ERROR_NONE;
    if (!understood) {
        snprintf(err, err_bytes, "%s:%u: %s", file->path, entry->line,
                 same ? error.message : "has changed since it was checked; nothing more is sent");
    }
    free(text);
    return understood;
}
