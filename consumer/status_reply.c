#include "consumer/status_reply.h"

#include <string.h>

/* Where an answer begins in its element: behind the code. */
#define ATTEMPT_AT 1
#define CLAIM_OUTCOME_AT 4
#define SEAL_OUTCOME_AT 1

static bool status_reply_count(uint32_t *out, const struct status_link_reply *reply, size_t element,
                               size_t at) {
    int64_t value;
    if (!status_link_int(reply, element, at, &value) || value < 0 || value > INT32_MAX) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* Fields of a hash come as texts. What is no number was not written by a worker: unknown. */
static int64_t status_reply_number(const struct status_link_reply *reply, size_t element,
                                   size_t at) {
    size_t size;
    int64_t number = 0;
    const char *text = status_link_text(reply, element, at, &size);
    if (text == NULL || size == 0 || size > 18) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

static const char *status_reply_text(const struct status_link_reply *reply, size_t element,
                                     size_t at) {
    size_t size;
    return status_link_text(reply, element, at, &size);
}

/* In the order of the script: sealed, finished_at, prompt_tokens, completion_tokens, error_code,
 * error_message, text, result. */
static bool status_reply_outcome(struct status_reply *out, const struct status_link_reply *reply,
                                 size_t element, size_t at) {
    struct status_store_outcome *outcome = &out->outcome;
    size_t size;
    const char *sealed = status_link_text(reply, element, at, &size);
    if (sealed == NULL || !status_state_parse(sealed, size, &outcome->state) ||
        !status_state_is_terminal(outcome->state)) {
        return false;
    }
    outcome->finished_unix_ms = status_reply_number(reply, element, at + 1);
    outcome->prompt_tokens = status_reply_number(reply, element, at + 2);
    outcome->completion_tokens = status_reply_number(reply, element, at + 3);
    outcome->error_code = status_reply_text(reply, element, at + 4);
    outcome->error_message = status_reply_text(reply, element, at + 5);
    outcome->text = status_reply_text(reply, element, at + 6);
    outcome->result = status_link_text(reply, element, at + 7, &outcome->result_bytes);
    out->answer.sealed = outcome;
    return outcome->result != NULL;
}

/* ---- one script each; `code` is the element's first item ---- */

/* A claim that is ours, with more than its attempt. */
static bool status_reply_ours(struct status_reply *out, const struct status_link_reply *reply,
                              size_t element) {
    uint32_t cancel;
    struct status_store_answer *answer = &out->answer;
    if (!status_reply_count(&answer->attempt, reply, element, ATTEMPT_AT) ||
        !status_reply_count(&answer->deaths, reply, element, ATTEMPT_AT + 1) ||
        !status_reply_count(&cancel, reply, element, ATTEMPT_AT + 2)) {
        return false;
    }
    answer->cancel_requested = cancel != 0;
    return answer->claimed != STATUS_STORE_SEALED ||
           status_reply_outcome(out, reply, element, CLAIM_OUTCOME_AT);
}

static bool status_reply_claim(struct status_reply *out, const struct status_link_reply *reply,
                               size_t element, int64_t code) {
    struct status_store_answer *answer = &out->answer;
    answer->kind = STATUS_STORE_CLAIM;
    if (code > 0) {
        answer->claimed = STATUS_STORE_NEW;
        return status_reply_count(&answer->attempt, reply, element, 0);
    }
    switch (code) {
    case STATUS_SCRIPT_LOST: answer->claimed = STATUS_STORE_DONE; return true;
    case STATUS_SCRIPT_CONFLICT: answer->claimed = STATUS_STORE_CONFLICT; return true;
    case STATUS_SCRIPT_NONE: answer->claimed = STATUS_STORE_NONE; return true;
    case STATUS_SCRIPT_NEW:
        answer->claimed = STATUS_STORE_NEW;
        return status_reply_ours(out, reply, element);
    case STATUS_SCRIPT_SEALED:
        answer->claimed = STATUS_STORE_SEALED;
        return status_reply_ours(out, reply, element);
    case STATUS_SCRIPT_POISON:
        answer->claimed = STATUS_STORE_POISON;
        return status_reply_ours(out, reply, element);
    case STATUS_SCRIPT_HERE:
        answer->claimed = STATUS_STORE_RUNNING_HERE;
        return status_reply_count(&answer->attempt, reply, element, ATTEMPT_AT);
    case STATUS_SCRIPT_ELSEWHERE:
        answer->claimed = STATUS_STORE_RUNNING_ELSEWHERE;
        return status_link_int(reply, element, 1, &answer->lease_left_ms) &&
               answer->lease_left_ms > 0 && answer->lease_left_ms <= INT32_MAX;
    default: return false;
    }
}

static bool status_reply_seal(struct status_reply *out, const struct status_link_reply *reply,
                              size_t element, int64_t code) {
    struct status_store_answer *answer = &out->answer;
    answer->kind = STATUS_STORE_SEAL;
    switch (code) {
    case 1: answer->seal = STATUS_STORE_SEALED_NOW; return true;
    case STATUS_SCRIPT_LOST: answer->seal = STATUS_STORE_SEAL_TERMINAL; return true;
    case STATUS_SCRIPT_CONFLICT: answer->seal = STATUS_STORE_SEAL_CONFLICT; return true;
    case STATUS_SCRIPT_NONE: answer->reached = false; return true; /* nowhere to put it */
    case STATUS_SCRIPT_SEALED:
        answer->seal = STATUS_STORE_SEALED_BEFORE;
        return status_reply_outcome(out, reply, element, SEAL_OUTCOME_AT);
    default: return false;
    }
}

bool status_reply_read(struct status_reply *out, enum status_script script,
                       const struct status_link_reply *reply, size_t element) {
    int64_t code;
    *out = (struct status_reply){.answer.reached = true};
    if (!status_link_int(reply, element, 0, &code)) {
        return false;
    }
    switch (script) {
    case STATUS_SCRIPT_CLAIM: return status_reply_claim(out, reply, element, code);
    case STATUS_SCRIPT_SEAL: return status_reply_seal(out, reply, element, code);
    case STATUS_SCRIPT_FINISH:
    case STATUS_SCRIPT_REPAIR:
        out->answer.kind = STATUS_STORE_FINISH;
        out->answer.applied = code == 1;
        out->is_missing = code == STATUS_SCRIPT_MISSING;
        return code >= STATUS_SCRIPT_MISSING && code <= 1;
    case STATUS_SCRIPT_RENEW:
        out->answer.kind = STATUS_STORE_RENEW;
        out->answer.lost = code == STATUS_SCRIPT_LOST;
        out->answer.cancel_requested = code == 2;
        out->is_for_nobody = !out->answer.lost && !out->answer.cancel_requested;
        return code == STATUS_SCRIPT_NONE || (code >= 0 && code <= 2);
    case STATUS_SCRIPT_ADVANCE:
    case STATUS_SCRIPT_RELEASE:
        out->is_for_nobody = true;
        return code == STATUS_SCRIPT_NONE || code == 0 || code == 1;
    }
    return false;
}
