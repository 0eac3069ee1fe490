/* The worker: the loop that carries jobs from Kafka through the engine and back, in the order in
 * which a job lives.
 *
 * One thread; the engine has its own. A job is settled, and its offset may be committed, only when
 * the broker has acknowledged its result and its terminal status is written, or kept for a Redis
 * that is away. A record that is no job goes to the dead-letter topic; it never harms another.
 * Owns its Kafka and Redis connections and what is in flight; borrows the engine and the rest.
 * Refuses to know signals, model files and how the process was started. */
#ifndef SOLFLEET_CONSUMER_WORKER_H
#define SOLFLEET_CONSUMER_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/kafka_source.h"
#include "consumer/status_store.h"

struct worker;
struct config;
struct engine;
struct clock;
struct log;

enum worker_status {
    WORKER_OK = 0,
    WORKER_BAD_SETTING, /* err says which: correct it */
    WORKER_NOT_YET,     /* a topic or the broker is missing: err says what to do; ask again */
    WORKER_FAILED       /* err says why: drain, if that can be, close and exit */
};

struct worker_options {
    const struct config *config;
    const char *name;      /* in statuses and results */
    struct engine *engine; /* started */
    int wake_fd;           /* one more descriptor that ends a wait; -1 = none */
    struct clock *clock;   /* NULL = the real one */
    struct log *log;       /* NULL = silent */
};

struct worker_stats {
    uint64_t done, failed, expired, cancelled; /* results acknowledged, by status */
    uint64_t dead_letters, conflicts, duplicates;
    uint64_t joined;   /* records whose job another ticket here answers */
    uint64_t adopted;  /* outcomes that stood sealed before ours */
    uint64_t poisoned; /* jobs that had killed too many workers */
    uint64_t leases_lost;
    uint64_t from_the_future;     /* records dated more than max_clock_skew_ms ahead */
    uint64_t given_back;          /* jobs left for others to do */
    uint64_t given_back_in_drain; /* of those, since worker_drain */
    uint64_t engine_failures;     /* jobs that ended with engine_failed */
    uint32_t parked;              /* that another worker has, now */
    uint32_t in_engine;
    bool is_alone;      /* the job in the engine is a suspect */
    uint32_t in_flight; /* received, not settled */
    bool is_ready;
    bool is_full; /* takes nothing more for now */
    struct kafka_source_stats source;
    struct status_store_stats store;
};

enum worker_status worker_open(const struct worker_options *options, struct worker **out, char *err,
                               size_t err_bytes) __attribute__((warn_unused_result));

/* Joins the group, once the topics are there; blocks up to timeout_ms for each answer. */
enum worker_status worker_join(struct worker *worker, int timeout_ms, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Waits up to max_wait_ms for something to do, and does it. */
enum worker_status worker_step(struct worker *worker, int max_wait_ms, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* From now on nothing is received. Leaves the group, gives back what has not begun to run, and lets
 * the rest run for drain_timeout_ms; then that is given back, too. Without Redis it runs first, and
 * the group is left after. When the engine has failed nothing is let run. */
void worker_drain(struct worker *worker);
/* Nothing is in flight, everything settled is committed, every status is written, where Redis is
 * there, and, after worker_drain, the group is left. */
bool worker_is_drained(const struct worker *worker);

void worker_stats(const struct worker *worker, struct worker_stats *out);

/* Leaves the group. What is in flight is given up and comes again. Accepts NULL. */
void worker_close(struct worker *worker);

#endif
