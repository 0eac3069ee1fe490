/* A status command: one script call over many keys, written as the bytes that go to the server.
 *
 * Keys stand before all arguments in a call, so both are gathered apart and joined at the end. The
 * joined bytes can be sent again, as often as needed. A spare is a key's last argument that the
 * server is thought to have: it goes as "" first, and is there for a second call. One thread. A
 * command owns its bytes; memory is bounded by STATUS_COMMAND_KEYS_MAX and the texts given. Refuses
 * to know sockets, replies and what the fields mean. */
#ifndef SOLFLEET_CONSUMER_STATUS_COMMAND_H
#define SOLFLEET_CONSUMER_STATUS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/status_script.h"

/* Throughput grows little beyond; longer calls would hold up other clients of the server. */
#define STATUS_COMMAND_KEYS_MAX 128

struct status_command_bytes {
    char *data;
    size_t size, capacity;
};

struct status_command {
    struct status_command *next; /* in its owner's list */
    enum status_script script;
    uint32_t key_count;
    uint64_t tickets[STATUS_COMMAND_KEYS_MAX];
    uint64_t order;                     /* its owner's: what came first has the smaller */
    bool told;                          /* its owner has answered for these tickets */
    bool replayed;                      /* its owner sends it a second time */
    bool probes_claims, probes_refusal; /* its answer decides for all (status_breaker) */
    bool reloaded;                      /* its script has been loaded for it */
    int64_t sent_ns;                    /* its owner's time */

    struct status_command_bytes keys, args;
    struct status_command_bytes joined;
    struct status_command_bytes spares; /* none: no key has one; else each */
    size_t args_end[STATUS_COMMAND_KEYS_MAX], spares_end[STATUS_COMMAND_KEYS_MAX];
};

/* First in, first out. */
struct status_command_list {
    struct status_command *head, *tail;
    uint32_t key_count; /* of all in it */
};

/* NULL when memory ran out. */
struct status_command *status_command_new(enum status_script script);
void status_command_free(struct status_command *command); /* accepts NULL */

/* Begins the next key; its arguments follow in the script's order. */
void status_command_key(struct status_command *command, uint64_t ticket, const char *key);
void status_command_text(struct status_command *command, const char *text, size_t size);
/* NULL counts as "". */
void status_command_string(struct status_command *command, const char *text);
void status_command_int(struct status_command *command, int64_t value);
/* The last argument of a key: `text`, but "" as long as it is spared. In a script whose keys all
 * end with this. */
void status_command_spare(struct status_command *command, const char *text, size_t size,
                          bool is_spared);

/* Makes `joined` from what was gathered: EVALSHA sha1 count keys… shared… arguments… . Again, with
 * `with_spares`, only if the command has any. */
void status_command_join(struct status_command *command, const char *sha1,
                         const char *const shared[STATUS_SCRIPT_SHARED_ARGS], bool with_spares);

void status_command_append(struct status_command_list *list, struct status_command *command);
void status_command_unshift(struct status_command_list *list, struct status_command *command);
/* Into a list that is sorted by `order`. */
void status_command_insert(struct status_command_list *list, struct status_command *command);
/* The first; NULL when empty. */
struct status_command *status_command_shift(struct status_command_list *list);
void status_command_free_list(struct status_command_list *list);

/* One command of plain words, in the same form. */
void status_command_words(struct status_command_bytes *out, const char *const *words,
                          uint32_t count);

#endif
