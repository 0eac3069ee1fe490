#include "consumer/status_answers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_reply.h"

#define CAPACITY_MIN 256

/* ---- outcomes: one block of memory, the texts behind the struct ---- */

static const char *status_answers_copy(char **at, const char *text, size_t size) {
    if (text == NULL) {
        return NULL;
    }
    char *copy = memcpy(*at, text, size);
    copy[size] = '\0';
    *at += size + 1;
    return copy;
}

static size_t status_answers_bytes(const char *text) {
    return text != NULL ? strlen(text) : 0;
}

static struct status_store_outcome *
status_answers_copy_outcome(const struct status_store_outcome *from) {
    size_t code_bytes = status_answers_bytes(from->error_code);
    size_t message_bytes = status_answers_bytes(from->error_message);
    size_t text_bytes = status_answers_bytes(from->text);
    struct status_store_outcome *to =
        malloc(sizeof *to + code_bytes + message_bytes + text_bytes + from->result_bytes + 4);
    assert(to != NULL);
    char *at = (char *)(to + 1);
    *to = *from;
    to->error_code = status_answers_copy(&at, from->error_code, code_bytes);
    to->error_message = status_answers_copy(&at, from->error_message, message_bytes);
    to->text = status_answers_copy(&at, from->text, text_bytes);
    to->result = status_answers_copy(&at, from->result, from->result_bytes);
    return to;
}

/* ---- the ring ---- */

static struct status_store_answer *status_answers_at(const struct status_answers *answers,
                                                     uint32_t index) {
    return &answers->ring[(answers->first + index) & (answers->capacity - 1)];
}

static void status_answers_grow(struct status_answers *answers) {
    uint32_t capacity = answers->capacity == 0 ? CAPACITY_MIN : 2 * answers->capacity;
    struct status_store_answer *ring = malloc(capacity * sizeof *ring);
    assert(ring != NULL);
    for (uint32_t i = 0; i < answers->count; i++) {
        ring[i] = *status_answers_at(answers, i);
    }
    free(answers->ring);
    answers->ring = ring;
    answers->capacity = capacity;
    answers->first = 0;
}

void status_answers_push(struct status_answers *answers, const struct status_store_answer *answer) {
    if (answers->count == answers->capacity) {
        status_answers_grow(answers);
    }
    struct status_store_answer *last = status_answers_at(answers, answers->count++);
    *last = *answer;
    if (answer->sealed != NULL) {
        last->sealed = status_answers_copy_outcome(answer->sealed);
    }
}

bool status_answers_take(struct status_answers *answers, struct status_store_answer *answer) {
    free(answers->lent);
    answers->lent = NULL;
    if (answers->count == 0) {
        return false;
    }
    *answer = *status_answers_at(answers, 0);
    answers->lent = (struct status_store_outcome *)answer->sealed;
    answers->first = (answers->first + 1) & (answers->capacity - 1);
    answers->count--;
    return true;
}

/* ---- what tickets are told ---- */

static bool status_answers_kind_of(enum status_script script, enum status_store_kind *kind) {
    switch (script) {
    case STATUS_SCRIPT_CLAIM: *kind = STATUS_STORE_CLAIM; return true;
    case STATUS_SCRIPT_SEAL: *kind = STATUS_STORE_SEAL; return true;
    case STATUS_SCRIPT_FINISH:
    case STATUS_SCRIPT_REPAIR: *kind = STATUS_STORE_FINISH; return true;
    case STATUS_SCRIPT_RENEW:
    case STATUS_SCRIPT_ADVANCE:
    case STATUS_SCRIPT_RELEASE: break;
    }
    return false;
}

/* Answers for tickets that Redis did not answer for. */
void status_answers_unreached(struct status_answers *answers, struct status_command *command) {
    struct status_store_answer answer = {.claimed = STATUS_STORE_NEW};
    if (command->told || !status_answers_kind_of(command->script, &answer.kind)) {
        return;
    }
    command->told = true;
    answers->claims_unanswered += answer.kind == STATUS_STORE_CLAIM ? command->key_count : 0;
    answers->seals_unanswered += answer.kind == STATUS_STORE_SEAL ? command->key_count : 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        answer.ticket = command->tickets[i];
        status_answers_push(answers, &answer);
    }
}

/* Whether a claim that was answered for already is to be answered again. */
static bool status_answers_matters_late(const struct status_store_answer *answer) {
    return answer->kind == STATUS_STORE_CLAIM && answer->claimed != STATUS_STORE_NONE &&
           answer->claimed != STATUS_STORE_RUNNING_HERE &&
           answer->claimed != STATUS_STORE_RUNNING_ELSEWHERE;
}

void status_answers_reply(struct status_answers *answers, const struct status_command *command,
                          const struct status_link_reply *reply) {
    bool is_late = command->told && command->script == STATUS_SCRIPT_CLAIM;
    answers->late_answers += is_late ? command->key_count : 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct status_reply said;
        bool is_read = status_reply_read(&said, command->script, reply, i);
        assert(is_read); /* all were looked at before the first is told */
        (void)is_read;
        said.answer.ticket = command->tickets[i];
        said.answer.is_late = is_late;
        if (!said.is_for_nobody && (!command->told || status_answers_matters_late(&said.answer))) {
            status_answers_push(answers, &said.answer);
        }
    }
}

void status_answers_deinit(struct status_answers *answers) {
    for (struct status_store_answer answer; status_answers_take(answers, &answer);) {
    }
    free(answers->ring);
    *answers = (struct status_answers){0};
}
