/* DESIGN. Three places a command can be: `open[script]`, still gathering keys; `sent`, in the order
 * the server will answer; `backlog`, finishes for a server that is away. A finish moves between
 * `sent` and `backlog` until it is answered, everything else is dropped with the connection.
 * `told` marks commands whose tickets already got their answer: the server's own is then
 * ignored. */
#include "consumer/status_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_command.h"
#include "consumer/status_link.h"
#include "engine/clock.h"
#include "engine/log.h"

#define REPLAY_COMMANDS_MAX 8 /* of the backlog at a time: claims must not queue behind all of it */
#define KEY_BYTES_MAX 512

struct command_list {
    struct status_command *head, *tail;
    uint32_t key_count;
};

struct status_store {
    struct status_store_options options;
    char *prefix, *worker;
    char ttl_text[24];
    struct status_link *link;
    bool was_up; /* as of the last look: its fall has been dealt with when false */
    struct status_command *open[STATUS_SCRIPT_COUNT];
    struct command_list sent, backlog;
    uint32_t replaying;                  /* commands of the backlog among `sent` */
    struct status_store_answer *answers; /* ring [answer_capacity], a power of two */
    uint32_t answer_first, answer_count, answer_capacity;
    uint64_t claims_unanswered, dropped_total;
};

/* ---- lists ---- */

static void status_store_append(struct command_list *list, struct status_command *command) {
    command->next = NULL;
    if (list->tail != NULL) {
        list->tail->next = command;
    } else {
        list->head = command;
    }
    list->tail = command;
    list->key_count += command->key_count;
}

static struct status_command *status_store_shift(struct command_list *list) {
    struct status_command *command = list->head;
    if (command != NULL) {
        list->head = command->next;
        list->tail = list->head != NULL ? list->tail : NULL;
        list->key_count -= command->key_count;
        command->next = NULL;
    }
    return command;
}

static void status_store_unshift(struct command_list *list, struct status_command *command) {
    command->next = list->head;
    list->head = command;
    list->tail = list->tail != NULL ? list->tail : command;
    list->key_count += command->key_count;
}

static void status_store_free_list(struct command_list *list) {
    for (struct status_command *command; (command = status_store_shift(list)) != NULL;) {
        status_command_free(command);
    }
}

/* ---- answers ---- */

static void status_store_answer(struct status_store *store,
                                const struct status_store_answer *answer) {
    if (store->answer_count == store->answer_capacity) {
        uint32_t capacity = store->answer_capacity == 0 ? 256 : 2 * store->answer_capacity;
        struct status_store_answer *answers = malloc(capacity * sizeof *answers);
        assert(answers != NULL);
        for (uint32_t i = 0; i < store->answer_count; i++) {
            answers[i] = store->answers[(store->answer_first + i) & (store->answer_capacity - 1)];
        }
        free(store->answers);
        store->answers = answers;
        store->answer_capacity = capacity;
        store->answer_first = 0;
    }
    uint32_t at = (store->answer_first + store->answer_count++) & (store->answer_capacity - 1);
    store->answers[at] = *answer;
}

bool status_store_take(struct status_store *store, struct status_store_answer *answer) {
    if (store->answer_count == 0) {
        return false;
    }
    *answer = store->answers[store->answer_first];
    store->answer_first = (store->answer_first + 1) & (store->answer_capacity - 1);
    store->answer_count--;
    return true;
}

static enum status_store_kind status_store_kind_of(const struct status_command *command) {
    return command->script == STATUS_SCRIPT_CLAIM ? STATUS_STORE_CLAIM : STATUS_STORE_FINISH;
}

/* Answers for tickets that Redis did not answer for. */
static void status_store_tell_unreached(struct status_store *store,
                                        struct status_command *command) {
    if (command->told || command->script == STATUS_SCRIPT_ADVANCE) {
        return;
    }
    command->told = true;
    enum status_store_kind kind = status_store_kind_of(command);
    store->claims_unanswered += kind == STATUS_STORE_CLAIM ? command->key_count : 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct status_store_answer answer = {
            .ticket = command->tickets[i], .kind = kind, .claimed = STATUS_STORE_NEW};
        status_store_answer(store, &answer);
    }
}

static enum status_store_claimed status_store_claimed_of(int64_t code) {
    if (code > 0) {
        return STATUS_STORE_NEW;
    }
    return code == 0                        ? STATUS_STORE_DONE
           : code == STATUS_SCRIPT_CONFLICT ? STATUS_STORE_CONFLICT
                                            : STATUS_STORE_NONE;
}

static void status_store_tell(struct status_store *store, const struct status_command *command,
                              const int64_t *codes) {
    if (command->told || command->script == STATUS_SCRIPT_ADVANCE) {
        return;
    }
    enum status_store_kind kind = status_store_kind_of(command);
    bool is_claim = kind == STATUS_STORE_CLAIM;
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct status_store_answer answer = {
            .ticket = command->tickets[i],
            .kind = kind,
            .claimed = is_claim ? status_store_claimed_of(codes[i]) : STATUS_STORE_NEW,
            .attempt = is_claim && codes[i] > 0 ? (uint32_t)codes[i] : 0,
            .reached = true};
        status_store_answer(store, &answer);
    }
}

/* ---- with the server away ---- */

static void status_store_bound_backlog(struct status_store *store) {
    while (store->backlog.key_count > store->options.backlog_max) {
        struct status_command *oldest = status_store_shift(&store->backlog);
        store->dropped_total += oldest->key_count;
        log_write(store->options.log, LOG_LEVEL_ERROR, "redis.backlog_dropped",
                  LOG_FIELDS(log_int("statuses", oldest->key_count),
                             log_int("dropped_total", (int64_t)store->dropped_total)));
        status_command_free(oldest);
    }
}

/* Deals with the link's fall: unanswered finishes go to the front of the backlog in their order,
 * the rest is dropped; everybody who waits is answered. */
static void status_store_watch_link(struct status_store *store) {
    bool is_up = status_link_is_up(store->link);
    if (is_up || !store->was_up) {
        store->was_up = is_up;
        return;
    }
    store->was_up = false;
    struct command_list kept = {0};
    for (struct status_command *command; (command = status_store_shift(&store->sent)) != NULL;) {
        status_store_tell_unreached(store, command);
        if (command->script == STATUS_SCRIPT_FINISH && command->key_count > 0) {
            status_store_append(&kept, command);
        } else {
            status_command_free(command);
        }
    }
    for (struct status_command *command; (command = status_store_shift(&store->backlog)) != NULL;) {
        status_store_append(&kept, command);
    }
    store->backlog = kept;
    store->replaying = 0;
    status_store_bound_backlog(store);
}

static void status_store_fail_link(struct status_store *store, const char *why) {
    status_link_fail(store->link, why);
    status_store_watch_link(store);
}

/* ---- sending ---- */

static void status_store_send(struct status_store *store, struct status_command *command) {
    if (command->sealed.size == 0) {
        const char *shared[STATUS_SCRIPT_SHARED_ARGS] = {store->ttl_text, store->prefix,
                                                         store->worker};
        status_command_seal(command, status_link_sha1(store->link, command->script), shared);
    }
    command->sent_ns = clock_monotonic_ns(store->options.clock);
    status_link_append(store->link, command->sealed.data, command->sealed.size);
    status_store_append(&store->sent, command);
}

static void status_store_replay(struct status_store *store) {
    while (status_link_is_up(store->link) && store->backlog.head != NULL &&
           store->replaying < REPLAY_COMMANDS_MAX) {
        struct status_command *command = status_store_shift(&store->backlog);
        command->replayed = true;
        store->replaying++;
        status_store_send(store, command);
    }
}

static void status_store_flush_one(struct status_store *store, struct status_command *command) {
    if (status_link_is_up(store->link)) {
        status_store_send(store, command);
        return;
    }
    status_store_tell_unreached(store, command);
    if (command->script == STATUS_SCRIPT_FINISH) {
        status_store_append(&store->backlog, command);
        status_store_bound_backlog(store);
    } else {
        status_command_free(command);
    }
}

void status_store_flush(struct status_store *store) {
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        if (store->open[script] != NULL) {
            struct status_command *command = store->open[script];
            store->open[script] = NULL;
            status_store_flush_one(store, command);
        }
    }
    status_link_write(store->link);
    status_store_watch_link(store);
}

/* ---- gathering ---- */

/* The command that gathers keys for this script, with the next key begun. */
static struct status_command *status_store_gather(struct status_store *store,
                                                  enum status_script script, uint64_t ticket,
                                                  const char *request_id) {
    struct status_command **open = &store->open[script];
    if (*open != NULL && (*open)->key_count == STATUS_COMMAND_KEYS_MAX) {
        struct status_command *full = *open;
        *open = NULL;
        status_store_flush_one(store, full);
    }
    if (*open == NULL) {
        *open = status_command_new(script);
        assert(*open != NULL);
    }
    char key[KEY_BYTES_MAX];
    bool fits = status_key(key, sizeof key, store->prefix, request_id);
    assert(fits); /* checked against the longest id in status_store_open */
    (void)fits;
    status_command_key(*open, ticket, key);
    return *open;
}

void status_store_claim(struct status_store *store, uint64_t ticket,
                        const struct status_store_claim *claim) {
    struct status_command *command =
        status_store_gather(store, STATUS_SCRIPT_CLAIM, ticket, claim->request_id);
    status_command_string(command, claim->fingerprint);
    status_command_string(command, claim->only_if_queued ? "queued" : "job");
    status_command_int(command, claim->queued_unix_ms);
}

/* An integer, or "" where it is `none`. */
static void status_store_put_int(struct status_command *command, int64_t value, int64_t none) {
    if (value == none) {
        status_command_string(command, NULL);
    } else {
        status_command_int(command, value);
    }
}

void status_store_advance(struct status_store *store, const struct status_store_advance *advance) {
    struct status_command *command =
        status_store_gather(store, STATUS_SCRIPT_ADVANCE, 0, advance->request_id);
    status_command_int(command, advance->attempt);
    status_store_put_int(command, advance->started_unix_ms, -1);
    status_command_int(command, advance->prompt_tokens);
    status_command_int(command, advance->completion_tokens);
    status_command_string(command, advance->text);
}

void status_store_finish(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish) {
    struct status_command *command =
        status_store_gather(store, STATUS_SCRIPT_FINISH, ticket, finish->request_id);
    bool published = finish->result_topic != NULL;
    status_command_string(command, status_state_name(finish->state));
    status_command_string(command, finish->fingerprint);
    status_store_put_int(command, finish->attempt, 0);
    status_command_int(command, finish->finished_unix_ms);
    status_store_put_int(command, finish->prompt_tokens, -1);
    status_store_put_int(command, finish->completion_tokens, -1);
    status_command_string(command, finish->error_code);
    status_command_string(command, finish->error_message);
    status_command_string(command, finish->result_topic);
    status_store_put_int(command, published ? finish->result_partition : -1, -1);
    status_store_put_int(command, published ? finish->result_offset : -1, -1);
    status_command_string(command, finish->text);
    status_command_text(command, finish->result, finish->result != NULL ? finish->result_bytes : 0);
}

/* ---- replies ---- */

/* The server has lost its scripts (SCRIPT FLUSH): load this one and send the command again. */
static void status_store_resend(struct status_store *store, struct status_command *command) {
    struct status_command_bytes bytes = {0};
    const char *words[] = {"SCRIPT", "LOAD", status_script_text(command->script)};
    status_command_words(&bytes, words, 3);
    status_link_append(store->link, bytes.data, bytes.size);
    free(bytes.data);
    struct status_command *load = status_command_new(command->script);
    assert(load != NULL);
    load->sent_ns = clock_monotonic_ns(store->options.clock);
    status_store_append(&store->sent, load); /* no keys: nobody waits for this reply */
    status_store_send(store, command);
}

/* The server refused a command, or said what it cannot say: start afresh. */
static void status_store_refuse(struct status_store *store, struct status_command *command,
                                const struct status_link_reply *reply) {
    char why[256];
    const char *error = reply->kind == STATUS_LINK_ERROR ? reply->error : "a reply out of place";
    snprintf(why, sizeof why, "%.180s%s", error,
             strncmp(error, "MOVED", 5) == 0
                 ? " (Redis Cluster is not supported: give a single server)"
                 : "");
    status_store_unshift(&store->sent, command);
    status_store_fail_link(store, why);
}

static void status_store_take_reply(struct status_store *store,
                                    const struct status_link_reply *reply) {
    struct status_command *command = status_store_shift(&store->sent);
    if (command == NULL) {
        status_store_fail_link(store, "a reply that nobody asked for");
        return;
    }
    if (reply->kind == STATUS_LINK_ERROR && strncmp(reply->error, "NOSCRIPT", 8) == 0) {
        status_store_resend(store, command);
        return;
    }
    if (command->key_count > 0 &&
        (reply->kind != STATUS_LINK_INTEGERS || reply->count != command->key_count)) {
        status_store_refuse(store, command, reply);
        return;
    }
    status_store_tell(store, command, reply->integers);
    store->replaying -= command->replayed;
    status_command_free(command);
}

/* ---- time ---- */

static void status_store_expire_claims(struct status_store *store, int64_t now_ns) {
    int64_t timeout_ns = store->options.claim_timeout_ms * CLOCK_NS_PER_MS;
    for (struct status_command *command = store->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && now_ns - command->sent_ns >= timeout_ns) {
            status_store_tell_unreached(store, command);
        }
    }
}

/* When the oldest command must have been answered. */
static int64_t status_store_answer_deadline_ns(const struct status_store *store) {
    return store->sent.head == NULL
               ? INT64_MAX
               : store->sent.head->sent_ns + store->options.link_timeout_ms * CLOCK_NS_PER_MS;
}

int64_t status_store_deadline_ns(const struct status_store *store) {
    int64_t deadline_ns = status_link_deadline_ns(store->link);
    int64_t answer_ns = status_store_answer_deadline_ns(store);
    deadline_ns = answer_ns < deadline_ns ? answer_ns : deadline_ns;
    int64_t timeout_ns = store->options.claim_timeout_ms * CLOCK_NS_PER_MS;
    for (const struct status_command *command = store->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && !command->told) {
            int64_t claim_ns = command->sent_ns + timeout_ns;
            return claim_ns < deadline_ns ? claim_ns : deadline_ns;
        }
    }
    return deadline_ns;
}

struct pollfd status_store_pollfd(const struct status_store *store) {
    return status_link_pollfd(store->link);
}

void status_store_handle(struct status_store *store, short revents) {
    struct status_link_reply reply;
    status_link_handle(store->link, revents);
    while (status_link_next(store->link, &reply)) {
        status_store_take_reply(store, &reply);
    }
    status_store_watch_link(store);
    status_store_replay(store);
    status_link_write(store->link);
    int64_t now_ns = clock_monotonic_ns(store->options.clock);
    if (now_ns >= status_store_answer_deadline_ns(store)) {
        status_link_fail(store->link, "no answer in time");
    }
    status_store_watch_link(store);
    status_store_expire_claims(store, now_ns);
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

bool status_store_open(const struct status_store_options *options, struct status_store **out,
                       char *err, size_t err_bytes) {
    struct status_link_options link = {.address = options->address,
                                       .greeting_timeout_ms = options->link_timeout_ms,
                                       .script_count = STATUS_SCRIPT_COUNT,
                                       .clock = options->clock,
                                       .log = options->log};
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        link.scripts[script] = status_script_text((enum status_script)script);
    }
    struct status_store *store = calloc(1, sizeof *store);
    assert(store != NULL);
    if (!status_store_check_prefix(options->prefix, err, err_bytes) ||
        !status_link_open(&link, &store->link, err, err_bytes)) {
        free(store);
        return false;
    }
    store->options = *options;
    store->prefix = strdup(options->prefix);
    store->worker = strdup(options->worker);
    assert(store->prefix != NULL && store->worker != NULL);
    snprintf(store->ttl_text, sizeof store->ttl_text, "%lld", (long long)options->ttl_s);
    *out = store;
    return true;
}

void status_store_stats(const struct status_store *store, struct status_store_stats *out) {
    *out = (struct status_store_stats){.is_up = status_link_is_up(store->link),
                                       .claims_unanswered = store->claims_unanswered,
                                       .backlog_count = store->backlog.key_count,
                                       .dropped_total = store->dropped_total,
                                       .links_total = status_link_count(store->link)};
}

void status_store_close(struct status_store *store) {
    if (store == NULL) {
        return;
    }
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        status_command_free(store->open[script]);
    }
    status_store_free_list(&store->sent);
    status_store_free_list(&store->backlog);
    status_link_close(store->link);
    free(store->answers);
    free(store->prefix);
    free(store->worker);
    free(store);
}
