#include "consumer/status_command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 24

struct status_command *status_command_new(enum status_script script) {
    struct status_command *command = calloc(1, sizeof *command);
    if (command != NULL) {
        command->script = script;
    }
    return command;
}

void status_command_free(struct status_command *command) {
    if (command != NULL) {
        free(command->keys.data);
        free(command->args.data);
        free(command->joined.data);
        free(command->spares.data);
        free(command);
    }
}

static char *status_command_reserve(struct status_command_bytes *out, size_t size) {
    if (out->size + size > out->capacity) {
        size_t capacity = 2 * (out->size + size);
        out->data = realloc(out->data, capacity);
        assert(out->data != NULL);
        out->capacity = capacity;
    }
    return out->data + out->size;
}

static void status_command_add(struct status_command_bytes *out, const void *data, size_t size) {
    if (size > 0) {
        memcpy(status_command_reserve(out, size), data, size);
        out->size += size;
    }
}

/* Writes the digits at the end of `buffer`; returns where they begin. */
static char *status_command_digits(uint64_t value, char buffer[NUMBER_BYTES_MAX]) {
    char *at = buffer + NUMBER_BYTES_MAX;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return at;
}

static void status_command_header(struct status_command_bytes *out, char kind, size_t number) {
    char buffer[NUMBER_BYTES_MAX];
    char *digits = status_command_digits(number, buffer);
    size_t size = (size_t)(buffer + NUMBER_BYTES_MAX - digits);
    char *at = status_command_reserve(out, size + 3);
    at[0] = kind;
    memcpy(at + 1, digits, size);
    memcpy(at + 1 + size, "\r\n", 2);
    out->size += size + 3;
}

static void status_command_word(struct status_command_bytes *out, const char *text, size_t size) {
    status_command_header(out, '$', size);
    status_command_add(out, text, size);
    status_command_add(out, "\r\n", 2);
}

void status_command_key(struct status_command *command, uint64_t ticket, const char *key) {
    assert(command->key_count < STATUS_COMMAND_KEYS_MAX);
    command->tickets[command->key_count++] = ticket;
    status_command_word(&command->keys, key, strlen(key));
}

void status_command_text(struct status_command *command, const char *text, size_t size) {
    status_command_word(&command->args, text, size);
}

void status_command_string(struct status_command *command, const char *text) {
    status_command_word(&command->args, text, text != NULL ? strlen(text) : 0);
}

void status_command_int(struct status_command *command, int64_t value) {
    char buffer[NUMBER_BYTES_MAX];
    char *at = status_command_digits(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, buffer);
    if (value < 0) {
        *--at = '-';
    }
    status_command_word(&command->args, at, (size_t)(buffer + NUMBER_BYTES_MAX - at));
}

void status_command_spare(struct status_command *command, const char *text, size_t size,
                          bool is_spared) {
    uint32_t key = command->key_count - 1;
    if (!is_spared) {
        status_command_word(&command->args, text, size);
        command->args_end[key] = command->args.size;
        command->spares_end[key] = command->spares.size;
        return;
    }
    command->args_end[key] = command->args.size;
    status_command_word(&command->spares, text, size);
    command->spares_end[key] = command->spares.size;
}

static void status_command_add_args(struct status_command *command, bool with_spares) {
    size_t args_begin = 0, spares_begin = 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        size_t args_end = command->args_end[i], spares_end = command->spares_end[i];
        status_command_add(&command->joined, command->args.data + args_begin,
                           args_end - args_begin);
        if (spares_end > spares_begin && with_spares) {
            status_command_add(&command->joined, command->spares.data + spares_begin,
                               spares_end - spares_begin);
        } else if (spares_end > spares_begin) {
            status_command_word(&command->joined, NULL, 0);
        }
        args_begin = args_end;
        spares_begin = spares_end;
    }
}

void status_command_join(struct status_command *command, const char *sha1,
                         const char *const shared[STATUS_SCRIPT_SHARED_ARGS], bool with_spares) {
    struct status_command_bytes *out = &command->joined;
    char buffer[NUMBER_BYTES_MAX];
    char *digits = status_command_digits(command->key_count, buffer);
    size_t arguments = (size_t)command->key_count * status_script_args_per_key(command->script);
    assert(command->keys.size > 0);
    out->size = 0;
    status_command_header(out, '*', 3 + command->key_count + STATUS_SCRIPT_SHARED_ARGS + arguments);
    status_command_word(out, "EVALSHA", 7);
    status_command_word(out, sha1, strlen(sha1));
    status_command_word(out, digits, (size_t)(buffer + NUMBER_BYTES_MAX - digits));
    status_command_add(out, command->keys.data, command->keys.size);
    for (uint32_t i = 0; i < STATUS_SCRIPT_SHARED_ARGS; i++) {
        status_command_word(out, shared[i], strlen(shared[i]));
    }
    if (command->spares.size > 0) {
        status_command_add_args(command, with_spares);
        return; /* and keeps what it may be joined from again */
    }
    status_command_add(out, command->args.data, command->args.size);
    free(command->keys.data);
    free(command->args.data);
    command->keys = command->args = (struct status_command_bytes){0};
}

void status_command_append(struct status_command_list *list, struct status_command *command) {
    command->next = NULL;
    if (list->tail != NULL) {
        list->tail->next = command;
    } else {
        list->head = command;
    }
    list->tail = command;
    list->key_count += command->key_count;
}

void status_command_unshift(struct status_command_list *list, struct status_command *command) {
    command->next = list->head;
    list->head = command;
    list->tail = list->tail != NULL ? list->tail : command;
    list->key_count += command->key_count;
}

void status_command_insert(struct status_command_list *list, struct status_command *command) {
    struct status_command *before = NULL, *after = list->head;
    if (list->tail != NULL && list->tail->order < command->order) {
        status_command_append(list, command);
        return;
    }
    while (after != NULL && after->order < command->order) {
        before = after;
        after = after->next;
    }
    if (before == NULL) {
        status_command_unshift(list, command);
        return;
    }
    before->next = command;
    command->next = after; /* there is one: the tail comes later */
    list->key_count += command->key_count;
}

struct status_command *status_command_shift(struct status_command_list *list) {
    struct status_command *command = list->head;
    if (command != NULL) {
        list->head = command->next;
        list->tail = list->head != NULL ? list->tail : NULL;
        list->key_count -= command->key_count;
        command->next = NULL;
    }
    return command;
}

void status_command_free_list(struct status_command_list *list) {
    for (struct status_command *command; (command = status_command_shift(list)) != NULL;) {
        status_command_free(command);
    }
}

void status_command_words(struct status_command_bytes *out, const char *const *words,
                          uint32_t count) {
    status_command_header(out, '*', count);
    for (uint32_t i = 0; i < count; i++) {
        status_command_word(out, words[i], strlen(words[i]));
    }
}
