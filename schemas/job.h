/* A job: what a client asked for, decoded from and encoded to the value of a Kafka record.
 *
 * The contract is schemas/v1/job.schema.json. Decoding is total: every byte string gives either a
 * job whose every field is in range, or a coded error naming the field. Any thread; no state.
 * A job owns its strings. Knows nothing of Kafka, Redis, templates or tokens. */
#ifndef SOLFLEET_SCHEMAS_JOB_H
#define SOLFLEET_SCHEMAS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

#define JOB_VERSION 1
#define JOB_ID_BYTES_MAX 128           /* without the NUL */
#define JOB_VALUE_BYTES_MAX (1u << 20) /* default limit on a record's value */
#define JOB_DEPTH_MAX 32               /* levels of arrays and objects in a record's value */
#define JOB_METADATA_BYTES_MAX 4096    /* serialised */
#define JOB_TENANT_BYTES_MAX 128
#define JOB_TOPIC_BYTES_MAX 249 /* Kafka's own limit */
#define JOB_MESSAGES_MAX 256
#define JOB_EXAMPLES_MAX 64
#define JOB_CODE_LANGUAGE_BYTES 32 /* with the NUL */
#define JOB_STOPS_MAX 16
#define JOB_STOP_BYTES_MAX 256
#define JOB_STOP_TOKENS_MAX 64
#define JOB_PRIORITY_MAX 9
#define JOB_PRIORITY_DEFAULT 5
#define JOB_MAX_TOKENS_DEFAULT 512
#define JOB_MAX_TOKENS_MAX 2048
#define JOB_TIMEOUT_MS_MAX (7LL * 24 * 3600 * 1000)
#define JOB_SEED_MAX ((1ULL << 53) - 1)

/* Sampling parameters as applied: rounded to f32 once, here. See design of the sampling order in
 * kernels/ops.h (head_sample). */
struct job_params {
    uint32_t max_tokens;      /* 1..JOB_MAX_TOKENS_MAX */
    float temperature;        /* 0..2 */
    float top_p;              /* (0, 1]; 1 = off */
    uint32_t top_k;           /* 0 = off .. 1000000 */
    float min_p;              /* 0 = off .. 1 */
    float repetition_penalty; /* (0, 2]; 1 = off */
    float presence_penalty;   /* -2..2 */
    float frequency_penalty;  /* -2..2 */
    uint64_t seed;            /* always set after decoding: given, or derived from request_id */
    bool seed_given;
    char *stop[JOB_STOPS_MAX]; /* owned, NUL-terminated valid UTF-8, none empty */
    uint32_t stop_count;
    int32_t stop_token_ids[JOB_STOP_TOKENS_MAX]; /* >= 0; the engine checks the vocabulary */
    uint32_t stop_token_count;
};

enum job_role { JOB_ROLE_SYSTEM, JOB_ROLE_USER, JOB_ROLE_ASSISTANT };

struct job_message {
    enum job_role role;
    char *content; /* owned */
};

struct job_example {
    char *input;       /* owned */
    char *output;      /* owned */
    char *explanation; /* owned, NULL when absent */
};

enum job_answer_language { JOB_ANSWER_AUTO, JOB_ANSWER_ZH, JOB_ANSWER_EN };

struct job_problem {
    char *statement; /* owned, not empty */
    char *title;     /* owned, NULL when absent */
    struct job_example *examples;
    uint32_t example_count;
    char *constraints;                           /* owned, NULL when absent */
    char code_language[JOB_CODE_LANGUAGE_BYTES]; /* lower case, default "python" */
    enum job_answer_language answer_language;
};

enum job_kind { JOB_PROBLEM, JOB_PROMPT, JOB_MESSAGES };
enum job_progress { JOB_PROGRESS_OFF, JOB_PROGRESS_TOKENS, JOB_PROGRESS_TEXT };

struct job {
    char request_id[JOB_ID_BYTES_MAX + 1];
    enum job_kind kind;
    struct job_problem problem;   /* kind JOB_PROBLEM, else zero */
    char *prompt;                 /* kind JOB_PROMPT, else NULL: owned; continued as it stands */
    struct job_message *messages; /* kind JOB_MESSAGES, else NULL: owned */
    uint32_t message_count;
    struct job_params params;
    uint32_t priority;  /* 0 (most urgent)..JOB_PRIORITY_MAX */
    int64_t timeout_ms; /* from the record's timestamp; 0 = none */
    /* Not on the wire: timeout_ms as a moment of the monotonic clock, set once by whoever knows the
     * record's age. 0 = none; what has passed is 1 at least. */
    int64_t deadline_ns;
    char *tenant;      /* owned, NULL when absent */
    char *reply_topic; /* owned, NULL when absent; the worker checks its allow-list */
    enum job_progress progress;
    char *metadata; /* owned JSON object text, rewritten compactly with numbers digit for digit as
                       they were given; NULL when absent */
};

/* What the worker's configuration may narrow. */
struct job_limits {
    size_t value_bytes_max;
    int64_t default_timeout_ms; /* for jobs that give none; 0 = none */
    /* What fields of `params` are when a job gives none: borrowed, in range, without stop strings;
     * NULL = the contract's defaults. A seed in it is not used. */
    const struct job_params *default_params;
};

struct job_limits job_limits_default(void);

/* Decodes a record's value. ERROR_NONE moves a complete job into *out; any other code leaves *out
 * zeroed and fills *error (code, field path, message). `bytes` may be NULL when size is 0.
 * ERROR_INTERNAL only when memory ran out. */
enum error_code job_decode(const void *bytes, size_t size, const struct job_limits *limits,
                           struct job *out, struct job_error *error)
    __attribute__((warn_unused_result));

/* The request_id of a value that job_decode refuses, where one can be read: valid JSON with exactly
 * one top-level request_id, itself valid. Writes it with its NUL; false (and "") otherwise. */
bool job_read_request_id(const void *bytes, size_t size, size_t value_bytes_max,
                         char request_id[JOB_ID_BYTES_MAX + 1]);

/* True for 1..128 characters of A-Za-z0-9._:- . `size` excludes any NUL. */
bool job_request_id_is_valid(const char *request_id, size_t size);

/* Encodes a job as JSON that job_decode turns into an equal one. Returns a string owned by the
 * caller (free()), NULL when memory ran out. Fields at their defaults are left out. */
char *job_encode(const struct job *job);

/* The seed of a job that gives none: the low 53 bits of the first 8 bytes, little-endian, of
 * sha256(request_id), so that the seed in a result is one that a job may give. False when memory
 * ran out. */
bool job_default_seed(const char *request_id, uint64_t *seed) __attribute__((warn_unused_result));

/* A number that stands for the job's tenant, "" for none, where turns are taken. False when memory
 * ran out. */
bool job_tenant_number(const struct job *job, uint64_t *number) __attribute__((warn_unused_result));

const char *job_role_name(enum job_role role);

/* Sets every field to its default; no strings. */
void job_init(struct job *job);
/* Frees what the job owns and zeroes it; accepts a zeroed job. */
void job_deinit(struct job *job);

#endif
