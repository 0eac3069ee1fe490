#include "consumer/status_answers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

void status_answers_deinit(struct status_answers *answers) {
    for (struct status_store_answer answer; status_answers_take(answers, &answer);) {
    }
    free(answers->ring);
    *answers = (struct status_answers){0};
}
