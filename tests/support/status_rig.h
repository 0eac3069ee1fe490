/* A status rig: a status store on a real redis-server, and a connection beside it to look at what
 * the store did.
 *
 * One at a time, one thread. Everything here asserts. Refuses to know the worker. */
#ifndef SOLFLEET_TESTS_SUPPORT_STATUS_RIG_H
#define SOLFLEET_TESTS_SUPPORT_STATUS_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/status_store.h"
#include "tests/support/redis_server.h"

#define STATUS_RIG_WAIT_MS_MAX 10000

struct redisContext;

struct status_rig {
    struct redis_server server;
    struct status_store *store;
    struct redisContext *direct;
};

extern struct status_rig status_rig;

/* For CASE: a server for the whole file, a store and a connection for each case. */
int status_rig_start(void **state);
int status_rig_stop(void **state);
int status_rig_stop_server(void **state);

/* Of worker "w1", incarnation "a", with time-outs that do not get in the way. */
struct status_store_options status_rig_options(void);
/* Closes the store and opens it anew with these; waits until it is up. */
void status_rig_reopen(const struct status_store_options *options);
/* One turn of what the worker's loop does. */
void status_rig_turn(void);
struct status_store_stats status_rig_stats(void);
void status_rig_kill_server(void); /* and waits until the store knows */
void status_rig_restart_server(void);
/* Waits until it is up and the backlog is empty. */
void status_rig_wait_replayed(void);
/* Flushes and waits for so many answers, and sees that there is no further one. */
void status_rig_answers(struct status_store_answer *answers, uint32_t count);

/* Gathers a claim of the record 0:offset:1. */
void status_rig_queue_claim(uint64_t ticket, const char *id, const char *fingerprint,
                            int64_t offset);
struct status_store_answer status_rig_claim(const char *id, const char *fingerprint,
                                            int64_t offset);
/* What a seal and a finish say: `state` and `result`, on topic "results". */
struct status_store_finish status_rig_end(const char *id, const char *fingerprint,
                                          enum status_state state, const char *result);
struct status_store_answer status_rig_seal(const struct status_store_finish *finish);
struct status_store_answer status_rig_finish(const struct status_store_finish *finish);
/* Says that it runs, and waits until the server has heard it. */
void status_rig_advance(const char *id, uint32_t attempt, const char *text);
/* Waits until the server has done all that was asked. */
void status_rig_settle(void);

/* One command of words, `key` among them; asserts that it is no error. */
void status_rig_order(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The field of the hash of that id; expected NULL = absent. */
void status_rig_assert_field(const char *id, const char *field, const char *expected);
void status_rig_assert_claimed(struct status_store_answer answer, enum status_store_claimed claimed,
                               uint32_t attempt);

#endif
