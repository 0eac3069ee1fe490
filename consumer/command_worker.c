/* `solfleet worker`: from the start to the drain. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/engine_config.h"
#include "consumer/gpu_monitor.h"
#include "consumer/shutdown.h"
#include "consumer/worker.h"
#include "consumer/worker_report.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/log.h"

#define STEP_MS_MAX 1000
#define JOIN_MS 1000 /* how long one question to the broker may take at start */
#define JOIN_PAUSE_MS 500
#define GIVE_BACK_MS_MAX 2000 /* for what the drain had no time for to be given back */
/* From the signal on a shutdown takes drain_timeout_ms and so long at most: for giving back, for
 * leaving the group, for the engine's step under way, and for closing the clients. */
#define SHUTDOWN_SLACK_SECONDS 10

struct command_worker {
    struct config config;
    char name[128];
    struct log log;
    struct engine *engine;
    struct worker *worker;
    struct gpu_monitor *gpu; /* NULL: no card, or none that tells */
    bool said_ready;
};

static void command_worker_make_name(struct command_worker *run) {
    char host[80] = "worker";
    if (run->config.worker_name[0] != '\0') {
        snprintf(run->name, sizeof run->name, "%s", run->config.worker_name);
        return;
    }
    gethostname(host, sizeof host - 1);
    snprintf(run->name, sizeof run->name, "%s-%ld", host, (long)getpid());
}

static enum log_level command_worker_level(const char *name) {
    return strcmp(name, "debug") == 0     ? LOG_LEVEL_DEBUG
           : strcmp(name, "info") == 0    ? LOG_LEVEL_INFO
           : strcmp(name, "warning") == 0 ? LOG_LEVEL_WARN
                                          : LOG_LEVEL_ERROR;
}

/* ---- start ---- */

/* On a card, asks it how it is from time to time; one that does not tell is no reason to stop. */
static void command_worker_watch_card(struct command_worker *run) {
    struct engine_info info;
    engine_info(run->engine, &info);
    if (strcmp(info.tier, "cuda") != 0) {
        return;
    }
    const char *number = strchr(run->config.device, ':'); /* "auto" is cuda:0 */
    unsigned long index = number != NULL ? strtoul(number + 1, NULL, 10) : 0;
    char err[256];
    run->gpu = gpu_monitor_open(NULL, (uint32_t)index, info.device_name, err, sizeof err);
    if (run->gpu == NULL) {
        log_write(&run->log, LOG_LEVEL_INFO, "worker.gpu_unwatched",
                  LOG_FIELDS(log_text("reason", err)));
    }
}

static int command_worker_open(struct command_worker *run) {
    char err[512];
    int code = engine_config_open(&run->config, &run->log, &run->engine, err, sizeof err);
    if (code != COMMAND_EXIT_OK) {
        return command_fail("worker", (enum command_exit)code, "%s", err);
    }
    if (engine_start(run->engine, err, sizeof err) != ENGINE_OK) {
        return command_fail("worker", COMMAND_EXIT_NO_DEVICE, "%s", err);
    }
    struct worker_options options = {.config = &run->config,
                                     .name = run->name,
                                     .engine = run->engine,
                                     .wake_fd = shutdown_fd(),
                                     .log = &run->log};
    if (worker_open(&options, &run->worker, err, sizeof err) != WORKER_OK) {
        return command_fail("worker", COMMAND_EXIT_USAGE, "%s", err);
    }
    command_worker_watch_card(run);
    return COMMAND_EXIT_OK;
}

/* Waits for broker and topics, saying once what it waits for. True once joined. */
static bool command_worker_join(struct command_worker *run) {
    char err[512], said[512] = "";
    while (!shutdown_is_wanted()) {
        if (worker_join(run->worker, JOIN_MS, err, sizeof err) == WORKER_OK) {
            return true;
        }
        if (strcmp(err, said) != 0) {
            snprintf(said, sizeof said, "%s", err);
            fprintf(stderr, "solfleet worker: waiting: %s\n", err);
        }
        /* An answer that came at once is no reason to ask again at once. */
        struct pollfd signal = {.fd = shutdown_fd(), .events = POLLIN};
        poll(&signal, 1, JOIN_PAUSE_MS);
    }
    return false;
}

static void command_worker_say_ready(struct command_worker *run) {
    struct worker_stats stats;
    worker_stats(run->worker, &stats);
    if (stats.is_ready && !run->said_ready) {
        struct engine_info info;
        engine_info(run->engine, &info);
        worker_report_ready(stderr, &run->config, run->name, &info, &stats);
        run->said_ready = true;
    }
}

/* ---- run ---- */

static bool command_worker_step(struct command_worker *run, int max_wait_ms) {
    char err[512];
    gpu_monitor_sample(run->gpu, clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS);
    if (worker_step(run->worker, max_wait_ms, err, sizeof err) == WORKER_OK) {
        return true;
    }
    command_fail("worker", COMMAND_EXIT_REDELIVERED, "%s", err);
    return false;
}

/* Until a signal comes. False when the worker has failed. */
static bool command_worker_serve(struct command_worker *run) {
    while (!shutdown_is_wanted()) {
        if (!command_worker_step(run, STEP_MS_MAX)) {
            return false;
        }
        command_worker_say_ready(run);
    }
    return true;
}

/* Finishes what runs, within its time; what is left then is given back. */
static void command_worker_drain(struct command_worker *run) {
    int64_t timeout_ms = run->config.drain_timeout_ms + GIVE_BACK_MS_MAX;
    int64_t end_ns = clock_monotonic_ns(NULL) + timeout_ms * CLOCK_NS_PER_MS;
    log_write(&run->log, LOG_LEVEL_INFO, "worker.drain",
              LOG_FIELDS(log_int("timeout_ms", run->config.drain_timeout_ms)));
    worker_drain(run->worker);
    int64_t left_ns;
    while (!worker_is_drained(run->worker) && (left_ns = end_ns - clock_monotonic_ns(NULL)) > 0) {
        int64_t left_ms = left_ns / CLOCK_NS_PER_MS + 1;
        if (!command_worker_step(run, left_ms < STEP_MS_MAX ? (int)left_ms : STEP_MS_MAX)) {
            return;
        }
    }
}

static int command_worker_report(struct command_worker *run) {
    struct engine_stats engine;
    struct worker_stats worker;
    struct gpu_monitor_report gpu;
    engine_stats(run->engine, &engine);
    gpu_monitor_report(run->gpu, &gpu);
    worker_stats(run->worker, &worker);
    bool redelivered = !worker_is_drained(run->worker) || worker.given_back_in_drain > 0;
    worker_report_statistics(stdout, run->config.json, &engine, &worker, &gpu);
    return redelivered ? COMMAND_EXIT_REDELIVERED : COMMAND_EXIT_OK;
}

static int command_worker_work(struct command_worker *run) {
    int code = command_worker_open(run);
    if (code != COMMAND_EXIT_OK || !command_worker_join(run)) {
        return code;
    }
    bool has_failed = !command_worker_serve(run);
    if (has_failed) {
        shutdown_want(); /* what it held is given back, and the watch is set */
    }
    command_worker_drain(run);
    code = command_worker_report(run);
    return has_failed ? COMMAND_EXIT_REDELIVERED : code;
}

static int command_worker_run(int argc, char **argv) {
    static const struct config_spec spec = {
        .name = "worker",
        .command = CONFIG_WORKER,
        .usage = "",
        .summary = "Takes jobs from Kafka, computes them in batches, publishes results and keeps\n"
                   "their status in Redis. SIGTERM and SIGINT drain: exit 0, or 75 when jobs will\n"
                   "be delivered again. To scale, start more workers in the same group."};
    struct command_worker run = {0};
    int code;
    if (config_start(&run.config, &spec, argc, argv, &code) == 0) {
        command_worker_make_name(&run);
        log_init(&run.log, STDERR_FILENO, command_worker_level(run.config.log_level), NULL);
        shutdown_open(COMMAND_EXIT_REDELIVERED,
                      (unsigned)(run.config.drain_timeout_ms / 1000) + SHUTDOWN_SLACK_SECONDS);
        code = command_worker_work(&run);
        if (!shutdown_is_wanted()) { /* it could not start: closing is bounded all the same */
            shutdown_watch(SHUTDOWN_SLACK_SECONDS);
        }
        gpu_monitor_close(run.gpu);
        worker_close(run.worker);
        engine_close(run.engine);
        shutdown_close();
    }
    config_deinit(&run.config);
    return code;
}

const struct command command_worker_entry = {
    .name = "worker",
    .summary = "take jobs from Kafka and answer them",
    .run = command_worker_run,
};
