/* A status link: one non-blocking connection to a Redis server that mends itself.
 *
 * It connects, logs in, loads the scripts and is up; when it fails it waits, longer each time, and
 * connects again. Bytes appended while it is up are sent in order; the replies come in that order.
 * What was sent and not answered when it goes down is for the caller to remember.
 *
 * One thread; nothing blocks but the look-up of a host name. A reply is borrowed until the next
 * call. Refuses to know keys, jobs and what the scripts do. */
#ifndef SOLFLEET_CONSUMER_STATUS_LINK_H
#define SOLFLEET_CONSUMER_STATUS_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_LINK_SCRIPTS_MAX 8

struct status_link;
struct clock;
struct log;

struct status_link_options {
    const char *address; /* as redis_address_parse takes it */
    int64_t greeting_timeout_ms;
    const char *scripts[STATUS_LINK_SCRIPTS_MAX]; /* static texts */
    uint32_t script_count;
    struct clock *clock; /* borrowed; NULL = the real one */
    struct log *log;     /* borrowed; NULL = silent */
};

enum status_link_reply_kind { STATUS_LINK_LIST, STATUS_LINK_ERROR, STATUS_LINK_OTHER };

/* An element of a LIST is an integer, or a list of integers, texts and nils itself. */
struct status_link_reply {
    enum status_link_reply_kind kind;
    size_t count;      /* LIST */
    const void *list;  /* LIST: for the two calls below */
    const char *error; /* ERROR */
};

/* Item `at` of element `element`, which as an integer is its own item 0. False when there is none,
 * or it is something else. */
bool status_link_int(const struct status_link_reply *reply, size_t element, size_t at,
                     int64_t *value);
/* NULL likewise; a NUL stands behind it, none is promised to be within. */
const char *status_link_text(const struct status_link_reply *reply, size_t element, size_t at,
                             size_t *size);

/* False with the reason when the address is malformed; an unreachable server is no failure. */
bool status_link_open(const struct status_link_options *options, struct status_link **out,
                      char *err, size_t err_bytes) __attribute__((warn_unused_result));

bool status_link_is_up(const struct status_link *link);
uint64_t status_link_count(const struct status_link *link); /* times it came up */

/* What poll(2) is to watch; fd -1 while there is no connection. */
struct pollfd status_link_pollfd(const struct status_link *link);
/* When status_link_handle is due at the latest (monotonic ns); INT64_MAX = no time. */
int64_t status_link_deadline_ns(const struct status_link *link);
/* Connects, greets, reads and writes as far as that goes without waiting. */
void status_link_handle(struct status_link *link, short revents);

/* Only while up. */
void status_link_append(struct status_link *link, const char *bytes, size_t size);
void status_link_write(struct status_link *link);
/* The server's maxmemory-policy, asked for at each connection; "" = it does not say. */
const char *status_link_eviction(const struct status_link *link);
/* The digest that EVALSHA takes; only once it has been up. */
const char *status_link_sha1(const struct status_link *link, uint32_t script);

/* The next reply; false when there is none now (or no link). */
bool status_link_next(struct status_link *link, struct status_link_reply *reply);

/* Takes the link down, to come up again after a pause: for a reply that cannot be, or none. */
void status_link_fail(struct status_link *link, const char *why);

/* Accepts NULL. */
void status_link_close(struct status_link *link);

#endif
