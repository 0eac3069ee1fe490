/* A repair: the results topic read from a moment on, and each record's terminal status put where
 * Redis has none.
 *
 * What Redis lost (it restarted empty, or its backlog was dropped) stands on the results topic and
 * on the reply topics. The first terminal status wins, so a repair may run at any time, beside
 * workers, and again. It is worked in steps that never wait, a slice at a time, by a command or by
 * a worker beside its jobs; with Redis away it stands still. One thread, besides librdkafka's. Owns
 * its readers and a connection to Redis of its own. Refuses to know who steps it. */
#ifndef SOLFLEET_CONSUMER_REPAIR_H
#define SOLFLEET_CONSUMER_REPAIR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/kafka_client.h"

/* In one step: so many records, and not much longer than so. */
#define REPAIR_STEP_RECORDS_MAX 128
#define REPAIR_STEP_MS_MAX 2
#define REPAIR_UNANSWERED_MAX 1024 /* records whose statuses Redis has not answered for */

struct repair;
struct config;
struct clock;
struct log;

struct repair_options {
    const struct config *config; /* borrowed, as the next two */
    struct clock *clock;         /* NULL = the real one */
    struct log *log;             /* NULL = silent */
    const char *worker;          /* as Redis is told who asks */
    int64_t since_unix_ms;
    int64_t timeout_ms; /* of a question to the brokers, */
    bool is_patient;    /* and of their absence later, unless it is waited for without an end */
};

struct repair_stats {
    uint64_t read;       /* records */
    uint64_t applied;    /* statuses that were missing */
    uint64_t there;      /* ids that had their end, or are at work again */
    uint64_t unreadable; /* no results */
    uint64_t unanswered; /* Redis went away meanwhile: kept, and sent when it is back */
    bool redis_is_up;
};

/* Asks the brokers where to begin; blocks up to timeout_ms a question. BAD_SETTING may also mean
 * Redis: its address, or the prefix. */
enum kafka_client_status repair_open(const struct repair_options *options, struct repair **out,
                                     char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Does a slice. NONE: there is more to do; END: all is done; otherwise err says what is the matter,
 * and it makes no sense to go on. */
enum kafka_client_status repair_step(struct repair *repair, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* What poll(2) is to watch between two steps, for no longer than repair_wait_ms. */
struct pollfd repair_pollfd(const struct repair *repair);
int repair_wait_ms(const struct repair *repair);

void repair_stats(const struct repair *repair, struct repair_stats *out);

void repair_close(struct repair *repair); /* accepts NULL */

#endif
