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
        free(command->sealed.data);
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

static void status_command_append(struct status_command_bytes *out, const void *data, size_t size) {
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
    status_command_append(out, text, size);
    status_command_append(out, "\r\n", 2);
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

void status_command_seal(struct status_command *command, const char *sha1,
                         const char *const shared[STATUS_SCRIPT_SHARED_ARGS]) {
    struct status_command_bytes *out = &command->sealed;
    char buffer[NUMBER_BYTES_MAX];
    char *digits = status_command_digits(command->key_count, buffer);
    size_t arguments = (size_t)command->key_count * status_script_args_per_key(command->script);
    out->size = 0;
    status_command_header(out, '*', 3 + command->key_count + STATUS_SCRIPT_SHARED_ARGS + arguments);
    status_command_word(out, "EVALSHA", 7);
    status_command_word(out, sha1, strlen(sha1));
    status_command_word(out, digits, (size_t)(buffer + NUMBER_BYTES_MAX - digits));
    status_command_append(out, command->keys.data, command->keys.size);
    for (uint32_t i = 0; i < STATUS_SCRIPT_SHARED_ARGS; i++) {
        status_command_word(out, shared[i], strlen(shared[i]));
    }
    status_command_append(out, command->args.data, command->args.size);
    free(command->keys.data);
    free(command->args.data);
    command->keys = command->args = (struct status_command_bytes){0};
}

void status_command_words(struct status_command_bytes *out, const char *const *words,
                          uint32_t count) {
    status_command_header(out, '*', count);
    for (uint32_t i = 0; i < count; i++) {
        status_command_word(out, words[i], strlen(words[i]));
    }
}
