/* A Redis address: where a server is and how to get in, read from one line of configuration.
 *
 * `redis://[user:password@]host[:port][/db]`, `host[:port]`, or `/path/of/a.socket`. User and
 * password may hold %XX escapes; a host may be an IPv6 address in brackets. The caller's memory,
 * any thread. Refuses to know any client library. */
#ifndef SOLFLEET_CONSUMER_REDIS_ADDRESS_H
#define SOLFLEET_CONSUMER_REDIS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define REDIS_ADDRESS_PORT_DEFAULT 6379
#define REDIS_ADDRESS_DATABASE_MAX 65535

struct redis_address {
    char socket_path[108]; /* "" when it is host and port; as long as the system allows */
    char host[256];
    int port;
    int database;
    char user[128];     /* "" = none */
    char password[512]; /* "" = none */
};

/* False with the reason in err; *out is then unspecified. */
bool redis_address_parse(const char *text, struct redis_address *out, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* The address without its secrets, for messages: "redis://host:port/db". Never fails; cut if
 * long. */
void redis_address_print(const struct redis_address *address, char *out, size_t out_bytes);

#endif
