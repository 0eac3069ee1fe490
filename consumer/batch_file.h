/* A batch file: an index of the lines of a JSON Lines file, all checked, and a way back to each.
 *
 * The file is read once from end to end; of each line only its place and a hash are kept (24
 * bytes), so a file may be larger than memory. Owns its descriptor. One thread. Refuses to know
 * what becomes of a line. */
#ifndef SOLFLEET_CONSUMER_BATCH_FILE_H
#define SOLFLEET_CONSUMER_BATCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/batch_line.h"

#define BATCH_FILE_LINES_MAX 1000000u /* 24 MB of index */
#define BATCH_FILE_COMPLAINTS_MAX 10  /* said one by one; the rest is counted */

struct batch_file_entry {
    uint64_t offset;
    uint64_t check; /* of the line's bytes: the file may be changed under our hands */
    uint32_t bytes;
    uint32_t line; /* from 1 */
};

struct batch_file {
    const char *path; /* borrowed */
    int fd;
    enum batch_kind kind;             /* of its first line */
    struct batch_file_entry *entries; /* owned */
    size_t count, capacity;
    char sha256[SHA256_HEX_BYTES];     /* of the content */
    char id[BATCH_LINE_FILE_ID_BYTES]; /* what derived request ids begin with */
    size_t complaint_count;
};

/* Where complaints go, one line each: "jobs.jsonl:7: body.top_p: …". */
struct batch_file_report {
    void (*say)(void *context, const char *text);
    void *context;
};

/* Opens and checks the file. False with the reason in err when it cannot be read at all; faults of
 * lines are reported and counted. batch_file_close is due in either case. */
bool batch_file_open(struct batch_file *file, const char *path,
                     const struct batch_file_report *report, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
void batch_file_close(struct batch_file *file);

/* Reads a line again. False with the reason in err: the file has changed since. */
bool batch_file_read(const struct batch_file *file, size_t index, struct batch_line *out, char *err,
                     size_t err_bytes) __attribute__((warn_unused_result));

#endif
