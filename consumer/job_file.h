/* A job file: what a user hands to `submit`, turned into jobs that have been checked.
 *
 * Three kinds: one JSON job (over as many lines as it likes), JSON Lines (a job a line), or a
 * problem in plain text or Markdown, which becomes a `problem` job. A job that names no request_id
 * gets one. Owns what it made. One thread. Refuses to know where jobs go. */
#ifndef SOLFLEET_CONSUMER_JOB_FILE_H
#define SOLFLEET_CONSUMER_JOB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/job.h"

#define JOB_FILE_BYTES_MAX ((size_t)256 << 20) /* of one file or of standard input */
#define JOB_FILE_COMPLAINTS_MAX 10             /* said one by one; the rest is counted */

enum job_file_kind { JOB_FILE_JSON, JOB_FILE_LINES, JOB_FILE_TEXT };

/* Never fails: what looks like no JSON is text. */
enum job_file_kind job_file_detect(const char *text, size_t bytes);

/* What the user asked for on the command line; it beats what a JSON job says. */
struct job_file_wishes {
    const char *id;                                 /* NULL = none */
    const char *code_language;                      /* NULL = none */
    int64_t max_tokens, seed, timeout_ms, priority; /* -1 = none */
    double temperature;                             /* -1 = none */
    int answer_language;                            /* enum job_answer_language; -1 = none */
    int progress;                                   /* enum job_progress; -1 = none */
};

struct job_file_wishes job_file_no_wishes(void);

struct job_file_entry {
    char request_id[JOB_ID_BYTES_MAX + 1];
    char *value; /* owned: the record's value */
    size_t value_bytes;
    const char *source; /* borrowed name of the file */
    size_t line;        /* where the job begins, from 1 */
};

struct job_file {
    struct job_file_entry *entries; /* owned */
    size_t count, capacity;
    size_t complaint_count;
};

void job_file_deinit(struct job_file *file); /* accepts zero */

/* Where complaints go, one line each: "problems.jsonl:7: params.max_tokens: …". */
struct job_file_report {
    void (*say)(void *context, const char *text);
    void *context;
};

/* Adds the jobs of one text. Every fault is reported and counted in complaint_count; the sound jobs
 * are added all the same. False only when memory ran out. `source` must outlive the file. */
bool job_file_add(struct job_file *file, const char *source, const char *text, size_t bytes,
                  const struct job_file_wishes *wishes, const struct job_file_report *report)
    __attribute__((warn_unused_result));

/* Reports every id that stands twice. False only when memory ran out. */
bool job_file_check_ids(struct job_file *file, const struct job_file_report *report)
    __attribute__((warn_unused_result));

/* Makes a problem job of a plain or Markdown text: the first line becomes the title if it is a
 * heading. Strings are copied. False when memory ran out: *job is then zeroed. */
bool job_file_make_problem(struct job *job, const char *request_id, const char *text, size_t bytes)
    __attribute__((warn_unused_result));

/* "two-sum-3f9a2c41d0b7" of "problems/two-sum.md"; unlike any other id. */
void job_file_make_id(const char *source, char request_id[JOB_ID_BYTES_MAX + 1]);

/* Reads a whole file, or standard input for "-". *text is the caller's to free and has a NUL after
 * its end. False with the reason in err. */
bool job_file_read(const char *path, char **text, size_t *bytes, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
