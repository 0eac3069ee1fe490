/* A job's status as clients read it: the fields of the Redis hash `solfleet:job:{ID}`.
 *
 * The contract is schemas/v1/status.schema.json. Field names stand once, here. Any thread.
 * Knows no Redis client: it takes and gives name/value pairs. */
#ifndef SOLFLEET_SCHEMAS_STATUS_H
#define SOLFLEET_SCHEMAS_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/job.h"

#define STATUS_FIELD_STATE "state"
#define STATUS_FIELD_ATTEMPT "attempt"
#define STATUS_FIELD_DEATHS "deaths"
#define STATUS_FIELD_WORKER "worker"
#define STATUS_FIELD_FINGERPRINT "fingerprint"
#define STATUS_FIELD_CANCEL_REQUESTED "cancel_requested"
#define STATUS_FIELD_QUEUED_AT "queued_at"
#define STATUS_FIELD_STARTED_AT "started_at"
#define STATUS_FIELD_FINISHED_AT "finished_at"
#define STATUS_FIELD_PROMPT_TOKENS "prompt_tokens"
#define STATUS_FIELD_COMPLETION_TOKENS "completion_tokens"
#define STATUS_FIELD_TEXT "text"
#define STATUS_FIELD_ERROR_CODE "error_code"
#define STATUS_FIELD_ERROR_MESSAGE "error_message"
#define STATUS_FIELD_RESULT "result"
#define STATUS_FIELD_RESULT_TOPIC "result_topic"
#define STATUS_FIELD_RESULT_PARTITION "result_partition"
#define STATUS_FIELD_RESULT_OFFSET "result_offset"
/* The workers' own, while a job is theirs: who holds it, by which record, how long (by the server's
 * clock, unix ms), which attempt has begun to run, and how it ended, before that is published. */
#define STATUS_FIELD_OWNER "owner"
#define STATUS_FIELD_CLAIM "claim"
#define STATUS_FIELD_LEASE_UNTIL "lease_until"
#define STATUS_FIELD_RUNNING_ATTEMPT "running_attempt"
#define STATUS_FIELD_SEALED "sealed"

enum status_state {
    STATUS_UNKNOWN, /* no such key: never means failed */
    STATUS_QUEUED,
    STATUS_RUNNING,
    STATUS_DONE,
    STATUS_FAILED,
    STATUS_EXPIRED,
    STATUS_CANCELLED
};

const char *status_state_name(enum status_state state);
bool status_state_parse(const char *name, size_t size, enum status_state *out);
bool status_state_is_terminal(enum status_state state);

/* What a client sees. Times are unix ms, -1 when absent; counts are -1 when absent. Strings owned,
 * NULL when absent. */
struct status {
    char request_id[JOB_ID_BYTES_MAX + 1];
    enum status_state state;
    int64_t attempt, deaths;
    bool cancel_requested;
    char fingerprint[65]; /* sha256 of the record's value in hex; "" = none yet. Not encoded. */
    char *worker;
    int64_t queued_at, started_at, finished_at;
    int64_t prompt_tokens, completion_tokens;
    char *text;
    char *error_code, *error_message;
    char *result; /* JSON text of the result */
    char *result_topic;
    int64_t result_partition, result_offset;
};

void status_init(struct status *status, const char *request_id);
/* Takes one field as Redis gives it; unknown names are ignored. False when a known field's value is
 * malformed or memory ran out: the caller reports the hash as broken. */
bool status_set_field(struct status *status, const char *name, size_t name_size, const char *value,
                      size_t value_size) __attribute__((warn_unused_result));
/* Forgets how a job ended whose state is not terminal: its outcome may stand sealed in the hash
 * before it is published. To be called when all fields are set. */
void status_hide_sealed(struct status *status);
/* One JSON object as in status.schema.json; owned by the caller; NULL when memory ran out. */
char *status_encode(const struct status *status);
void status_deinit(struct status *status);

/* Writes "<prefix>job:{ID}"; prefix is "solfleet:" by default. False when it does not fit. */
bool status_key(char *out, size_t out_bytes, const char *prefix, const char *request_id);
/* Writes "<prefix>events:{ID}". */
bool status_channel(char *out, size_t out_bytes, const char *prefix, const char *request_id);
/* Writes "<prefix>control": what clients say to all workers, so far "cancel ID". */
bool status_control_channel(char *out, size_t out_bytes, const char *prefix);

#endif
