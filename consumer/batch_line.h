/* A batch line: one line of a batch file turned into a job, and a result turned into a line of the
 * same kind.
 *
 * Two kinds: our jobs (results are the records of the results topic), and lines of the OpenAI Batch
 * format, of which chat completions are understood. What a chat body asks for and we cannot do is
 * refused by name, never passed over. A batch line owns its strings. Any thread; no state. Refuses
 * to know files, Kafka and Redis. */
#ifndef SOLFLEET_CONSUMER_BATCH_LINE_H
#define SOLFLEET_CONSUMER_BATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/job.h"
#include "schemas/result.h"

#define BATCH_LINE_CUSTOM_ID_BYTES_MAX 512
#define BATCH_LINE_BYTES_MAX \
    (4u << 20)                      /* of one line; the job in it may have JOB_VALUE_BYTES_MAX */
#define BATCH_LINE_FILE_ID_BYTES 17 /* what ids begin with: 16 hex digits and a NUL */

enum batch_kind { BATCH_JOBS, BATCH_OPENAI };

struct batch_line {
    char request_id[JOB_ID_BYTES_MAX + 1];
    char *custom_id; /* owned; NULL for our jobs */
    char *value;     /* owned: the record's value */
    size_t value_bytes;
};

/* The kind of a line that is a JSON object; anything else counts as a job, to be refused as one. */
enum batch_kind batch_line_detect(const char *text, size_t bytes);

/* Reads a line. An OpenAI line's request id is made of file_id and custom_id, that of a job without
 * one of file_id and `line`: equal files give equal ids. Otherwise *out is zeroed and *error names
 * the field as it stands in the line; ERROR_INTERNAL when memory ran out. */
enum error_code batch_line_read(enum batch_kind kind, const char *text, size_t bytes,
                                const char *file_id, size_t line, struct batch_line *out,
                                struct job_error *error) __attribute__((warn_unused_result));
void batch_line_deinit(struct batch_line *line); /* accepts zero */

/* What must not stand twice in a file. */
const char *batch_line_name(const struct batch_line *line);

/* The line for a job that ended, whatever way: JSON without newline, owned by the caller; NULL when
 * memory ran out. `raw` is the result as it came, NULL where only the struct is at hand. */
char *batch_line_answer(enum batch_kind kind, const struct batch_line *line,
                        const struct result *result, const char *raw, int64_t created_unix_s)
    __attribute__((warn_unused_result));

/* The line for a job that has no result. */
char *batch_line_failure(enum batch_kind kind, const struct batch_line *line,
                         const struct job_error *error) __attribute__((warn_unused_result));

#endif
