/* DESIGN. A command is in one of two places: `sent`, in the order the server will answer, or
 * `backlog`, what must not be lost on a server that is away (finishes and releases). Such a command
 * moves between the two until it is answered, everything else is dropped with the connection.
 * `told` marks commands whose tickets got an answer already: of the server's own only what matters
 * to a claim follows, as a late one.
 *
 * Two breakers decide whether a command is sent at all on a link that is up: `claims` opens when
 * claims stay unanswered, and holds up claims only; `refusal` opens when the server refuses to do
 * what it is told, and then counts as away for everything. */
#include "consumer/status_dispatch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_refusal.h"
#include "consumer/status_reply.h"
#include "engine/clock.h"
#include "engine/log.h"

#define REPLAY_COMMANDS_MAX 8 /* of the backlog at a time: claims must not queue behind all of it */
#define CLAIM_MISSES_MAX 2

static int64_t status_dispatch_now_ns(const struct status_dispatch *dispatch) {
    return clock_monotonic_ns(dispatch->options.clock);
}

static bool status_dispatch_is_kept(const struct status_command *command) {
    return command->key_count > 0 &&
           (command->script == STATUS_SCRIPT_FINISH || command->script == STATUS_SCRIPT_REPAIR ||
            command->script == STATUS_SCRIPT_RELEASE);
}

/* ---- with the server away ---- */

static void status_dispatch_bound_backlog(struct status_dispatch *dispatch) {
    while (dispatch->backlog.key_count > dispatch->options.backlog_max) {
        struct status_command *oldest = status_command_shift(&dispatch->backlog);
        dispatch->dropped_total += oldest->key_count;
        log_write(dispatch->options.log, LOG_LEVEL_ERROR, "redis.backlog_dropped",
                  LOG_FIELDS(log_int("statuses", oldest->key_count),
                             log_int("dropped_total", (int64_t)dispatch->dropped_total)));
        status_command_free(oldest);
    }
}

static void status_dispatch_keep_or_free(struct status_dispatch *dispatch,
                                         struct status_command *command) {
    if (status_dispatch_is_kept(command)) {
        command->replayed = command->reloaded = false;
        status_command_insert(&dispatch->backlog, command);
        status_dispatch_bound_backlog(dispatch);
    } else {
        status_command_free(command);
    }
}

/* Takes back what the server has not answered; everybody who waits is answered. */
static void status_dispatch_take_back_sent(struct status_dispatch *dispatch) {
    for (struct status_command *command;
         (command = status_command_shift(&dispatch->sent)) != NULL;) {
        status_answers_unreached(&dispatch->answers, command);
        status_dispatch_keep_or_free(dispatch, command);
    }
    dispatch->replaying = 0;
}

static void status_dispatch_look_at_eviction(struct status_dispatch *dispatch) {
    const char *policy = status_link_eviction(dispatch->link);
    if (strcmp(policy, dispatch->eviction) == 0 && status_link_count(dispatch->link) > 1) {
        return;
    }
    snprintf(dispatch->eviction, sizeof dispatch->eviction, "%s", policy);
    if (policy[0] == '\0') {
        log_write(dispatch->options.log, LOG_LEVEL_WARN, "redis.eviction_unknown",
                  LOG_FIELDS(log_text("error", "the server does not tell its maxmemory-policy"),
                             log_text("action", "see that it is noeviction")));
    } else if (strcmp(policy, "noeviction") != 0) {
        log_write(dispatch->options.log, LOG_LEVEL_WARN, "redis.evicts",
                  LOG_FIELDS(log_text("maxmemory_policy", policy),
                             log_text("effect", "statuses, seals and leases may vanish"),
                             log_text("action", "set maxmemory-policy noeviction")));
    }
}

/* Deals with the link's rise and fall. */
static void status_dispatch_watch_link(struct status_dispatch *dispatch) {
    bool is_up = status_link_is_up(dispatch->link);
    if (is_up == dispatch->was_up) {
        return;
    }
    dispatch->was_up = is_up;
    status_breaker_reset(&dispatch->claims);
    status_breaker_reset(&dispatch->refusal);
    if (is_up) {
        status_dispatch_look_at_eviction(dispatch);
    } else {
        status_dispatch_take_back_sent(dispatch);
    }
}

/* ---- sending ---- */

static void status_dispatch_send_now(struct status_dispatch *dispatch,
                                     struct status_command *command, bool with_spares) {
    if (command->joined.size == 0 || with_spares) {
        status_command_join(command, status_link_sha1(dispatch->link, command->script),
                            dispatch->options.shared, with_spares);
    }
    command->sent_ns = status_dispatch_now_ns(dispatch);
    status_link_append(dispatch->link, command->joined.data, command->joined.size);
    status_command_append(&dispatch->sent, command);
}

/* Whether the command may go to the server now: then it must. */
static bool status_dispatch_allows(struct status_dispatch *dispatch,
                                   struct status_command *command) {
    int64_t now_ns = status_dispatch_now_ns(dispatch);
    bool is_claim = command->script == STATUS_SCRIPT_CLAIM;
    if (!status_link_is_up(dispatch->link) || !status_breaker_allows(&dispatch->refusal, now_ns) ||
        (is_claim && !status_breaker_allows(&dispatch->claims, now_ns))) {
        return false;
    }
    command->probes_refusal = status_breaker_begin(&dispatch->refusal);
    command->probes_claims = is_claim && status_breaker_begin(&dispatch->claims);
    return true;
}

static void status_dispatch_replay(struct status_dispatch *dispatch) {
    while (dispatch->backlog.head != NULL && dispatch->replaying < REPLAY_COMMANDS_MAX &&
           status_dispatch_allows(dispatch, dispatch->backlog.head)) {
        struct status_command *command = status_command_shift(&dispatch->backlog);
        command->replayed = true;
        dispatch->replaying++;
        status_dispatch_send_now(dispatch, command, false);
    }
}

void status_dispatch_send(struct status_dispatch *dispatch, struct status_command *command) {
    command->order = dispatch->commands_total++;
    if (status_dispatch_allows(dispatch, command)) {
        status_dispatch_send_now(dispatch, command, false);
        return;
    }
    status_answers_unreached(&dispatch->answers, command);
    status_dispatch_keep_or_free(dispatch, command);
}

void status_dispatch_write(struct status_dispatch *dispatch) {
    status_link_write(dispatch->link);
    status_dispatch_watch_link(dispatch);
}

uint32_t status_dispatch_owed(const struct status_dispatch *dispatch, enum status_script script) {
    uint32_t count = 0;
    for (const struct status_command *command = dispatch->sent.head; command != NULL;
         command = command->next) {
        count += command->script == script && !command->told;
    }
    return count;
}

uint32_t status_dispatch_backlog_count(const struct status_dispatch *dispatch) {
    uint32_t count = dispatch->backlog.key_count;
    for (const struct status_command *command = dispatch->sent.head;
         command != NULL && dispatch->replaying > 0; command = command->next) {
        count += command->replayed ? command->key_count : 0;
    }
    return count;
}

bool status_dispatch_is_up(const struct status_dispatch *dispatch) {
    return status_link_is_up(dispatch->link) && !dispatch->refusal.is_open;
}

/* ---- replies ---- */

/* The server has lost its scripts (SCRIPT FLUSH): load this one and send the command again. */
static void status_dispatch_reload(struct status_dispatch *dispatch,
                                   struct status_command *command) {
    struct status_command_bytes bytes = {0};
    const char *words[] = {"SCRIPT", "LOAD", status_script_text(command->script)};
    status_command_words(&bytes, words, 3);
    status_link_append(dispatch->link, bytes.data, bytes.size);
    free(bytes.data);
    struct status_command *load = status_command_new(command->script);
    assert(load != NULL);
    load->sent_ns = status_dispatch_now_ns(dispatch);
    status_command_append(&dispatch->sent, load); /* no keys: nobody waits for this reply */
    command->reloaded = true;
    status_dispatch_send_now(dispatch, command, false);
}

/* The server does not do what it is told: away, until a probe tells otherwise. */
static void status_dispatch_refuse(struct status_dispatch *dispatch, struct status_command *command,
                                   const char *error) {
    struct status_refusal refusal = status_refusal_of(error);
    bool was_open = dispatch->refusal.is_open;
    status_breaker_missed(&dispatch->refusal, command->probes_refusal,
                          status_dispatch_now_ns(dispatch));
    if (command->probes_claims) { /* answered, if not as hoped: the server is not slow */
        status_breaker_answered(&dispatch->claims, true);
    }
    dispatch->refused_total++;
    if (!was_open) {
        log_write(dispatch->options.log, LOG_LEVEL_WARN, "redis.refuses",
                  LOG_FIELDS(log_text("error", error), log_text("action", refusal.advice),
                             log_text("effect", "serving on without statuses; trying again")));
    }
    status_answers_unreached(&dispatch->answers, command);
    dispatch->replaying -= command->replayed;
    status_dispatch_keep_or_free(dispatch, command);
}

static void status_dispatch_take_error(struct status_dispatch *dispatch,
                                       struct status_command *command, const char *error) {
    bool lacks_script = status_refusal_of(error).kind == STATUS_REFUSAL_NO_SCRIPT;
    if (lacks_script && !command->reloaded) {
        status_dispatch_reload(dispatch, command);
    } else if (command->key_count > 0) {
        status_dispatch_refuse(dispatch, command, error);
    } else {
        status_command_free(command); /* of a script's loading: the command behind it tells */
    }
}

/* Whether the reply can be one to this command; *is_missing: a result is to be given after all. */
static bool status_dispatch_check(const struct status_command *command,
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

static void status_dispatch_close_breakers(struct status_dispatch *dispatch,
                                           const struct status_command *command) {
    bool was_refusing = dispatch->refusal.is_open;
    status_breaker_answered(&dispatch->refusal, command->probes_refusal);
    if (was_refusing && !dispatch->refusal.is_open) {
        log_write(dispatch->options.log, LOG_LEVEL_INFO, "redis.writes_again",
                  LOG_FIELDS(log_int("backlog", dispatch->backlog.key_count)));
    }
    if (command->script == STATUS_SCRIPT_CLAIM && !command->told) {
        status_breaker_answered(&dispatch->claims, command->probes_claims);
    }
}

static void status_dispatch_take_reply(struct status_dispatch *dispatch,
                                       const struct status_link_reply *reply) {
    struct status_command *command = status_command_shift(&dispatch->sent);
    bool is_missing;
    if (command == NULL) {
        status_link_fail(dispatch->link, "a reply that nobody asked for");
    } else if (reply->kind == STATUS_LINK_ERROR) {
        status_dispatch_take_error(dispatch, command, reply->error);
    } else if (!status_dispatch_check(command, reply, &is_missing)) {
        status_command_unshift(&dispatch->sent, command);
        status_link_fail(dispatch->link, "a reply out of place");
    } else if (is_missing) {
        status_dispatch_send_now(dispatch, command, true);
    } else {
        if (command->key_count > 0) {
            status_dispatch_close_breakers(dispatch, command);
        }
        status_answers_reply(&dispatch->answers, command, reply);
        dispatch->replaying -= command->replayed;
        status_command_free(command);
    }
}

/* ---- time ---- */

static void status_dispatch_expire_claims(struct status_dispatch *dispatch, int64_t now_ns) {
    int64_t timeout_ns = dispatch->options.claim_timeout_ms * CLOCK_NS_PER_MS;
    for (struct status_command *command = dispatch->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && !command->told && command->key_count > 0 &&
            now_ns - command->sent_ns >= timeout_ns) {
            bool was_open = dispatch->claims.is_open;
            status_answers_unreached(&dispatch->answers, command);
            status_breaker_missed(&dispatch->claims, command->probes_claims, now_ns);
            if (dispatch->claims.is_open && !was_open) {
                log_write(
                    dispatch->options.log, LOG_LEVEL_WARN, "redis.slow",
                    LOG_FIELDS(log_int("claim_timeout_ms", dispatch->options.claim_timeout_ms),
                               log_text("effect", "claims are not sent for a while")));
            }
        }
    }
}

/* When the oldest command must have been answered. */
static int64_t status_dispatch_answer_deadline_ns(const struct status_dispatch *dispatch) {
    return dispatch->sent.head == NULL
               ? INT64_MAX
               : dispatch->sent.head->sent_ns + dispatch->options.link_timeout_ms * CLOCK_NS_PER_MS;
}

static int64_t status_dispatch_claim_deadline_ns(const struct status_dispatch *dispatch) {
    for (const struct status_command *command = dispatch->sent.head; command != NULL;
         command = command->next) {
        if (command->script == STATUS_SCRIPT_CLAIM && !command->told && command->key_count > 0) {
            return command->sent_ns + dispatch->options.claim_timeout_ms * CLOCK_NS_PER_MS;
        }
    }
    return INT64_MAX;
}

static int64_t status_dispatch_sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t status_dispatch_deadline_ns(const struct status_dispatch *dispatch) {
    int64_t due_ns = status_link_deadline_ns(dispatch->link);
    due_ns = status_dispatch_sooner(due_ns, status_dispatch_answer_deadline_ns(dispatch));
    due_ns = status_dispatch_sooner(due_ns, status_dispatch_claim_deadline_ns(dispatch));
    if (dispatch->backlog.head != NULL && dispatch->was_up) {
        due_ns = status_dispatch_sooner(due_ns, status_breaker_deadline_ns(&dispatch->refusal));
    }
    return due_ns;
}

void status_dispatch_handle(struct status_dispatch *dispatch, short revents) {
    struct status_link_reply reply;
    status_link_handle(dispatch->link, revents);
    status_dispatch_watch_link(dispatch);
    while (status_link_next(dispatch->link, &reply)) {
        status_dispatch_take_reply(dispatch, &reply);
    }
    status_dispatch_watch_link(dispatch);
    status_dispatch_replay(dispatch);
    status_link_write(dispatch->link);
    int64_t now_ns = status_dispatch_now_ns(dispatch);
    if (status_link_is_up(dispatch->link) &&
        now_ns >= status_dispatch_answer_deadline_ns(dispatch)) {
        status_link_fail(dispatch->link, "no answer in time");
    }
    status_dispatch_watch_link(dispatch);
    status_dispatch_expire_claims(dispatch, now_ns);
}

/* ---- open and close ---- */

bool status_dispatch_open(struct status_dispatch *dispatch,
                          const struct status_dispatch_options *options, char *err,
                          size_t err_bytes) {
    struct status_link_options link = {.address = options->address,
                                       .greeting_timeout_ms = options->link_timeout_ms,
                                       .script_count = STATUS_SCRIPT_COUNT,
                                       .clock = options->clock,
                                       .log = options->log};
    for (int script = 0; script < STATUS_SCRIPT_COUNT; script++) {
        link.scripts[script] = status_script_text((enum status_script)script);
    }
    *dispatch = (struct status_dispatch){
        .options = *options, .claims.misses_max = CLAIM_MISSES_MAX, .refusal.misses_max = 1};
    return status_link_open(&link, &dispatch->link, err, err_bytes);
}

void status_dispatch_close(struct status_dispatch *dispatch) {
    status_command_free_list(&dispatch->sent);
    status_command_free_list(&dispatch->backlog);
    status_link_close(dispatch->link);
    dispatch->link = NULL;
    status_answers_deinit(&dispatch->answers);
}
