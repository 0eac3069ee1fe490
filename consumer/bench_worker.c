#include "consumer/bench_worker.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "consumer/bench_threads.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "consumer/worker.h"
#include "engine/clock.h"

#define BENCH_WORKER_STEP_MS 1000
#define BENCH_WORKER_JOIN_MS 15000

/* ---- the loop -------------------------------------------------------------------------------- */

static void *bench_worker_loop(void *context) {
    struct bench_worker *worker = context;
    bool is_told = false;
    pthread_setname_np(pthread_self(), BENCH_THREADS_WORKER);
    while (!worker->has_failed && !(is_told && worker_is_drained(worker->worker))) {
        uint64_t woken;
        if (worker->is_draining && !is_told && read(worker->wake_fd, &woken, sizeof woken) > 0) {
            worker_drain(worker->worker);
            is_told = true;
        }
        worker->has_failed = worker_step(worker->worker, BENCH_WORKER_STEP_MS, worker->err,
                                         sizeof worker->err) != WORKER_OK;
        struct worker_stats stats;
        worker_stats(worker->worker, &stats);
        worker->claims_unanswered = stats.store.claims_unanswered;
        worker->is_settled = worker_is_drained(worker->worker);
    }
    worker->has_ended = true;
    return NULL;
}

bool bench_worker_has_failed(const struct bench_worker *worker) {
    return worker->has_ended && !worker->is_draining;
}

bool bench_worker_is_settled(const struct bench_worker *worker) {
    return worker->is_settled;
}

bool bench_worker_drain(struct bench_worker *worker) {
    const uint64_t one = 1;
    struct timespec deadline;
    worker->is_draining = true;
    if (write(worker->wake_fd, &one, sizeof one) != (ssize_t)sizeof one) {
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += worker->config->drain_timeout_ms / 1000 + 1;
    if (pthread_timedjoin_np(worker->thread, NULL, &deadline) != 0) {
        return false;
    }
    worker->is_started = false;
    return !worker->has_failed;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int bench_worker_join(struct bench_worker *worker, char *err, size_t err_bytes) {
    struct worker_options options = {.config = worker->config,
                                     .name = "bench",
                                     .engine = worker->engine,
                                     .wake_fd = worker->wake_fd,
                                     .log = &worker->log};
    if (engine_start(worker->engine, err, err_bytes) != ENGINE_OK) {
        return COMMAND_EXIT_BUG;
    }
    if (worker_open(&options, &worker->worker, err, err_bytes) != WORKER_OK) {
        return COMMAND_EXIT_USAGE;
    }
    if (worker_join(worker->worker, BENCH_WORKER_JOIN_MS, err, err_bytes) != WORKER_OK) {
        return COMMAND_EXIT_UNREACHABLE;
    }
    if (pthread_create(&worker->thread, NULL, bench_worker_loop, worker) != 0) {
        snprintf(err, err_bytes, "cannot start a thread");
        return COMMAND_EXIT_BUG;
    }
    worker->is_started = true;
    return COMMAND_EXIT_OK;
}

int bench_worker_open(struct bench_worker *worker, const struct config *config, char *err,
                      size_t err_bytes) {
    enum log_level level = LOG_LEVEL_WARN;
    memset(worker, 0, sizeof *worker);
    worker->config = config;
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (log_level_parse(config->log_level, &level) && level == LOG_LEVEL_INFO) {
        level = LOG_LEVEL_WARN; /* what is told by default would be told between the figures */
    }
    log_init(&worker->log, 2, level, NULL);
    if (worker->wake_fd < 0) {
        snprintf(err, err_bytes, "no descriptor");
        return COMMAND_EXIT_BUG;
    }
    int code = engine_config_open(config, &worker->log, &worker->engine, err, err_bytes);
    return code ? code : bench_worker_join(worker, err, err_bytes);
}

void bench_worker_close(struct bench_worker *worker) {
    if (worker->is_started && !bench_worker_drain(worker) && worker->is_started) {
        return; /* it hangs: what it uses is left to it, the process is about to end */
    }
    worker_close(worker->worker);
    engine_close(worker->engine);
    if (worker->wake_fd > 0) {
        close(worker->wake_fd);
    }
    memset(worker, 0, sizeof *worker);
}
