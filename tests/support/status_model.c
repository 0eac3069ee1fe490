#include "tests/support/status_model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void status_model_set(char out[STATUS_MODEL_TEXT_MAX], const char *text) {
    assert(strlen(text) < STATUS_MODEL_TEXT_MAX);
    memset(out, 0, STATUS_MODEL_TEXT_MAX); /* so that keys compare by memcmp */
    memcpy(out, text, strlen(text));
}

/* As the scripts: what is not given leaves a field as it is. */
static void status_model_put(char out[STATUS_MODEL_TEXT_MAX], const char *text) {
    if (text != NULL && text[0] != '\0') {
        status_model_set(out, text);
    }
}

static void status_model_put_number(int64_t *out, int64_t value) {
    if (value >= 0) {
        *out = value;
    }
}

static struct status_model_outcome status_model_no_outcome(void) {
    struct status_model_outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    outcome.finished_at = outcome.prompt_tokens = outcome.completion_tokens = -1;
    return outcome;
}

void status_model_init(struct status_model *key) {
    memset(key, 0, sizeof *key);
    key->outcome = status_model_no_outcome();
    key->queued_at = key->started_at = key->result_partition = key->result_offset = -1;
}

static bool status_model_is_mine(const struct status_model *key,
                                 const struct status_model_caller *caller) {
    return strcmp(key->owner, caller->owner) == 0;
}

static bool status_model_is_anothers(const struct status_model *key,
                                     const struct status_model_caller *caller) {
    return key->owner[0] != '\0' && !status_model_is_mine(key, caller);
}

static bool status_model_is_other_record(const struct status_model *key, const char *fingerprint) {
    return key->fingerprint[0] != '\0' && fingerprint != NULL && fingerprint[0] != '\0' &&
           strcmp(key->fingerprint, fingerprint) != 0;
}

static bool status_model_is_sealed(const struct status_model *key) {
    return status_state_is_terminal(key->sealed) && key->outcome.result[0] != '\0';
}

static struct status_model_outcome status_model_sealed(const struct status_model *key) {
    struct status_model_outcome outcome = key->outcome;
    outcome.state = key->sealed;
    return outcome;
}

/* ---- claim ---- */

/* What is left of the lease of somebody who is alive; <= 0 = nothing. */
static int64_t status_model_lease_left(const struct status_model *key,
                                       const struct status_model_caller *caller) {
    size_t name_bytes = strlen(caller->worker);
    bool has_my_name =
        strncmp(key->owner, caller->worker, name_bytes) == 0 && key->owner[name_bytes] == '/';
    return key->owner[0] == '\0' || has_my_name ? 0 : key->lease_until - caller->now_ms;
}

static void status_model_take(struct status_model *key, const struct status_model_caller *caller,
                              const struct status_model_claim *claim) {
    if (key->state == STATUS_UNKNOWN) {
        key->state = STATUS_QUEUED;
        key->queued_at = claim->queued_at;
        key->published_count++;
    }
    status_model_set(key->fingerprint, claim->fingerprint);
    status_model_set(key->worker, caller->worker);
    status_model_set(key->owner, caller->owner);
    status_model_set(key->claim, claim->claim);
    key->lease_until = caller->now_ms + caller->lease_ms;
}

struct status_model_answer status_model_claim(struct status_model *key,
                                              const struct status_model_caller *caller,
                                              const struct status_model_claim *claim) {
    struct status_model_answer answer = {.code = STATUS_SCRIPT_NONE};
    if (key->is_unusable) {
        return answer;
    }
    if (status_model_is_other_record(key, claim->fingerprint)) {
        answer.code = STATUS_SCRIPT_CONFLICT;
        return answer;
    }
    if (status_state_is_terminal(key->state)) {
        answer.code = STATUS_SCRIPT_LOST;
        return answer;
    }
    if (claim->only_if_queued && key->state != STATUS_QUEUED) {
        return answer;
    }
    bool is_mine = status_model_is_mine(key, caller);
    if (is_mine && strcmp(key->claim, claim->claim) != 0) {
        answer.code = STATUS_SCRIPT_HERE;
        answer.attempt = key->attempt;
        return answer;
    }
    answer.lease_left_ms = status_model_lease_left(key, caller);
    if (answer.lease_left_ms > 0) {
        answer.code = STATUS_SCRIPT_ELSEWHERE;
        return answer;
    }
    answer.lease_left_ms = 0;
    bool is_sealed = status_model_is_sealed(key);
    if (is_sealed) {
        key->attempt = key->attempt > 0 ? key->attempt : 1;
    } else if (!is_mine) {
        bool died =
            key->owner[0] != '\0' && key->attempt > 0 && key->attempt == key->running_attempt;
        key->deaths += died;
        key->attempt++;
    }
    status_model_take(key, caller, claim);
    answer.attempt = key->attempt;
    answer.deaths = key->deaths;
    answer.cancel_requested = key->cancel_requested;
    if (is_sealed) {
        answer.code = STATUS_SCRIPT_SEALED;
        answer.outcome = status_model_sealed(key);
    } else {
        answer.code =
            key->deaths >= STATUS_SCRIPT_POISON_DEATHS ? STATUS_SCRIPT_POISON : STATUS_SCRIPT_NEW;
    }
    return answer;
}

/* ---- while it runs ---- */

/* Whether the caller may write of this attempt. */
static bool status_model_is_current(const struct status_model *key,
                                    const struct status_model_caller *caller, int64_t attempt) {
    return !status_state_is_terminal(key->state) && !status_model_is_anothers(key, caller) &&
           (attempt == 0 || key->attempt == 0 || key->attempt == attempt);
}

int64_t status_model_advance(struct status_model *key, const struct status_model_caller *caller,
                             int64_t attempt, int64_t started_at, int64_t prompt_tokens,
                             int64_t completion_tokens, const char *text) {
    if (key->is_unusable) {
        return STATUS_SCRIPT_NONE;
    }
    if (status_state_is_terminal(key->sealed) || !status_model_is_current(key, caller, attempt)) {
        return STATUS_SCRIPT_LOST;
    }
    key->state = STATUS_RUNNING;
    key->attempt = key->attempt > 0 ? key->attempt : attempt;
    if (attempt > 0) { /* one that is not known is not renewed either */
        key->running_attempt = key->attempt;
    }
    if (key->owner[0] == '\0') {
        status_model_set(key->worker, caller->worker);
    }
    status_model_put_number(&key->started_at, started_at);
    status_model_put_number(&key->outcome.prompt_tokens, prompt_tokens);
    status_model_put_number(&key->outcome.completion_tokens, completion_tokens);
    status_model_put(key->outcome.text, text);
    key->published_count++;
    return 1;
}

int64_t status_model_renew(struct status_model *key, const struct status_model_caller *caller,
                           int64_t attempt) {
    if (key->is_unusable) {
        return STATUS_SCRIPT_NONE;
    }
    if (!status_model_is_current(key, caller, attempt)) {
        return STATUS_SCRIPT_LOST;
    }
    if (key->owner[0] == '\0') {
        status_model_set(key->owner, caller->owner);
        status_model_set(key->worker, caller->worker);
    }
    key->lease_until = caller->now_ms + caller->lease_ms;
    key->attempt = key->attempt > 0 ? key->attempt : attempt;
    if (key->state == STATUS_UNKNOWN) {
        key->state = STATUS_QUEUED;
        key->published_count++;
    }
    return key->cancel_requested ? 2 : 1;
}

static void status_model_disown(struct status_model *key) {
    status_model_set(key->owner, "");
    status_model_set(key->claim, "");
    key->lease_until = 0;
}

int64_t status_model_release(struct status_model *key, const struct status_model_caller *caller,
                             int64_t attempt) {
    if (key->is_unusable) {
        return STATUS_SCRIPT_NONE;
    }
    if (!status_model_is_mine(key, caller) || (attempt != 0 && key->attempt != attempt)) {
        return STATUS_SCRIPT_LOST;
    }
    status_model_disown(key);
    return 1;
}

/* ---- the end ---- */

static void status_model_put_outcome(struct status_model *key,
                                     const struct status_model_finish *finish) {
    status_model_put_number(&key->outcome.finished_at, finish->finished_at);
    status_model_put_number(&key->outcome.prompt_tokens, finish->prompt_tokens);
    status_model_put_number(&key->outcome.completion_tokens, finish->completion_tokens);
    status_model_put(key->outcome.error_code, finish->error_code);
    status_model_put(key->outcome.error_message, finish->error_message);
    status_model_put(key->outcome.text, finish->text);
}

struct status_model_answer status_model_seal(struct status_model *key,
                                             const struct status_model_caller *caller,
                                             const struct status_model_finish *finish) {
    struct status_model_answer answer = {.code = STATUS_SCRIPT_NONE};
    if (key->is_unusable) {
        return answer;
    }
    if (status_model_is_other_record(key, finish->fingerprint)) {
        answer.code = STATUS_SCRIPT_CONFLICT;
        return answer;
    }
    if (status_state_is_terminal(key->state)) {
        answer.code = STATUS_SCRIPT_LOST;
        return answer;
    }
    if (status_model_is_sealed(key)) {
        answer.code = STATUS_SCRIPT_SEALED;
        answer.outcome = status_model_sealed(key);
        return answer;
    }
    bool is_new = key->state == STATUS_UNKNOWN;
    if (key->state != STATUS_RUNNING) {
        status_model_put_number(&key->started_at, finish->started_at);
    }
    if (is_new) {
        key->state = STATUS_RUNNING;
        key->published_count++;
        status_model_set(key->worker, caller->worker);
    }
    if (key->fingerprint[0] == '\0') {
        status_model_put(key->fingerprint, finish->fingerprint);
    }
    key->attempt = key->attempt > 0 ? key->attempt : finish->attempt;
    key->sealed = finish->state;
    status_model_put_outcome(key, finish);
    status_model_put(key->outcome.result, finish->result);
    answer.code = 1;
    return answer;
}

/* Of another outcome: a status never mixes two. */
static void status_model_clear_texts(struct status_model *key) {
    status_model_set(key->outcome.error_code, "");
    status_model_set(key->outcome.error_message, "");
    status_model_set(key->outcome.text, "");
    status_model_set(key->outcome.result, "");
}

static void status_model_put_place(struct status_model *key,
                                   const struct status_model_finish *finish) {
    if (finish->result_topic != NULL) {
        status_model_put(key->result_topic, finish->result_topic);
        status_model_put_number(&key->result_partition, finish->result_partition);
        status_model_put_number(&key->result_offset, finish->result_offset);
    }
}

static void status_model_finish_given(struct status_model *key,
                                      const struct status_model_caller *caller,
                                      const struct status_model_finish *finish) {
    if (key->sealed != STATUS_UNKNOWN) {
        status_model_clear_texts(key);
    }
    status_model_put(key->fingerprint, finish->fingerprint);
    key->attempt = finish->attempt > 0 ? finish->attempt : key->attempt;
    status_model_put_outcome(key, finish);
    if (finish->keep != 0) {
        status_model_put(key->outcome.result, finish->result);
    }
    if (key->owner[0] == '\0') {
        status_model_set(key->worker, caller->worker);
    }
}

int64_t status_model_finish(struct status_model *key, const struct status_model_caller *caller,
                            const struct status_model_finish *finish) {
    bool is_given = finish->result != NULL && finish->result[0] != '\0';
    if (key->is_unusable) {
        return STATUS_SCRIPT_NONE;
    }
    if (status_model_is_other_record(key, finish->fingerprint)) {
        return STATUS_SCRIPT_CONFLICT;
    }
    if (status_state_is_terminal(key->state)) {
        return STATUS_SCRIPT_LOST;
    }
    if (finish->keep == 2 && !is_given && key->sealed == STATUS_UNKNOWN) {
        return STATUS_SCRIPT_MISSING;
    }
    if (finish->keep != 2 || is_given) {
        status_model_finish_given(key, caller, finish);
    }
    key->state = finish->state;
    status_model_put_place(key, finish);
    if (key->owner[0] != '\0' || key->sealed != STATUS_UNKNOWN) {
        status_model_disown(key);
        key->sealed = STATUS_UNKNOWN;
        key->running_attempt = 0;
    }
    key->published_count++;
    return 1;
}

/* A failure that a repair wrote, of an earlier record of the same partition. */
static bool status_model_is_redone(const struct status_model *key,
                                   const struct status_model_finish *finish) {
    return key->state == STATUS_FAILED && finish->state != STATUS_FAILED && key->is_repaired &&
           finish->result_topic != NULL && strcmp(key->result_topic, finish->result_topic) == 0 &&
           key->result_partition == finish->result_partition &&
           key->result_offset < finish->result_offset;
}

int64_t status_model_repair(struct status_model *key, const struct status_model_finish *finish) {
    bool is_redone = status_model_is_redone(key, finish);
    bool is_sent_again = key->is_replayed && key->queued_at > finish->finished_at;
    if (key->is_unusable) {
        return STATUS_SCRIPT_NONE;
    }
    if (status_model_is_other_record(key, finish->fingerprint)) {
        return STATUS_SCRIPT_CONFLICT;
    }
    if (!is_redone && (status_state_is_terminal(key->state) || is_sent_again)) {
        return STATUS_SCRIPT_LOST;
    }
    if (is_redone || key->sealed != STATUS_UNKNOWN) {
        status_model_clear_texts(key);
    }
    status_model_put(key->fingerprint, finish->fingerprint);
    key->attempt = finish->attempt > 0 ? finish->attempt : key->attempt;
    status_model_put_outcome(key, finish);
    if (finish->keep != 0) {
        status_model_put(key->outcome.result, finish->result);
    }
    status_model_put_place(key, finish);
    status_model_disown(key);
    key->state = finish->state;
    key->sealed = STATUS_UNKNOWN;
    key->running_attempt = 0;
    key->is_repaired = true;
    key->published_count++;
    return 1;
}
