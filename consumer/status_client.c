#include "consumer/status_client.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/status_connection.h"

#define STATUS_CLIENT_PIPELINE 128 /* commands sent before their answers are read */
#define STATUS_CLIENT_PREFIX_BYTES_MAX 128
#define STATUS_CLIENT_KEY_BYTES_MAX (STATUS_CLIENT_PREFIX_BYTES_MAX + JOB_ID_BYTES_MAX + 16)

struct status_client {
    char prefix[STATUS_CLIENT_PREFIX_BYTES_MAX];
    struct status_connection commands;
    struct status_connection events; /* closed before subscribing and when broken */
};

enum status_client_status status_client_open(const char *address, const char *prefix,
                                             int64_t timeout_ms, struct status_client **out,
                                             char *err, size_t err_bytes) {
    *out = NULL;
    struct status_client *client = calloc(1, sizeof *client);
    if (!client) {
        snprintf(err, err_bytes, "out of memory");
        return STATUS_CLIENT_UNREACHABLE;
    }
    enum status_client_status status = STATUS_CLIENT_BAD_SETTING;
    if (strlen(prefix) >= sizeof client->prefix) {
        snprintf(err, err_bytes, "the key prefix is longer than %zu bytes",
                 sizeof client->prefix - 1);
    } else if (redis_address_parse(address, &client->commands.address, err, err_bytes)) {
        memcpy(client->prefix, prefix, strlen(prefix) + 1);
        redis_address_print(&client->commands.address, client->commands.place,
                            sizeof client->commands.place);
        client->commands.timeout = (struct timeval){timeout_ms / 1000, timeout_ms % 1000 * 1000};
        client->events = client->commands; /* neither is open yet */
        status = status_connection_open(&client->commands, err, err_bytes);
    }
    if (status != STATUS_CLIENT_OK) {
        status_client_close(client);
        return status;
    }
    *out = client;
    return STATUS_CLIENT_OK;
}

void status_client_close(struct status_client *client) {
    if (client) {
        status_connection_close(&client->commands);
        status_connection_close(&client->events);
        free(client);
    }
}

/* ---- writing `queued` ------------------------------------------------------------------------ */

static bool status_client_send_field(struct status_client *client, const char *id,
                                     const char *field, const char *value) {
    char key[STATUS_CLIENT_KEY_BYTES_MAX];
    bool fits = status_key(key, sizeof key, client->prefix, id);
    assert(fits); /* prefix and id have been checked */
    const char *words[] = {"HSETNX", key, field, value};
    return status_connection_send(&client->commands, 4, words);
}

static bool status_client_send_life(struct status_client *client, const char *id, int64_t ttl_s) {
    char key[STATUS_CLIENT_KEY_BYTES_MAX], seconds[24];
    bool fits = status_key(key, sizeof key, client->prefix, id);
    assert(fits);
    snprintf(seconds, sizeof seconds, "%lld", (long long)ttl_s);
    const char *words[] = {"EXPIRE", key, seconds};
    return status_connection_send(&client->commands, 3, words);
}

/* Reads `count` integer answers; answers[i] may be NULL: then they only have to be no error. */
static enum status_client_status status_client_receive_integers(struct status_client *client,
                                                                size_t count, bool *answers,
                                                                char *err, size_t err_bytes) {
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = NULL;
        enum status_client_status status =
            status_connection_receive(&client->commands, &reply, err, err_bytes);
        if (status != STATUS_CLIENT_OK) {
            return status;
        }
        if (answers) {
            answers[i] = reply->integer == 1;
        }
        freeReplyObject(reply);
    }
    return STATUS_CLIENT_OK;
}

static enum status_client_status status_client_queue_some(struct status_client *client,
                                                          const char *const *ids, size_t count,
                                                          const char *now, int64_t ttl_s,
                                                          bool *created, char *err,
                                                          size_t err_bytes) {
    bool sent = true;
    for (size_t i = 0; i < count; i++) {
        sent &= status_client_send_field(client, ids[i], STATUS_FIELD_STATE,
                                         status_state_name(STATUS_QUEUED));
    }
    if (!sent) {
        return status_connection_lost(&client->commands, err, err_bytes);
    }
    enum status_client_status status =
        status_client_receive_integers(client, count, created, err, err_bytes);
    /* Only a key that we made gets its life from us: others belong to a worker already. */
    size_t orders = 0;
    for (size_t i = 0; status == STATUS_CLIENT_OK && i < count; i++) {
        if (created[i]) {
            sent &= status_client_send_field(client, ids[i], STATUS_FIELD_QUEUED_AT, now) &&
                    status_client_send_life(client, ids[i], ttl_s);
            orders += 2;
        }
    }
    if (status != STATUS_CLIENT_OK || !sent) {
        return sent ? status : status_connection_lost(&client->commands, err, err_bytes);
    }
    return status_client_receive_integers(client, orders, NULL, err, err_bytes);
}

enum status_client_status status_client_queue(struct status_client *client, const char *const *ids,
                                              size_t count, int64_t now_unix_ms, int64_t ttl_s,
                                              bool *created, char *err, size_t err_bytes) {
    char now[24];
    snprintf(now, sizeof now, "%lld", (long long)now_unix_ms);
    for (size_t i = 0; i < count; i += STATUS_CLIENT_PIPELINE) {
        size_t some = count - i < STATUS_CLIENT_PIPELINE ? count - i : STATUS_CLIENT_PIPELINE;
        enum status_client_status status =
            status_connection_open(&client->commands, err, err_bytes);
        if (status == STATUS_CLIENT_OK) {
            status = status_client_queue_some(client, ids + i, some, now, ttl_s, created + i, err,
                                              err_bytes);
        }
        if (status != STATUS_CLIENT_OK) {
            return status;
        }
    }
    return STATUS_CLIENT_OK;
}

/* ---- asking for a cancel --------------------------------------------------------------------- */

/* KEYS: the hash. ARGV: life in seconds, channel, message. What stands in a status outlives the
 * message, and a record that comes again. */
static const char status_client_cancel_script[] =
    "local got = redis.pcall('HGET', KEYS[1], 'state')\n"
    "if type(got) == 'table' then return got end\n"
    "local terminal = {done = 1, failed = 1, expired = 1, cancelled = 1}\n"
    "if got and terminal[got] then return got end\n"
    "redis.call('HSET', KEYS[1], 'cancel_requested', '1')\n"
    "if redis.call('TTL', KEYS[1]) < tonumber(ARGV[1]) then\n"
    "  redis.call('EXPIRE', KEYS[1], ARGV[1])\n"
    "end\n"
    "redis.call('PUBLISH', ARGV[2], ARGV[3])\n"
    "return got or ''\n";

static bool status_client_send_cancel(struct status_client *client, const char *id, int64_t ttl_s) {
    char key[STATUS_CLIENT_KEY_BYTES_MAX], channel[STATUS_CLIENT_KEY_BYTES_MAX];
    char life[24], message[JOB_ID_BYTES_MAX + 8];
    bool fits = status_key(key, sizeof key, client->prefix, id) &&
                status_control_channel(channel, sizeof channel, client->prefix);
    assert(fits);
    snprintf(life, sizeof life, "%lld", (long long)ttl_s);
    snprintf(message, sizeof message, "cancel %s", id);
    const char *words[] = {"EVAL", status_client_cancel_script, "1", key, life, channel, message};
    return status_connection_send(&client->commands, (int)(sizeof words / sizeof words[0]), words);
}

static enum status_client_status status_client_receive_state(struct status_client *client,
                                                             enum status_state *state, char *err,
                                                             size_t err_bytes) {
    redisReply *reply = NULL;
    enum status_client_status status =
        status_connection_receive(&client->commands, &reply, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        return status;
    }
    *state = STATUS_UNKNOWN;
    if (reply->type == REDIS_REPLY_STRING && reply->len > 0 &&
        !status_state_parse(reply->str, reply->len, state)) {
        *state = STATUS_UNKNOWN; /* of a later version */
    }
    freeReplyObject(reply);
    return STATUS_CLIENT_OK;
}

static enum status_client_status status_client_cancel_some(struct status_client *client,
                                                           const char *const *ids, size_t count,
                                                           int64_t ttl_s, enum status_state *states,
                                                           char *err, size_t err_bytes) {
    enum status_client_status status = status_connection_open(&client->commands, err, err_bytes);
    bool sent = true;
    for (size_t i = 0; i < count && status == STATUS_CLIENT_OK; i++) {
        sent &= status_client_send_cancel(client, ids[i], ttl_s);
    }
    if (status == STATUS_CLIENT_OK && !sent) {
        return status_connection_lost(&client->commands, err, err_bytes);
    }
    for (size_t i = 0; i < count && status == STATUS_CLIENT_OK; i++) {
        status = status_client_receive_state(client, &states[i], err, err_bytes);
    }
    return status;
}

enum status_client_status status_client_cancel(struct status_client *client, const char *const *ids,
                                               size_t count, int64_t ttl_s,
                                               enum status_state *states, char *err,
                                               size_t err_bytes) {
    enum status_client_status status = STATUS_CLIENT_OK;
    for (size_t i = 0; i < count && status == STATUS_CLIENT_OK; i += STATUS_CLIENT_PIPELINE) {
        size_t some = count - i < STATUS_CLIENT_PIPELINE ? count - i : STATUS_CLIENT_PIPELINE;
        status =
            status_client_cancel_some(client, ids + i, some, ttl_s, states + i, err, err_bytes);
    }
    return status;
}

/* ---- renewing a failure ---------------------------------------------------------------------- */

/* KEYS: the hash. ARGV: error_code, fingerprint, mark, now, life in seconds, channel. All or
 * nothing in the server: a worker never sees a status that is half renewed. */
static const char status_client_renew_script[] =
    "local got = redis.pcall('HMGET', KEYS[1], 'state', 'error_code', 'fingerprint', 'replayed')\n"
    "if got.err then return 'unknown' end\n"
    "local state, code, fingerprint, mark = got[1], got[2], got[3], got[4]\n"
    "if not state then return 'absent' end\n"
    "local failed = state == 'failed' and code == ARGV[1] and\n"
    "  (not fingerprint or fingerprint == ARGV[2])\n"
    "if not failed and not (state == 'queued' and mark == ARGV[3]) then return state end\n"
    "redis.call('DEL', KEYS[1])\n"
    "redis.call('HSET', KEYS[1], 'state', 'queued', 'queued_at', ARGV[4], 'replayed', ARGV[3])\n"
    "redis.call('EXPIRE', KEYS[1], ARGV[5])\n"
    "redis.call('PUBLISH', ARGV[6], 'queued')\n"
    "return 'renewed'\n";

static bool status_client_send_renewal(struct status_client *client,
                                       const struct status_client_renewal *renewal,
                                       int64_t now_unix_ms, int64_t ttl_s) {
    char key[STATUS_CLIENT_KEY_BYTES_MAX], channel[STATUS_CLIENT_KEY_BYTES_MAX];
    char now[24], life[24];
    bool fits = status_key(key, sizeof key, client->prefix, renewal->id) &&
                status_channel(channel, sizeof channel, client->prefix, renewal->id);
    assert(fits);
    snprintf(now, sizeof now, "%lld", (long long)now_unix_ms);
    snprintf(life, sizeof life, "%lld", (long long)ttl_s);
    const char *words[] = {"EVAL",
                           status_client_renew_script,
                           "1",
                           key,
                           renewal->error_code,
                           renewal->fingerprint,
                           renewal->mark,
                           now,
                           life,
                           channel};
    return status_connection_send(&client->commands, (int)(sizeof words / sizeof words[0]), words);
}

enum status_client_status
status_client_renew(struct status_client *client, const struct status_client_renewal *renewal,
                    int64_t now_unix_ms, int64_t ttl_s, enum status_client_renewed *renewed,
                    enum status_state *state, char *err, size_t err_bytes) {
    redisReply *reply = NULL;
    enum status_client_status status = status_connection_open(&client->commands, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        return status;
    }
    if (!status_client_send_renewal(client, renewal, now_unix_ms, ttl_s)) {
        return status_connection_lost(&client->commands, err, err_bytes);
    }
    status = status_connection_receive(&client->commands, &reply, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        return status;
    }
    const char *said = reply->str ? reply->str : "";
    *renewed = strcmp(said, "renewed") == 0  ? STATUS_CLIENT_RENEWED
               : strcmp(said, "absent") == 0 ? STATUS_CLIENT_ABSENT
                                             : STATUS_CLIENT_HELD;
    if (!status_state_parse(said, strlen(said), state)) {
        *state = STATUS_UNKNOWN;
    }
    freeReplyObject(reply);
    return STATUS_CLIENT_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Turns the answer to HGETALL into a status; false when the hash is no status of ours. */
static bool status_client_decode(const redisReply *reply, const char *id, struct status *out) {
    status_init(out, id);
    if (reply->type != REDIS_REPLY_ARRAY) {
        return false;
    }
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];
        if (!status_set_field(out, name->str, name->len, value->str, value->len)) {
            return false;
        }
    }
    status_hide_sealed(out);
    return true;
}

static enum status_client_status
status_client_receive_statuses(struct status_client *client, const char *const *ids, size_t count,
                               struct status *out, size_t *filled, char *err, size_t err_bytes) {
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = NULL;
        enum status_client_status status =
            status_connection_receive(&client->commands, &reply, err, err_bytes);
        if (status != STATUS_CLIENT_OK) {
            return status;
        }
        bool decoded = status_client_decode(reply, ids[i], &out[i]);
        freeReplyObject(reply);
        *filled += 1;
        if (!decoded) {
            snprintf(err, err_bytes, "Redis at %s: the key of %s is no status of solfleet",
                     client->commands.place, ids[i]);
            return STATUS_CLIENT_REFUSED;
        }
    }
    return STATUS_CLIENT_OK;
}

static enum status_client_status status_client_read_some(struct status_client *client,
                                                         const char *const *ids, size_t count,
                                                         struct status *out, size_t *filled,
                                                         char *err, size_t err_bytes) {
    enum status_client_status status = status_connection_open(&client->commands, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        return status;
    }
    bool sent = true;
    for (size_t i = 0; i < count; i++) {
        char key[STATUS_CLIENT_KEY_BYTES_MAX];
        bool fits = status_key(key, sizeof key, client->prefix, ids[i]);
        assert(fits);
        const char *words[] = {"HGETALL", key};
        sent &= status_connection_send(&client->commands, 2, words);
    }
    if (!sent) {
        return status_connection_lost(&client->commands, err, err_bytes);
    }
    status = status_client_receive_statuses(client, ids, count, out, filled, err, err_bytes);
    if (status != STATUS_CLIENT_OK) {
        /* A hash may have been no status, and more answers are under way. */
        status_connection_close(&client->commands);
    }
    return status;
}

enum status_client_status status_client_read(struct status_client *client, const char *const *ids,
                                             size_t count, struct status *out, char *err,
                                             size_t err_bytes) {
    size_t filled = 0;
    enum status_client_status status = STATUS_CLIENT_OK;
    for (size_t i = 0; status == STATUS_CLIENT_OK && i < count; i += STATUS_CLIENT_PIPELINE) {
        size_t some = count - i < STATUS_CLIENT_PIPELINE ? count - i : STATUS_CLIENT_PIPELINE;
        status = status_client_read_some(client, ids + i, some, out + i, &filled, err, err_bytes);
    }
    for (size_t i = 0; status != STATUS_CLIENT_OK && i < filled; i++) {
        status_deinit(&out[i]);
    }
    return status;
}

/* ---- events ---------------------------------------------------------------------------------- */

static enum status_client_status status_client_subscribe_some(struct status_client *client,
                                                              const char *const *ids, size_t count,
                                                              char *err, size_t err_bytes) {
    bool sent = true;
    for (size_t i = 0; i < count; i++) {
        char channel[STATUS_CLIENT_KEY_BYTES_MAX];
        bool fits = status_channel(channel, sizeof channel, client->prefix, ids[i]);
        assert(fits);
        const char *words[] = {"SUBSCRIBE", channel};
        sent &= status_connection_send(&client->events, 2, words);
    }
    if (!sent) {
        return status_connection_lost(&client->events, err, err_bytes);
    }
    /* Events of earlier ids may come between the confirmations. They are dropped here: whoever
     * subscribes reads every status afterwards. */
    for (size_t confirmed = 0; confirmed < count;) {
        redisReply *reply = NULL;
        enum status_client_status status =
            status_connection_receive(&client->events, &reply, err, err_bytes);
        if (status != STATUS_CLIENT_OK) {
            return status;
        }
        confirmed += reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
                     strcmp(reply->element[0]->str, "subscribe") == 0;
        freeReplyObject(reply);
    }
    return STATUS_CLIENT_OK;
}

enum status_client_status status_client_subscribe(struct status_client *client,
                                                  const char *const *ids, size_t count, char *err,
                                                  size_t err_bytes) {
    enum status_client_status status = status_connection_open(&client->events, err, err_bytes);
    for (size_t i = 0; status == STATUS_CLIENT_OK && i < count; i += STATUS_CLIENT_PIPELINE) {
        size_t some = count - i < STATUS_CLIENT_PIPELINE ? count - i : STATUS_CLIENT_PIPELINE;
        status = status_client_subscribe_some(client, ids + i, some, err, err_bytes);
    }
    return status;
}

int status_client_event_fd(const struct status_client *client) {
    return client->events.link ? client->events.link->fd : -1;
}

/* The id in the channel's name of a "message" event; false when it is none of ours. */
static bool status_client_event_id(const struct status_client *client, const redisReply *reply,
                                   char id[JOB_ID_BYTES_MAX + 1]) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        strcmp(reply->element[0]->str, "message") != 0) {
        return false;
    }
    /* The channel of no id, "solfleet:events:{}", is what stands around one. */
    char around[STATUS_CLIENT_KEY_BYTES_MAX];
    bool fits = status_channel(around, sizeof around, client->prefix, "");
    assert(fits);
    size_t head_bytes = strlen(around) - 1;
    const char *channel = reply->element[1]->str;
    size_t channel_bytes = strlen(channel);
    if (channel_bytes <= head_bytes || channel_bytes - head_bytes - 1 > JOB_ID_BYTES_MAX ||
        memcmp(channel, around, head_bytes) != 0) {
        return false;
    }
    size_t id_bytes = channel_bytes - head_bytes - 1;
    memcpy(id, channel + head_bytes, id_bytes);
    id[id_bytes] = '\0';
    return true;
}

/* Reads what has arrived into hiredis' buffer, without waiting. */
static enum status_client_status status_client_fill(struct status_client *client, char *err,
                                                    size_t err_bytes) {
    struct pollfd ready = {.fd = client->events.link->fd, .events = POLLIN};
    if (poll(&ready, 1, 0) <= 0) {
        return STATUS_CLIENT_NONE;
    }
    return redisBufferRead(client->events.link) == REDIS_OK
               ? STATUS_CLIENT_OK
               : status_connection_lost(&client->events, err, err_bytes);
}

enum status_client_status status_client_take_event(struct status_client *client,
                                                   char id[JOB_ID_BYTES_MAX + 1], char *err,
                                                   size_t err_bytes) {
    while (client->events.link) {
        void *answer = NULL;
        if (redisGetReplyFromReader(client->events.link, &answer) != REDIS_OK) {
            return status_connection_lost(&client->events, err, err_bytes);
        }
        if (!answer) {
            enum status_client_status status = status_client_fill(client, err, err_bytes);
            if (status != STATUS_CLIENT_OK) {
                return status;
            }
            continue;
        }
        bool ours = status_client_event_id(client, answer, id);
        freeReplyObject(answer);
        if (ours) {
            return STATUS_CLIENT_OK;
        }
    }
    snprintf(err, err_bytes, "Redis at %s: not subscribed", client->commands.place);
    return STATUS_CLIENT_UNREACHABLE;
}
