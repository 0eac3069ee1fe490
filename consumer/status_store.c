/* DESIGN. Keys are gathered into calls, a list of them for each script, and handed to the dispatch
 * in the order of the scripts, which is the order in which what is asked of one id must arrive.
 * While the server owes answers to a script, more keys gather here: a call for many costs it little
 * more than one for a few, and no claim queues there behind all that a busy worker has to say. */
#include "consumer/status_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_call.h"
#include "consumer/status_command.h"
#include "consumer/status_dispatch.h"

#define KEY_BYTES_MAX 512
#define OWED_MAX 2 /* calls of a script at the server: it never waits for the next one */

struct status_store {
    char *prefix, *worker, *owner;
    char ttl_text[24], lease_text[24];
    size_t result_bytes_max;
    struct status_command_list gathered[STATUS_SCRIPT_COUNT]; /* calls: all but the last are full */
    struct status_dispatch dispatch;
};

/* ---- sending ---- */

static void status_store_send_first(struct status_store *store, enum status_script script) {
    status_dispatch_send(&store->dispatch, status_command_shift(&store->gathered[script]));
}

void status_store_flush(struct status_store *store) {
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        while (store->gathered[script].head != NULL) {
            status_store_send_first(store, (enum status_script)script);
        }
    }
    status_dispatch_write(&store->dispatch);
}

/* Whether the first call that a script has gathered is to go, though it could gather more or wait
 * here as well as at the server. What gives back or keeps a lease goes at once. */
static bool status_store_is_due(const struct status_store *store, enum status_script script) {
    const struct status_command *command = store->gathered[script].head;
    if (command == NULL) {
        return false;
    }
    uint32_t owed = status_dispatch_owed(&store->dispatch, script);
    if (owed == 0 || (owed < OWED_MAX && command->key_count == STATUS_COMMAND_KEYS_MAX)) {
        return true;
    }
    switch (script) {
    case STATUS_SCRIPT_RELEASE:
    case STATUS_SCRIPT_RENEW: return true;
    case STATUS_SCRIPT_CLAIM: return store->dispatch.claims.is_open; /* Redis is not waited for */
    case STATUS_SCRIPT_ADVANCE: /* no outcome overtakes it: it would be ignored */
        return status_store_is_due(store, STATUS_SCRIPT_SEAL) ||
               status_store_is_due(store, STATUS_SCRIPT_FINISH);
    case STATUS_SCRIPT_SEAL:
    case STATUS_SCRIPT_FINISH:
    case STATUS_SCRIPT_REPAIR: break;
    }
    return false;
}

void status_store_send(struct status_store *store) {
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        while (status_store_is_due(store, (enum status_script)script)) {
            status_store_send_first(store, (enum status_script)script);
        }
    }
    status_dispatch_write(&store->dispatch);
}

/* ---- gathering ---- */

/* The command that gathers keys for this script, with the next key begun. */
static struct status_command *status_store_gather(struct status_store *store,
                                                  enum status_script script, uint64_t ticket,
                                                  const char *request_id) {
    struct status_command_list *list = &store->gathered[script];
    if (list->tail == NULL || list->tail->key_count == STATUS_COMMAND_KEYS_MAX) {
        struct status_command *command = status_command_new(script);
        assert(command != NULL);
        status_command_append(list, command);
    }
    char key[KEY_BYTES_MAX];
    bool fits = status_key(key, sizeof key, store->prefix, request_id);
    assert(fits); /* checked against the longest id in status_store_open */
    (void)fits;
    status_command_key(list->tail, ticket, key);
    list->key_count++;
    return list->tail;
}

void status_store_claim(struct status_store *store, uint64_t ticket,
                        const struct status_store_claim *claim) {
    status_call_claim(status_store_gather(store, STATUS_SCRIPT_CLAIM, ticket, claim->request_id),
                      claim);
}

void status_store_advance(struct status_store *store, const struct status_store_advance *advance) {
    status_call_advance(status_store_gather(store, STATUS_SCRIPT_ADVANCE, 0, advance->request_id),
                        advance);
}

void status_store_renew(struct status_store *store, uint64_t ticket, const char *request_id,
                        uint32_t attempt) {
    status_command_int(status_store_gather(store, STATUS_SCRIPT_RENEW, ticket, request_id),
                       attempt);
}

void status_store_release(struct status_store *store, const char *request_id, uint32_t attempt) {
    status_command_int(status_store_gather(store, STATUS_SCRIPT_RELEASE, 0, request_id), attempt);
}

void status_store_seal(struct status_store *store, uint64_t ticket,
                       const struct status_store_finish *finish) {
    status_call_seal(status_store_gather(store, STATUS_SCRIPT_SEAL, ticket, finish->request_id),
                     finish);
}

void status_store_finish(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish) {
    status_call_finish(status_store_gather(store, STATUS_SCRIPT_FINISH, ticket, finish->request_id),
                       finish, store->result_bytes_max);
}

void status_store_repair(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish) {
    assert(!finish->is_sealed);
    status_call_finish(status_store_gather(store, STATUS_SCRIPT_REPAIR, ticket, finish->request_id),
                       finish, store->result_bytes_max);
}

bool status_store_take(struct status_store *store, struct status_store_answer *answer) {
    return status_answers_take(&store->dispatch.answers, answer);
}

/* ---- open and close ---- */

static bool status_store_check_prefix(const char *prefix, char *err, size_t err_bytes) {
    char longest[KEY_BYTES_MAX], id[JOB_ID_BYTES_MAX + 1];
    memset(id, 'x', JOB_ID_BYTES_MAX);
    id[JOB_ID_BYTES_MAX] = '\0';
    if (!status_key(longest, sizeof longest, prefix, id)) {
        snprintf(err, err_bytes, "key_prefix: '%s' is too long", prefix);
        return false;
    }
    return true;
}

static void status_store_take_names(struct status_store *store,
                                    const struct status_store_options *options) {
    size_t owner_bytes = strlen(options->worker) + strlen(options->incarnation) + 2;
    store->prefix = strdup(options->prefix);
    store->worker = strdup(options->worker);
    store->owner = malloc(owner_bytes);
    assert(store->prefix != NULL && store->worker != NULL && store->owner != NULL);
    snprintf(store->owner, owner_bytes, "%s/%s", options->worker, options->incarnation);
    snprintf(store->ttl_text, sizeof store->ttl_text, "%lld", (long long)options->ttl_s);
    snprintf(store->lease_text, sizeof store->lease_text, "%lld", (long long)options->lease_ms);
}

bool status_store_open(const struct status_store_options *options, struct status_store **out,
                       char *err, size_t err_bytes) {
    if (!status_store_check_prefix(options->prefix, err, err_bytes)) {
        return false;
    }
    struct status_store *store = calloc(1, sizeof *store);
    assert(store != NULL && options->lease_ms > 0);
    store->result_bytes_max = options->result_bytes_max;
    status_store_take_names(store, options);
    struct status_dispatch_options dispatch = {
        .address = options->address,
        .claim_timeout_ms = options->claim_timeout_ms,
        .link_timeout_ms = options->link_timeout_ms,
        .backlog_max = options->backlog_max,
        .shared = {store->ttl_text, store->prefix, store->worker, store->owner, store->lease_text},
        .clock = options->clock,
        .log = options->log};
    if (!status_dispatch_open(&store->dispatch, &dispatch, err, err_bytes)) {
        status_store_close(store);
        return false;
    }
    *out = store;
    return true;
}

struct pollfd status_store_pollfd(const struct status_store *store) {
    return status_link_pollfd(store->dispatch.link);
}

int64_t status_store_deadline_ns(const struct status_store *store) {
    return status_dispatch_deadline_ns(&store->dispatch);
}

void status_store_handle(struct status_store *store, short revents) {
    status_dispatch_handle(&store->dispatch, revents);
}

void status_store_stats(const struct status_store *store, struct status_store_stats *out) {
    const struct status_dispatch *dispatch = &store->dispatch;
    const char *eviction = dispatch->eviction;
    *out = (struct status_store_stats){.is_up = status_dispatch_is_up(dispatch),
                                       .claims_unanswered = dispatch->answers.claims_unanswered,
                                       .late_answers = dispatch->answers.late_answers,
                                       .seals_unanswered = dispatch->answers.seals_unanswered,
                                       .breaker_opened_total = dispatch->claims.opened_total,
                                       .refused_total = dispatch->refused_total,
                                       .backlog_count = status_dispatch_backlog_count(dispatch),
                                       .dropped_total = dispatch->dropped_total,
                                       .links_total = status_link_count(dispatch->link),
                                       .eviction = eviction,
                                       .is_eviction_harmless = eviction[0] == '\0' ||
                                                               strcmp(eviction, "noeviction") == 0};
}

void status_store_close(struct status_store *store) {
    if (store == NULL) {
        return;
    }
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        status_command_free_list(&store->gathered[script]);
    }
    status_dispatch_close(&store->dispatch);
    free(store->prefix);
    free(store->worker);
    free(store->owner);
    free(store);
}
