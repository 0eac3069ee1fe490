/* A result: what the fleet answers, encoded to and decoded from the value of a results record.
 *
 * The contract is schemas/v1/result.schema.json. A result owns its strings. Any thread; no state.
 * Knows nothing of Kafka or Redis. */
#ifndef SOLFLEET_SCHEMAS_RESULT_H
#define SOLFLEET_SCHEMAS_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"
#include "schemas/finish_reason.h"
#include "schemas/job.h"
#include "schemas/sha256.h"

#define RESULT_VERSION 1
#define RESULT_NAME_BYTES_MAX 128
#define RESULT_VALUE_BYTES_MAX (16u << 20) /* what result_decode accepts */
#define RESULT_DEPTH_MAX 48                /* metadata of a job and room for later fields */

enum result_status { RESULT_DONE, RESULT_FAILED, RESULT_EXPIRED, RESULT_CANCELLED };

/* The answer taken apart, as solution.h tells; NULL = a section that is missing. */
struct result_solution {
    bool present; /* false: the result's `solution` is null, as where no problem was set */
    char *analysis, *time_complexity, *space_complexity, *code, *pitfalls; /* owned */
    char code_language[JOB_CODE_LANGUAGE_BYTES];
    bool complete;
};

/* What was taken from a result that was too large for its topic. */
struct result_cut {
    bool present;        /* false: nothing; not on the wire then */
    uint64_t text_bytes; /* the whole text's; what is there may be less */
    bool solution;       /* it was left out */
};

struct result_usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
};

/* Milliseconds; -1 where the stage was not reached. */
struct result_timings {
    int64_t queue_ms;       /* record's timestamp to admission by the engine */
    int64_t batch_wait_ms;  /* admission to the first step */
    int64_t first_token_ms; /* record's timestamp to the first token */
    int64_t total_ms;       /* record's timestamp to the end */
};

struct result_model {
    char name[RESULT_NAME_BYTES_MAX];
    char sha256[SHA256_HEX_BYTES];
    char policy[32];
    char numerics[64];
    char prompt_version[32];
};

struct result {
    char request_id[JOB_ID_BYTES_MAX + 1];
    enum result_status status;
    struct result_solution solution;
    char *text;                           /* owned valid UTF-8; NULL = null on the wire */
    char answer_sha256[SHA256_HEX_BYTES]; /* "" = null */
    enum finish_reason finish_reason;
    bool truncated; /* the answer ends early: its length, or the topic's limit (`cut`) */
    struct result_cut cut;
    struct result_usage usage;
    struct result_timings timings;
    struct result_model model;
    struct job_params params; /* owns its stop strings */
    bool params_present;      /* false where the job could not be decoded */
    char worker[RESULT_NAME_BYTES_MAX];
    uint32_t attempt;
    struct job_error error; /* code ERROR_NONE = null on the wire */
    char *metadata;         /* owned JSON object text, NULL when absent */
};

const char *result_status_name(enum result_status status);

/* JSON text owned by the caller (free()), its length in *size; NULL when memory ran out. */
char *result_encode(const struct result *result, size_t *size) __attribute__((warn_unused_result));

/* Writes a solution as the value that is due: an object, or null. */
struct json_writer;
void result_encode_solution(struct json_writer *writer, const struct result_solution *solution);

/* Reads a result of version N or N-1 (for clients and repair); unknown fields are ignored.
 * ERROR_NONE fills *out; otherwise *out is zeroed and *error says why. */
enum error_code result_decode(const void *bytes, size_t size, struct result *out,
                              struct job_error *error) __attribute__((warn_unused_result));

/* sha256 over: u32 LE count, the ids as u32 LE, the text's bytes, one 0 byte, finish_reason. False
 * when memory ran out. */
bool result_answer_sha256(const int32_t *tokens, uint32_t token_count, const char *text,
                          enum finish_reason reason, char hex[SHA256_HEX_BYTES])
    __attribute__((warn_unused_result));

void result_init(struct result *result);
void result_deinit(struct result *result);

#endif
