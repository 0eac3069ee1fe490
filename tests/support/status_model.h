/* A model of the scripts that change statuses (consumer/status_script): one hash in memory, a
 * function for each script, with the same arguments and answers.
 *
 * Plain values without pointers into them: a key may be copied, compared and thrown away. Time is
 * an argument. Any thread. Refuses to know Redis, and how keys are found. */
#ifndef SOLFLEET_TESTS_SUPPORT_STATUS_MODEL_H
#define SOLFLEET_TESTS_SUPPORT_STATUS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/status_script.h"
#include "schemas/status.h"

#define STATUS_MODEL_TEXT_MAX 48 /* bytes of a text, its NUL included; asserted */

/* How a job ended. Numbers: -1 = absent; texts: "" = absent. */
struct status_model_outcome {
    enum status_state state; /* STATUS_UNKNOWN = absent */
    int64_t finished_at, prompt_tokens, completion_tokens;
    char error_code[STATUS_MODEL_TEXT_MAX], error_message[STATUS_MODEL_TEXT_MAX];
    char text[STATUS_MODEL_TEXT_MAX], result[STATUS_MODEL_TEXT_MAX];
};

/* The hash. A zeroed one is no key; status_model_init makes one. */
struct status_model {
    bool is_unusable;        /* the key is no hash */
    enum status_state state; /* STATUS_UNKNOWN = absent, as below */
    enum status_state sealed;
    char fingerprint[STATUS_MODEL_TEXT_MAX], worker[STATUS_MODEL_TEXT_MAX];
    char owner[STATUS_MODEL_TEXT_MAX], claim[STATUS_MODEL_TEXT_MAX];
    int64_t lease_until;
    int64_t attempt, deaths, running_attempt; /* 0 = absent */
    int64_t queued_at, started_at;
    bool cancel_requested, is_replayed, is_repaired;
    struct status_model_outcome outcome; /* its `state` is not used: `state` and `sealed` say it */
    char result_topic[STATUS_MODEL_TEXT_MAX];
    int64_t result_partition, result_offset;
    uint32_t published_count; /* events */
};

/* Who calls, and when. */
struct status_model_caller {
    const char *worker, *owner; /* owner = WORKER/INCARNATION */
    int64_t lease_ms;
    int64_t now_ms; /* the server's clock */
};

/* What a script says of the key. */
struct status_model_answer {
    /* enum status_script_code, or > 0 as the script has it; a claim that is ours is
     * STATUS_SCRIPT_NEW here even where the script says only its attempt. */
    int64_t code;
    int64_t attempt, deaths;
    bool cancel_requested;
    int64_t lease_left_ms;
    struct status_model_outcome outcome; /* SEALED */
};

/* Of a claim. */
struct status_model_claim {
    const char *claim, *fingerprint;
    bool only_if_queued;
    int64_t queued_at;
};

/* Of a seal and a finish. Numbers: -1 = leave; NULL = leave; attempt 0 = unknown. */
struct status_model_finish {
    enum status_state state;
    const char *fingerprint;
    int64_t attempt, started_at, finished_at, prompt_tokens, completion_tokens;
    const char *error_code, *error_message, *text, *result;
    /* Finish only. */
    int keep; /* 0, 1, 2: as the script has it */
    const char *result_topic;
    int64_t result_partition, result_offset;
};

void status_model_init(struct status_model *key);

struct status_model_answer status_model_claim(struct status_model *key,
                                              const struct status_model_caller *caller,
                                              const struct status_model_claim *claim);
int64_t status_model_advance(struct status_model *key, const struct status_model_caller *caller,
                             int64_t attempt, int64_t started_at, int64_t prompt_tokens,
                             int64_t completion_tokens, const char *text);
int64_t status_model_renew(struct status_model *key, const struct status_model_caller *caller,
                           int64_t attempt);
int64_t status_model_release(struct status_model *key, const struct status_model_caller *caller,
                             int64_t attempt);
struct status_model_answer status_model_seal(struct status_model *key,
                                             const struct status_model_caller *caller,
                                             const struct status_model_finish *finish);
int64_t status_model_finish(struct status_model *key, const struct status_model_caller *caller,
                            const struct status_model_finish *finish);
/* keep is 0 or 1. */
int64_t status_model_repair(struct status_model *key, const struct status_model_finish *finish);

#endif
