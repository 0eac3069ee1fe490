#include "consumer/status_connection.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

void status_connection_close(struct status_connection *connection) {
    redisFree(connection->link);
    connection->link = NULL;
}

enum status_client_status status_connection_lost(struct status_connection *connection, char *err,
                                                 size_t err_bytes) {
    const char *said =
        connection->link && connection->link->err ? connection->link->errstr : "no answer";
    if (connection->link && connection->link->err == REDIS_ERR_IO &&
        strstr(said, "temporarily unavailable")) {
        said = "no answer in time";
    }
    snprintf(err, err_bytes, "Redis at %s: %s", connection->place, said);
    status_connection_close(connection);
    return STATUS_CLIENT_UNREACHABLE;
}

/* A server that is just starting or busy will answer later; all else is for the user to mend. */
static bool status_connection_is_passing(const char *said) {
    return strncmp(said, "LOADING", 7) == 0 || strncmp(said, "BUSY", 4) == 0 ||
           strncmp(said, "MASTERDOWN", 10) == 0;
}

/* Answers to what was sent along with the refused command are not waited for: the connection is
 * given up. */
static enum status_client_status status_connection_refused(struct status_connection *connection,
                                                           const char *said, char *err,
                                                           size_t err_bytes) {
    const char *advice = "";
    if (strncmp(said, "MOVED", 5) == 0 || strncmp(said, "CROSSSLOT", 9) == 0) {
        advice = " (Redis Cluster is not supported: use a single server or a replica set)";
    } else if (strncmp(said, "NOAUTH", 6) == 0 || strncmp(said, "WRONGPASS", 9) == 0) {
        advice = " (give redis://user:password@host:port)";
    }
    snprintf(err, err_bytes, "Redis at %s: %s%s", connection->place, said, advice);
    status_connection_close(connection);
    return status_connection_is_passing(said) ? STATUS_CLIENT_UNREACHABLE : STATUS_CLIENT_REFUSED;
}

bool status_connection_send(struct status_connection *connection, int count, const char **words) {
    return redisAppendCommandArgv(connection->link, count, words, NULL) == REDIS_OK;
}

enum status_client_status status_connection_receive(struct status_connection *connection,
                                                    redisReply **reply, char *err,
                                                    size_t err_bytes) {
    void *answer = NULL;
    if (redisGetReply(connection->link, &answer) != REDIS_OK || !answer) {
        return status_connection_lost(connection, err, err_bytes);
    }
    *reply = answer;
    if ((*reply)->type != REDIS_REPLY_ERROR) {
        return STATUS_CLIENT_OK;
    }
    enum status_client_status status =
        status_connection_refused(connection, (*reply)->str, err, err_bytes);
    freeReplyObject(*reply);
    *reply = NULL;
    return status;
}

/* One command whose answer only has to be no error. */
static enum status_client_status status_connection_order(struct status_connection *connection,
                                                         int count, const char **words, char *err,
                                                         size_t err_bytes) {
    redisReply *reply = NULL;
    if (!status_connection_send(connection, count, words)) {
        return status_connection_lost(connection, err, err_bytes);
    }
    enum status_client_status status =
        status_connection_receive(connection, &reply, err, err_bytes);
    if (status == STATUS_CLIENT_OK) {
        freeReplyObject(reply);
    }
    return status;
}

static enum status_client_status status_connection_log_in(struct status_connection *connection,
                                                          char *err, size_t err_bytes) {
    const struct redis_address *address = &connection->address;
    enum status_client_status status = STATUS_CLIENT_OK;
    if (address->password[0]) {
        const char *with_user[] = {"AUTH", address->user, address->password};
        const char *without[] = {"AUTH", address->password};
        status = address->user[0]
                     ? status_connection_order(connection, 3, with_user, err, err_bytes)
                     : status_connection_order(connection, 2, without, err, err_bytes);
    }
    if (status == STATUS_CLIENT_OK && address->database) {
        char number[16];
        snprintf(number, sizeof number, "%d", address->database);
        const char *select[] = {"SELECT", number};
        status = status_connection_order(connection, 2, select, err, err_bytes);
    }
    return status;
}

enum status_client_status status_connection_open(struct status_connection *connection, char *err,
                                                 size_t err_bytes) {
    if (connection->link) {
        return STATUS_CLIENT_OK;
    }
    const struct redis_address *address = &connection->address;
    connection->link =
        address->socket_path[0]
            ? redisConnectUnixWithTimeout(address->socket_path, connection->timeout)
            : redisConnectWithTimeout(address->host, address->port, connection->timeout);
    if (!connection->link || connection->link->err ||
        redisSetTimeout(connection->link, connection->timeout) != REDIS_OK) {
        return status_connection_lost(connection, err, err_bytes);
    }
    return status_connection_log_in(connection, err, err_bytes);
}
