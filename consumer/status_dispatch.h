/* The status dispatch: commands on their way to a Redis server and back, over a link that may fall.
 *
 * A command that is handed over is sent if the server is there and willing; what must not be lost
 * (finishes, releases) waits in a bounded backlog for one that is, and is sent again, in order,
 * when it is back. The tickets of each command are told once what came of it (status_answers),
 * those of a claim perhaps once more, late.
 *
 * One thread. Owns the commands it is given, the link and the answers. Refuses to know how commands
 * come about. */
#ifndef SOLFLEET_CONSUMER_STATUS_DISPATCH_H
#define SOLFLEET_CONSUMER_STATUS_DISPATCH_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "consumer/status_answers.h"
#include "consumer/status_breaker.h"
#include "consumer/status_command.h"
#include "consumer/status_link.h"

struct status_dispatch_options {
    const char *address;
    int64_t claim_timeout_ms, link_timeout_ms;
    uint32_t backlog_max;                          /* keys */
    const char *shared[STATUS_SCRIPT_SHARED_ARGS]; /* borrowed until close */
    struct clock *clock;
    struct log *log;
};

struct status_dispatch {
    struct status_dispatch_options options;
    struct status_link *link;
    bool was_up;                        /* as of the last look */
    struct status_command_list sent;    /* in the order of the server's answers */
    struct status_command_list backlog; /* in the order in which it was given */
    uint32_t replaying;                 /* commands of the backlog among `sent` */
    struct status_breaker claims, refusal;
    struct status_answers answers;
    char eviction[32]; /* the server's maxmemory-policy, as said last; "" = unknown */
    uint64_t commands_total, refused_total, dropped_total;
};

/* False with the reason when the address is malformed. */
bool status_dispatch_open(struct status_dispatch *dispatch,
                          const struct status_dispatch_options *options, char *err,
                          size_t err_bytes) __attribute__((warn_unused_result));
void status_dispatch_close(struct status_dispatch *dispatch); /* accepts a zeroed one */

/* Takes the command. */
void status_dispatch_send(struct status_dispatch *dispatch, struct status_command *command);
/* Writes what was sent, as far as that goes without waiting. */
void status_dispatch_write(struct status_dispatch *dispatch);
/* Calls of this script whose answers are waited for. */
uint32_t status_dispatch_owed(const struct status_dispatch *dispatch, enum status_script script);
/* Keys that the server has not acknowledged, of commands that it was away for. */
uint32_t status_dispatch_backlog_count(const struct status_dispatch *dispatch);
/* Connected, and the server does what it is told. */
bool status_dispatch_is_up(const struct status_dispatch *dispatch);

/* As status_store has them. */
int64_t status_dispatch_deadline_ns(const struct status_dispatch *dispatch);
void status_dispatch_handle(struct status_dispatch *dispatch, short revents);

#endif
