/* A connection of a status client to Redis: log-in, commands, answers, and what its errors mean.
 *
 * Private to status_client.c, which has two of them. Blocking, each wait bounded by `timeout`. One
 * thread. Owns `link`: an error closes it, and the next open opens it anew. */
#ifndef SOLFLEET_CONSUMER_STATUS_CONNECTION_H
#define SOLFLEET_CONSUMER_STATUS_CONNECTION_H

#include <sys/time.h>

#include "consumer/redis_address.h"
#include "consumer/status_client.h"

struct redisContext;
struct redisReply;

struct status_connection {
    struct redis_address address;
    char place[320]; /* the address as messages name it */
    struct timeval timeout;
    struct redisContext *link; /* NULL when broken or not yet open */
};

/* Makes sure that it is open and logged in. */
enum status_client_status status_connection_open(struct status_connection *connection, char *err,
                                                 size_t err_bytes)
    __attribute__((warn_unused_result));
void status_connection_close(struct status_connection *connection); /* accepts a closed one */

/* Puts a command into the buffer. False: out of memory, `lost` is due. */
bool status_connection_send(struct status_connection *connection, int count, const char **words)
    __attribute__((warn_unused_result));

/* Reads one answer; the caller frees *reply when OK. Otherwise the connection is closed. */
enum status_client_status status_connection_receive(struct status_connection *connection,
                                                    struct redisReply **reply, char *err,
                                                    size_t err_bytes)
    __attribute__((warn_unused_result));

/* Closes it, with its error in err: UNREACHABLE. */
enum status_client_status status_connection_lost(struct status_connection *connection, char *err,
                                                 size_t err_bytes);

#endif
