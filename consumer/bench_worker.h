/* A worker under measurement: engine and worker as the worker command runs them, the loop on a
 * thread of its own in this process, so that the engine's counters can be read while it runs.
 *
 * One thread calls everything here. Owns engine, worker and thread. Refuses to know the load. */
#ifndef SOLFLEET_CONSUMER_BENCH_WORKER_H
#define SOLFLEET_CONSUMER_BENCH_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/log.h"

struct config;
struct worker;

struct bench_worker {
    const struct config *config; /* borrowed until close */
    struct log log;
    struct engine *engine;
    struct worker *worker; /* the thread's while it runs */
    int wake_fd;
    pthread_t thread;
    bool is_started;
    _Atomic bool is_settled; /* as of the loop's last step: nothing is left to do or to commit */
    _Atomic uint64_t claims_unanswered; /* as of then: jobs that went on without Redis */
    _Atomic bool is_draining;           /* asked for by the caller */
    _Atomic bool has_ended;             /* set by the thread, after what follows */
    bool has_failed;
    char err[512];
};

/* Opens model and connections and joins the group. Returns a command_exit; err says what went
 * wrong. Whatever it returns, close is due. */
int bench_worker_open(struct bench_worker *worker, const struct config *config, char *err,
                      size_t err_bytes);

/* True once the loop has ended though nobody asked for it; worker->err says why. */
bool bench_worker_has_failed(const struct bench_worker *worker);

/* True when everything received is settled and committed. */
bool bench_worker_is_settled(const struct bench_worker *worker);

/* Drains as after SIGTERM. False when it failed, or took longer than drain_timeout_ms. */
bool bench_worker_drain(struct bench_worker *worker);

void bench_worker_close(struct bench_worker *worker); /* accepts zeroed */

#endif
