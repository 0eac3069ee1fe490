#include "consumer/status_link.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "consumer/redis_address.h"
#include "consumer/status_command.h"
#include "consumer/status_refusal.h"
#include "engine/clock.h"
#include "engine/log.h"

#define BACKOFF_MS_MIN 50
#define BACKOFF_MS_MAX 2000
#define SHA1_HEX_BYTES 41

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_UP };

struct status_link {
    struct status_link_options options;
    struct redis_address address;
    char address_text[512];
    redisContext *context; /* NULL when down */
    redisReply *reply;     /* lent to the caller */
    enum link_state state;
    bool wants_write;
    int64_t state_since_ns, reconnect_ns, backoff_ms;
    uint32_t greetings_awaited; /* replies; the last are the memory's state and all digests */
    char eviction[32];
    char sha1[STATUS_LINK_SCRIPTS_MAX][SHA1_HEX_BYTES];
    uint64_t count;
    char last_error[256]; /* so that an outage is logged once, not at every attempt */
};

bool status_link_is_up(const struct status_link *link) {
    return link->state == LINK_UP;
}

uint64_t status_link_count(const struct status_link *link) {
    return link->count;
}

const char *status_link_sha1(const struct status_link *link, uint32_t script) {
    return link->sha1[script];
}

const char *status_link_eviction(const struct status_link *link) {
    return link->eviction;
}

static void status_link_set_state(struct status_link *link, enum link_state state) {
    link->state = state;
    link->state_since_ns = clock_monotonic_ns(link->options.clock);
}

static void status_link_forget_reply(struct status_link *link) {
    if (link->reply != NULL) {
        freeReplyObject(link->reply);
        link->reply = NULL;
    }
}

void status_link_fail(struct status_link *link, const char *why) {
    if (strcmp(link->last_error, why) != 0) {
        snprintf(link->last_error, sizeof link->last_error, "%s", why);
        log_write(link->options.log, LOG_LEVEL_WARN, "redis.away",
                  LOG_FIELDS(log_text("address", link->address_text), log_text("error", why),
                             log_text("effect", "serving on without statuses; trying again")));
    }
    status_link_forget_reply(link);
    if (link->context != NULL) {
        redisFree(link->context);
        link->context = NULL;
    }
    status_link_set_state(link, LINK_DOWN);
    link->wants_write = false;
    link->reconnect_ns = link->state_since_ns + link->backoff_ms * CLOCK_NS_PER_MS;
    int64_t next_ms = 2 * link->backoff_ms;
    link->backoff_ms = next_ms < BACKOFF_MS_MAX ? next_ms : BACKOFF_MS_MAX;
}

static void status_link_fail_by_context(struct status_link *link) {
    char why[sizeof link->context->errstr];
    snprintf(why, sizeof why, "%s", link->context->errstr);
    status_link_fail(link, why);
}

/* ---- out ---- */

void status_link_append(struct status_link *link, const char *bytes, size_t size) {
    int appended = redisAppendFormattedCommand(link->context, bytes, size);
    assert(appended == REDIS_OK); /* fails only without memory */
    (void)appended;
    link->wants_write = true;
}

void status_link_write(struct status_link *link) {
    int done = 0;
    if (link->context == NULL || !link->wants_write || link->state == LINK_CONNECTING) {
        return;
    }
    if (redisBufferWrite(link->context, &done) != REDIS_OK) {
        status_link_fail_by_context(link);
    } else {
        link->wants_write = !done;
    }
}

static void status_link_greet(struct status_link *link, const char *const *words, uint32_t count) {
    struct status_command_bytes bytes = {0};
    status_command_words(&bytes, words, count);
    status_link_append(link, bytes.data, bytes.size);
    free(bytes.data);
    link->greetings_awaited++;
}

/* The socket is connected: log in and load the scripts. */
static void status_link_begin_greeting(struct status_link *link) {
    const struct redis_address *address = &link->address;
    status_link_set_state(link, LINK_GREETING);
    link->greetings_awaited = 0;
    if (address->password[0] != '\0') {
        const char *words[] = {"AUTH", address->user, address->password};
        if (address->user[0] != '\0') {
            status_link_greet(link, words, 3);
        } else {
            words[1] = address->password;
            status_link_greet(link, words, 2);
        }
    }
    if (address->database != 0) {
        char database[16];
        snprintf(database, sizeof database, "%d", address->database);
        status_link_greet(link, (const char *[]){"SELECT", database}, 2);
    }
    status_link_greet(link, (const char *[]){"INFO", "memory"}, 2);
    for (uint32_t i = 0; i < link->options.script_count; i++) {
        status_link_greet(link, (const char *[]){"SCRIPT", "LOAD", link->options.scripts[i]}, 3);
    }
    status_link_write(link);
}

/* ---- connecting ---- */

static void status_link_connect(struct status_link *link) {
    const struct redis_address *address = &link->address;
    link->context = address->socket_path[0] != '\0'
                        ? redisConnectUnixNonBlock(address->socket_path)
                        : redisConnectNonBlock(address->host, address->port);
    if (link->context == NULL) {
        status_link_fail(link, "out of memory");
    } else if (link->context->err != 0) {
        status_link_fail_by_context(link);
    } else {
        status_link_set_state(link, LINK_CONNECTING);
        link->wants_write = true;
    }
}

static void status_link_finish_connecting(struct status_link *link) {
    int error = 0;
    socklen_t error_bytes = sizeof error;
    getsockopt(link->context->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error != 0) {
        status_link_fail(link, strerror(error));
    } else {
        status_link_begin_greeting(link);
    }
}

/* The policy stands on a line of its own among others. */
static void status_link_take_memory(struct status_link *link, const redisReply *reply) {
    static const char name[] = "maxmemory_policy:";
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    link->eviction[0] = '\0';
    if (at != NULL) {
        at += sizeof name - 1;
        snprintf(link->eviction, sizeof link->eviction, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
}

static bool status_link_take_digest(struct status_link *link, const redisReply *reply) {
    uint32_t script = link->options.script_count - link->greetings_awaited;
    if (reply->type != REDIS_REPLY_STRING || reply->len != SHA1_HEX_BYTES - 1) {
        status_link_fail(link, "SCRIPT LOAD gave no digest");
        return false;
    }
    memcpy(link->sha1[script], reply->str, SHA1_HEX_BYTES);
    return true;
}

static void status_link_refuse_greeting(struct status_link *link, const char *error) {
    char why[sizeof link->last_error];
    const char *advice = status_refusal_of(error).advice;
    snprintf(why, sizeof why, advice[0] != '\0' ? "%.120s (%s)" : "%.200s", error, advice);
    status_link_fail(link, why);
}

static void status_link_take_greeting(struct status_link *link, const redisReply *reply) {
    if (link->greetings_awaited == link->options.script_count + 1) {
        status_link_take_memory(link, reply); /* an error: managed servers may keep it to them */
    } else if (reply->type == REDIS_REPLY_ERROR) {
        status_link_refuse_greeting(link, reply->str);
        return;
    } else if (link->greetings_awaited <= link->options.script_count &&
               !status_link_take_digest(link, reply)) {
        return;
    }
    if (--link->greetings_awaited == 0) {
        status_link_set_state(link, LINK_UP);
        link->count++;
        link->last_error[0] = '\0';
        log_write(link->options.log, LOG_LEVEL_INFO, "redis.up",
                  LOG_FIELDS(log_text("address", link->address_text)));
    }
}

/* ---- in ---- */

/* The next whole reply in the reader; NULL when there is none, or the link has failed. */
static redisReply *status_link_read_reply(struct status_link *link) {
    void *reply = NULL;
    if (link->context != NULL && redisGetReplyFromReader(link->context, &reply) != REDIS_OK) {
        status_link_fail_by_context(link);
        return NULL;
    }
    return reply;
}

static void status_link_read(struct status_link *link) {
    if (redisBufferRead(link->context) != REDIS_OK) {
        status_link_fail_by_context(link);
        return;
    }
    while (link->state == LINK_GREETING) {
        redisReply *reply = status_link_read_reply(link);
        if (reply == NULL) {
            return;
        }
        status_link_take_greeting(link, reply);
        freeReplyObject(reply);
    }
}

static const redisReply *status_link_item(const struct status_link_reply *reply, size_t element,
                                          size_t at) {
    const redisReply *list = reply->list;
    if (reply->kind != STATUS_LINK_LIST || element >= list->elements) {
        return NULL;
    }
    const redisReply *item = list->element[element];
    if (item->type != REDIS_REPLY_ARRAY) {
        return at == 0 ? item : NULL;
    }
    return at < item->elements ? item->element[at] : NULL;
}

bool status_link_int(const struct status_link_reply *reply, size_t element, size_t at,
                     int64_t *value) {
    const redisReply *item = status_link_item(reply, element, at);
    if (item == NULL || item->type != REDIS_REPLY_INTEGER) {
        return false;
    }
    *value = item->integer;
    return true;
}

const char *status_link_text(const struct status_link_reply *reply, size_t element, size_t at,
                             size_t *size) {
    const redisReply *item = status_link_item(reply, element, at);
    if (item == NULL || item->type != REDIS_REPLY_STRING) {
        return NULL;
    }
    *size = (size_t)item->len;
    return item->str;
}

bool status_link_next(struct status_link *link, struct status_link_reply *reply) {
    status_link_forget_reply(link);
    if (link->state != LINK_UP) {
        return false;
    }
    link->reply = status_link_read_reply(link);
    if (link->reply == NULL) {
        return false;
    }
    *reply = (struct status_link_reply){.kind = STATUS_LINK_OTHER};
    if (link->reply->type == REDIS_REPLY_ERROR) {
        reply->kind = STATUS_LINK_ERROR;
        reply->error = link->reply->str;
    } else if (link->reply->type == REDIS_REPLY_ARRAY) {
        reply->kind = STATUS_LINK_LIST;
        reply->list = link->reply;
        reply->count = link->reply->elements;
        link->backoff_ms = BACKOFF_MS_MIN; /* a greeting alone proves little */
    }
    return true;
}

/* ---- time ---- */

int64_t status_link_deadline_ns(const struct status_link *link) {
    switch (link->state) {
    case LINK_DOWN: return link->reconnect_ns;
    case LINK_CONNECTING:
    case LINK_GREETING:
        return link->state_since_ns + link->options.greeting_timeout_ms * CLOCK_NS_PER_MS;
    case LINK_UP: break;
    }
    return INT64_MAX;
}

struct pollfd status_link_pollfd(const struct status_link *link) {
    short events = link->state == LINK_CONNECTING ? POLLOUT
                   : link->wants_write            ? POLLIN | POLLOUT
                                                  : POLLIN;
    return (struct pollfd){.fd = link->context != NULL ? link->context->fd : -1, .events = events};
}

void status_link_handle(struct status_link *link, short revents) {
    if (link->state == LINK_CONNECTING && revents != 0) {
        status_link_finish_connecting(link);
    } else if (link->context != NULL && (revents & (POLLIN | POLLERR | POLLHUP)) != 0) {
        status_link_read(link);
    }
    status_link_write(link);
    if (clock_monotonic_ns(link->options.clock) < status_link_deadline_ns(link)) {
        return;
    }
    if (link->state == LINK_DOWN) {
        status_link_connect(link);
    } else {
        status_link_fail(link, "no connection in time");
    }
}

/* ---- open and close ---- */

bool status_link_open(const struct status_link_options *options, struct status_link **out,
                      char *err, size_t err_bytes) {
    struct redis_address address;
    if (!redis_address_parse(options->address, &address, err, err_bytes)) {
        return false;
    }
    struct status_link *link = calloc(1, sizeof *link);
    assert(link != NULL && options->script_count <= STATUS_LINK_SCRIPTS_MAX);
    link->options = *options;
    link->address = address;
    link->backoff_ms = BACKOFF_MS_MIN;
    redis_address_print(&address, link->address_text, sizeof link->address_text);
    status_link_connect(link);
    *out = link;
    return true;
}

void status_link_close(struct status_link *link) {
    if (link == NULL) {
        return;
    }
    status_link_forget_reply(link);
    if (link->context != NULL) {
        redisFree(link->context);
    }
    free(link);
}
