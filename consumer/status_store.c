/* DESIGN. Three places a command can be: `open[script]`, still gathering keys; `sent`, in the order
 * the server will answer; `backlog`, what must not be lost on a server that is away (finishes and
 * releases). Such a command moves between `sent` and `backlog` until it is answered, everything
 * else is dropped with the connection. `told` marks commands whose tickets got an answer already:
 * of the server's own only what matters to a claim follows, as a late one.
 *
 * Two breakers decide whether a command is sent at all on a link that is up: `claims` opens when
 * claims stay unanswered, and holds up claims only; `refusal` opens when the server refuses to do
 * what it is told, and then counts as away for everything. */
#include "consumer/status_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_answers.h"
#include "consumer/status_breaker.h"
#include "consumer/status_call.h"
#include "consumer/status_command.h"
#include "consumer/status_link.h"
#include "consumer/status_refusal.h"
#include "consumer/status_reply.h"
#include "engine/clock.h"
#include "engine/log.h"

#define REPLAY_COMMANDS_MAX 8 /* of the backlog at a time: claims must not queue behind all of it */
#define CLAIM_MISSES_MAX 2
#define KEY_BYTES_MAX 512
#define EVICTION_BYTES_MAX 32

struct status_store {
    struct status_store_options options;
    char *prefix, *worker, *owner;
    char ttl_text[24], lease_text[24];
    struct status_link *link;
    bool was_up; /* as of the last look: its fall has been dealt with when false */
    struct status_command *open[STATUS_SCRIPT_COUNT];
    struct status_command_list sent, backlog;
    uint32_t replaying; /* commands of the backlog among `sent` */
    struct status_breaker claims, refusal;
    struct status_answers answers;
    char eviction[EVICTION_BYTES_MAX]; /* as said last */
    uint64_t claims_unanswered, late_answers, seals_unanswered, refused_total, dropped_total;
};

static int64_t status_store_now_ns(const struct status_store *store) {
    return clock_monotonic_ns(store->options.clock);
}

static bool status_store_is_kept(const struct status_command *command) {
    return command->key_count > 0 &&
           (command->script == STATUS_SCRIPT_FINISH || command->script == STATUS_SCRIPT_REPAIR ||
            command->script == STATUS_SCRIPT_RELEASE);
}

/* ---- answers ---- */

static bool status_store_kind_of(enum status_script script, enum status_store_kind *kind) {
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
static void status_store_tell_unreached(struct status_store *store,
                                        struct status_command *command) {
    struct status_store_answer answer = {.claimed = STATUS_STORE_NEW};
    if (command->told || !status_store_kind_of(command->script, &answer.kind)) {
        return;
    }
    command->told = true;
    store->claims_unanswered += answer.kind == STATUS_STORE_CLAIM ? command->key_count : 0;
    store->seals_unanswered += answer.kind == STATUS_STORE_SEAL ? command->key_count : 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        answer.ticket = command->tickets[i];
        status_answers_push(&store->answers, &answer);
    }
}

/* Whether a claim that was answered for already is to be answered again. */
static bool status_store_matters_late(const struct status_store_answer *answer) {
    return answer->kind == STATUS_STORE_CLAIM && answer->claimed != STATUS_STORE_NONE &&
           answer->claimed != STATUS_STORE_RUNNING_HERE &&
           answer->claimed != STATUS_STORE_RUNNING_ELSEWHERE;
}

static void status_store_tell(struct status_store *store, const struct status_command *command,
                              const struct status_link_reply *reply) {
    bool is_late = command->told && command->script == STATUS_SCRIPT_CLAIM;
    store->late_answers += is_late ? command->key_count : 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct status_reply said;
        bool is_read = status_reply_read(&said, command->script, reply, i);
        assert(is_read); /* all were looked at before the first is told */
        (void)is_read;
        said.answer.ticket = command->tickets[i];
        said.answer.is_late = is_late;
        if (!said.is_for_nobody && (!command->told || status_store_matters_late(&said.answer))) {
            status_answers_push(&store->answers, &said.answer);
        }
    }
}

/* ---- with the server away ---- */

static void status_store_bound_backlog(struct status_store *store) {
    while (store->backlog.key_count > store->options.backlog_max) {
        struct status_command *oldest = status_command_shift(&store->backlog);
        store->dropped_total += oldest->key_count;
        log_write(store->options.log, LOG_LEVEL_ERROR, "redis.backlog_dropped",
                  LOG_FIELDS(log_int("statuses", oldest->key_count),
                             log_int("dropped_total", (int64_t)store->dropped_total)));
        status_command_free(oldest);
    }
}

/* Takes back what the server has not answered: kept commands go to the front of the backlog in
 * their order, the rest is dropped; everybody who waits is answered. */
static void status_store_take_back_sent(struct status_store *store) {
    struct status_command_list kept = {0};
    for (struct status_command *command; (command = status_command_shift(&store->sent)) != NULL;) {
        status_store_tell_unreached(store, command);
        if (status_store_is_kept(command)) {
            command->replayed = command->reloaded = false;
            status_command_append(&kept, command);
        } else {
            status_command_free(command);
        }
    }
    for (struct status_command *command;
         (command = status_command_shift(&store->backlog)) != NULL;) {
        status_command_append(&kept, command);
    }
    store->backlog = kept;
    store->replaying = 0;
    status_store_bound_backlog(store);
}

static void status_store_look_at_eviction(struct status_store *store) {
    const char *policy = status_link_eviction(store->link);
    if (strcmp(policy, store->eviction) == 0 && status_link_count(store->link) > 1) {
        return;
    }
    snprintf(store->eviction, sizeof store->eviction, "%s", policy);
    if (policy[0] == '\0') {
        log_write(store->options.log, LOG_LEVEL_WARN, "redis.eviction_unknown",
                  LOG_FIELDS(log_text("error", "the server does not tell its maxmemory-policy"),
                             log_text("action", "see that it is noeviction")));
    } else if (strcmp(policy, "noeviction") != 0) {
        log_write(store->options.log, LOG_LEVEL_WARN, "redis.evicts",
                  LOG_FIELDS(log_text("maxmemory_policy", policy),
                             log_text("effect", "statuses, seals and leases may vanish"),
                             log_text("action", "set maxmemory-policy noeviction")));
    }
}

/* Deals with the link's rise and fall. */
static void status_store_watch_link(struct status_store *store) {
    bool is_up = status_link_is_up(store->link);
    if (is_up == store->was_up) {
        return;
    }
    store->was_up = is_up;
    status_breaker_reset(&store->claims);
    status_breaker_reset(&store->refusal);
    if (is_up) {
        status_store_look_at_eviction(store);
    } else {
        status_store_take_back_sent(store);
    }
}

/* ---- sending ---- */

static void status_store_send(struct status_store *store, struct status_command *command,
                              bool with_spares) {
    if (command->joined.size == 0 || with_spares) {
        const char *shared[STATUS_SCRIPT_SHARED_ARGS] = {
            store->ttl_text, store->prefix, store->worker, store->owner, store->lease_text};
        status_command_join(command, status_link_sha1(store->link, command->script), shared,
                            with_spares);
    }
    command->sent_ns = status_store_now_ns(store);
    status_link_append(store->link, command->joined.data, command->joined.size);
    status_command_append(&store->sent, command);
}

/* Whether the command may go to the server now: then it must. */
static bool status_store_allows(struct status_store *store, struct status_command *command) {
    int64_t now_ns = status_store_now_ns(store);
    bool is_claim = command->script == STATUS_SCRIPT_CLAIM;
    if (!status_link_is_up(store->link) || !status_breaker_allows(&store->refusal, now_ns) ||
        (is_claim && !status_breaker_allows(&store->claims, now_ns))) {
        return false;
    }
    command->probes_refusal = status_breaker_begin(&store->refusal);
    command->probes_claims = is_claim && status_breaker_begin(&store->claims);
    return true;
}

static void status_store_replay(struct status_store *store) {
    while (store->backlog.head != NULL && store->replaying < REPLAY_COMMANDS_MAX &&
           status_store_allows(store, store->backlog.head)) {
        struct status_command *command = status_command_shift(&store->backlog);
        command->replayed = true;
        store->replaying++;
        status_store_send(store, command, false);
    }
}

static void status_store_flush_one(struct status_store *store, enum status_script script) {
    struct status_command *command = store->open[script];
    if (command == NULL) {
        return;
    }
    store->open[script] = NULL;
    if (status_store_allows(store, command)) {
        status_store_send(store, command, false);
        return;
    }
    status_store_tell_unreached(store, command);
    if (status_store_is_kept(command)) {
        status_command_append(&store->backlog, command);
        status_store_bound_backlog(store);
    } else {
        status_command_free(command);
    }
}

void status_store_flush(struct status_store *store) {
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        status_store_flush_one(store, (enum status_script)script);
    }
    status_link_write(store->link);
    status_store_watch_link(store);
}

/* ---- gathering ---- */

/* The command that gathers keys for this script, with the next key begun. A full one goes, and what
 * is to go before it. */
static struct status_command *status_store_gather(struct status_store *store,
                                                  enum status_script script, uint64_t ticket,
                                                  const char *request_id) {
    struct status_command **open = &store->open[script];
    if (*open != NULL && (*open)->key_count == STATUS_COMMAND_KEYS_MAX) {
        for (int before = 0; before <= (int)script; before++) {
            status_store_flush_one(store, (enum status_script)before);
        }
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
                       finish, store->options.result_bytes_max);
}

void status_store_repair(struct status_store *store, uint64_t ticket,
                         const struct status_store_finish *finish) {
    assert(!finish->is_sealed);
    status_call_finish(status_store_gather(store, STATUS_SCRIPT_REPAIR, ticket, finish->request_id),
                       finish, store->options.result_bytes_max);
}

bool status_store_take(struct status_store *store, struct status_store_answer *answer) {
    return status_answers_take(&store->answers, answer);
}

/* ---- replies ---- */

/* The server has lost its scripts (SCRIPT FLUSH): load this one and send the command again. */
static void status_store_reload(struct status_store *store, struct status_command *command) {
    struct status_command_bytes bytes = {0};
    const char *words[] = {"SCRIPT", "LOAD", status_script_text(command->script)};
    status_command_words(&bytes, words, 3);
    status_link_append(store->link, bytes.data, bytes.size);
    free(bytes.data);
    struct status_command *load = status_command_new(command->script);
    assert(load != NULL);
    load->sent_ns = status_store_now_ns(store);
    status_command_append(&store->sent, load); /* no keys: nobody waits for this reply */
    command->reloaded = true;
    status_store_send(store, command, false);
}

/* The server does not do what it is told: away, until a probe tells otherwise. */
static void status_store_refuse(struct status_store *store, struct status_command *command,
                                const char *error) {
    struct status_refusal refusal = status_refusal_of(error);
    bool was_open = store->refusal.is_open;
    status_breaker_missed(&store->refusal, command->probes_refusal, status_store_now_ns(store));
    if (command->probes_claims) { /* answered, if not as hoped: the server is not slow */
        status_breaker_answered(&store->claims, true);
    }
    store->refused_total++;
    if (!was_open) {
        log_write(store->options.log, LOG_LEVEL_WARN, "redis.refuses",
                  LOG_FIELDS(log_text("error", error), log_text("action", refusal.advice),
                             log_text("effect", "serving on without statuses; trying again")));
    }
    status_store_tell_unreached(store, command);
    store->replaying -= command->replayed;
    command->replayed = command->reloaded = false;
    if (status_store_is_kept(command)) {
        status_command_append(&store->backlog, command);
        status_store_bound_backlog(store);
    } else {
        status_command_free(command);
    }
}

static void status_store_take_error(struct status_store *store, struct status_command *command,
                                    const char *error) {
    bool lacks_script = status_refusal_of(error).kind == STATUS_REFUSAL_NO_SCRIPT;
    if (lacks_script && !command->reloaded) {
        status_store_reload(store, command);
    } else if (command->key_count > 0) {
        status_store_refuse(store, command, error);
    } else {
        status_command_free(command); /* of a script's loading: the command behind it tells */
    }
}

/* Whether the reply can be one to this command; *is_missing: a result is to be given after all. */
static bool status_store_check(const struct status_command *command,
                               const struct status_link_reply *reply, bool *is_missing) {
    *is_missing = false;
    if (command->key_count == 0) {
        return true;
    }
    if (reply->kind != STATUS_LINK_LIST || reply->count != command->key_count) {
        return false;
    }
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct status_reply said;
        if (!status_reply_read(&said, command->script, reply, i)) {
            return false;
        }
        *is_missing |= said.is_missing;
    }
    return !*is_missing || command->spares.size > 0;
}

static void status_store_close_breakers(struct status_store *store,
                                        const struct status_command *command) {
    bool was_refusing = store->refusal.is_open;
    status_breaker_answered(&store->refusal, command->probes_refusal);
    if (was_refusing && !store->refusal.is_open) {
        log_write(store->options.log, LOG_LEVEL_INFO, "redis.writes_again",
                  LOG_FIELDS(log_int("backlog", store->backlog.key_count)));
    }
    if (command->script == STATUS_SCRIPT_CLAIM && !command->told) {
        status_breaker_answered(&store->claims, command->probes_claims);
    }
}

static void status_store_take_reply(struct status_store *store,
                                    const struct status_link_reply *reply) {
    struct status_command *command = status_command_shift(&store->sent);
    bool is_missing;
    if (command == NULL) {
        status_link_fail(store->link, "a reply that nobody asked for");
    } else if (reply->kind == STATUS_LINK_ERROR) {
        status_store_take_error(store, command, reply->error);
    } else if (!status_store_check(command, reply, &is_missing)) {
        status_command_unshift(&store->sent, command);
        status_link_fail(store->link, "a reply out of place");
    } else if (is_missing) {
        status_store_send(store, command, true);
    } else {
        if (command->key_count > 0) {
            status_store_close_breakers(store, command);
        }
        status_store_tell(store, command, reply);
        store->replaying -= command->replayed;
        status_command_free(command);
    }
}

/* ---- time ---- */

static void status_store_expire_claims(struct status_store *store, int64_t now_ns) {
    int64_t timeout_ns = store->options.claim_timeout_ms * CLOCK_NS_PER_MS;
    for (struct status_command *command = store->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && !command->told && command->key_count > 0 &&
            now_ns - command->sent_ns >= timeout_ns) {
            bool was_open = store->claims.is_open;
            status_store_tell_unreached(store, command);
            status_breaker_missed(&store->claims, command->probes_claims, now_ns);
            if (store->claims.is_open && !was_open) {
                log_write(store->options.log, LOG_LEVEL_WARN, "redis.slow",
                          LOG_FIELDS(log_int("claim_timeout_ms", store->options.claim_timeout_ms),
                                     log_text("effect", "claims are not sent for a while")));
            }
        }
    }
}

/* When the oldest command must have been answered. */
static int64_t status_store_answer_deadline_ns(const struct status_store *store) {
    return store->sent.head == NULL
               ? INT64_MAX
               : store->sent.head->sent_ns + store->options.link_timeout_ms * CLOCK_NS_PER_MS;
}

static int64_t status_store_claim_deadline_ns(const struct status_store *store) {
    for (const struct status_command *command = store->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && !command->told && command->key_count > 0) {
            return command->sent_ns + store->options.claim_timeout_ms * CLOCK_NS_PER_MS;
        }
    }
    return INT64_MAX;
}

static int64_t status_store_sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t status_store_deadline_ns(const struct status_store *store) {
    int64_t due_ns = status_link_deadline_ns(store->link);
    due_ns = status_store_sooner(due_ns, status_store_answer_deadline_ns(store));
    due_ns = status_store_sooner(due_ns, status_store_claim_deadline_ns(store));
    if (store->backlog.head != NULL && store->was_up) {
        due_ns = status_store_sooner(due_ns, status_breaker_deadline_ns(&store->refusal));
    }
    return due_ns;
}

struct pollfd status_store_pollfd(const struct status_store *store) {
    return status_link_pollfd(store->link);
}

void status_store_handle(struct status_store *store, short revents) {
    struct status_link_reply reply;
    status_link_handle(store->link, revents);
    status_store_watch_link(store);
    while (status_link_next(store->link, &reply)) {
        status_store_take_reply(store, &reply);
    }
    status_store_watch_link(store);
    status_store_replay(store);
    status_link_write(store->link);
    int64_t now_ns = status_store_now_ns(store);
    if (status_link_is_up(store->link) && now_ns >= status_store_answer_deadline_ns(store)) {
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
    struct status_link_options link = {.address = options->address,
                                       .greeting_timeout_ms = options->link_timeout_ms,
                                       .script_count = STATUS_SCRIPT_COUNT,
                                       .clock = options->clock,
                                       .log = options->log};
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        link.scripts[script] = status_script_text((enum status_script)script);
    }
    struct status_store *store = calloc(1, sizeof *store);
    assert(store != NULL && options->lease_ms > 0);
    if (!status_store_check_prefix(options->prefix, err, err_bytes) ||
        !status_link_open(&link, &store->link, err, err_bytes)) {
        free(store);
        return false;
    }
    store->options = *options;
    store->claims.misses_max = CLAIM_MISSES_MAX;
    store->refusal.misses_max = 1;
    status_store_take_names(store, options);
    *out = store;
    return true;
}

void status_store_stats(const struct status_store *store, struct status_store_stats *out) {
    const char *eviction = store->eviction;
    *out = (struct status_store_stats){
        .is_up = status_link_is_up(store->link) && !store->refusal.is_open,
        .claims_unanswered = store->claims_unanswered,
        .late_answers = store->late_answers,
        .seals_unanswered = store->seals_unanswered,
        .breaker_opened_total = store->claims.opened_total,
        .refused_total = store->refused_total,
        .backlog_count = store->backlog.key_count,
        .dropped_total = store->dropped_total,
        .links_total = status_link_count(store->link),
        .eviction = eviction,
        .is_eviction_harmless = eviction[0] == '\0' || strcmp(eviction, "noeviction") == 0};
}

void status_store_close(struct status_store *store) {
    if (store == NULL) {
        return;
    }
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        status_command_free(store->open[script]);
    }
    status_command_free_list(&store->sent);
    status_command_free_list(&store->backlog);
    status_link_close(store->link);
    status_answers_deinit(&store->answers);
    free(store->prefix);
    free(store->worker);
    free(store->owner);
    free(store);
}
