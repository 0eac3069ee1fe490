#include "consumer/worker.h"

#include <assert.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "consumer/params_config.h"
#include "consumer/repair.h"
#include "consumer/status_control.h"
#include "consumer/topics_hint.h"
#include "consumer/worker_cancel.h"
#include "consumer/worker_claim.h"
#include "consumer/worker_deadline.h"
#include "consumer/worker_intake.h"
#include "consumer/worker_lease.h"
#include "consumer/worker_leave.h"
#include "consumer/worker_life.h"
#include "consumer/worker_outcome.h"
#include "consumer/worker_publish.h"
#include "consumer/worker_repair.h"
#include "consumer/worker_run.h"
#include "consumer/worker_state.h"
#include "consumer/worker_wait.h"
#include "engine/crash_point.h"

#define WORKER_INCARNATION_BYTES 17
#define TRIM_JOBS_MIN 64           /* in flight at a time: fewer leave little behind */
#define TRIM_MS_MIN 30000          /* from one to the next: it looks through the whole heap */
#define HELD_BYTES_MAX (64u << 20) /* values of records in flight */
#define HOLD_MS_MAX 250            /* without polling: short beside any time-out of the group */

/* ---- the steps that have no file of their own ---- */

/* Hands each answer of Redis to the step that waits for it. */
static void worker_take_answers(struct worker *worker) {
    struct status_store_answer answer;
    while (status_store_take(worker->store, &answer)) {
        struct inflight_job *job = inflight_find(&worker->inflight, answer.ticket);
        bool may_be_gone = answer.is_late || answer.kind == STATUS_STORE_RENEW;
        assert(job != NULL || may_be_gone); /* every entry waits for each of its answers */
        switch (answer.kind) {
        case STATUS_STORE_CLAIM: worker_claim_answered(worker, job, &answer); break;
        case STATUS_STORE_RENEW: worker_lease_answered(worker, &answer); break;
        case STATUS_STORE_SEAL: worker_outcome_sealed(worker, job, &answer); break;
        case STATUS_STORE_FINISH:
            crash_point("status_written");
            worker_life(worker, job, JOB_LIFE_WRITE);
            break;
        }
    }
}

/* A long outage leaves a heap as large as its backlog was, most of it free: once nothing is in
 * flight, the system gets that back. */
static void worker_give_memory_back(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    if (worker->inflight.count > worker->backlog_most) {
        worker->backlog_most = worker->inflight.count;
    }
    if (worker->inflight.count == 0 && worker->backlog_most >= TRIM_JOBS_MIN &&
        now_ns - worker->trimmed_ns >= TRIM_MS_MIN * CLOCK_NS_PER_MS) {
        (void)malloc_trim(0);
        worker->backlog_most = 0;
        worker->trimmed_ns = now_ns;
    }
}

/* Pauses and resumes consuming. */
static void worker_pace(struct worker *worker) {
    /* Of several topics the more urgent are to get in though the engine is full. */
    bool is_busy = (worker->engine_is_full && !kafka_source_is_shared(worker->source)) ||
                   worker->suspects.head != NULL;
    struct backpressure_load load = {.jobs = worker->inflight.count,
                                     .bytes = worker->inflight.value_bytes,
                                     .engine_is_busy = is_busy};
    enum backpressure_advice before = worker->backpressure.advice;
    enum backpressure_advice advice = backpressure_update(
        &worker->backpressure, &load, clock_monotonic_ns(worker->options.clock));
    worker->has_more |= before == BACKPRESSURE_HOLD && advice != BACKPRESSURE_HOLD;
    kafka_source_share(worker->source, worker->backpressure.jobs_high);
    kafka_source_pause(worker->source, advice == BACKPRESSURE_PAUSE || worker->is_draining);
    if (worker->is_draining && !worker->engine_is_draining && worker->waiting.count == 0 &&
        worker->suspects.head == NULL) {
        worker->engine_is_draining = engine_drain(worker->engine);
    }
    worker_give_memory_back(worker);
}

static enum worker_status worker_check(const struct worker *worker, char *err, size_t err_bytes) {
    char why[256];
    const char *who = NULL;
    bool needs_engine = !worker->is_draining; /* otherwise what it had has been given back */
    if (needs_engine && engine_has_failed(worker->engine, why, sizeof why)) {
        who = "engine";
    } else if (needs_engine && worker->has_given_up) {
        who = "engine";
        snprintf(why, sizeof why, "failed %u times in a row without a finished job",
                 worker->failures_in_a_row);
    } else if (kafka_source_has_failed(worker->source, why, sizeof why)) {
        who = "Kafka consumer";
    } else if (kafka_sink_has_failed(worker->sink, why, sizeof why)) {
        who = "Kafka producer";
    }
    if (who != NULL) {
        snprintf(err, err_bytes, "%s: %s", who, why);
        return WORKER_FAILED;
    }
    return WORKER_OK;
}

enum worker_status worker_step(struct worker *worker, int max_wait_ms, char *err,
                               size_t err_bytes) {
    worker_wait_step(worker, max_wait_ms);
    worker_intake_receive(worker);
    worker_leave_step(worker);
    worker_take_answers(worker);
    worker_cancel_step(worker);
    worker_leave_take_due(worker);
    worker_deadline_step(worker);
    worker_run_submit(worker);
    worker_run_take_events(worker);
    worker_publish_step(worker);
    worker_lease_step(worker);
    worker_repair_step(worker);
    status_store_send(worker->store);
    kafka_source_commit(worker->source, worker->is_draining && worker->inflight.count == 0);
    worker_pace(worker);
    return worker_check(worker, err, err_bytes);
}

/* ---- open, join, drain, close ---- */

static uint32_t worker_high_water(const struct config *config) {
    int64_t derived = 2 * config->max_queue_size + config->max_batch_size;
    return (uint32_t)(config->high_water > 0 ? config->high_water : derived);
}

static void worker_init_backpressure(struct worker *worker) {
    uint32_t high = worker_high_water(worker->config);
    uint32_t low = worker->config->low_water > 0 ? (uint32_t)worker->config->low_water
                                                 : (uint32_t)((uint64_t)high * 3 / 4);
    worker->backpressure = (struct backpressure){.jobs_high = high,
                                                 .jobs_low = low < high ? low : high,
                                                 .bytes_high = HELD_BYTES_MAX,
                                                 .bytes_low = HELD_BYTES_MAX / 4 * 3,
                                                 .hold_ns = HOLD_MS_MAX * CLOCK_NS_PER_MS};
}

/* Tells this process from one before it of the same name. */
static void worker_make_incarnation(char out[WORKER_INCARNATION_BYTES]) {
    uint64_t random;
    ssize_t got = getrandom(&random, sizeof random, 0);
    assert(got == (ssize_t)sizeof random);
    snprintf(out, WORKER_INCARNATION_BYTES, "%016" PRIx64, random);
}

static bool worker_open_store(struct worker *worker, char *err, size_t err_bytes) {
    const struct config *config = worker->config;
    char incarnation[WORKER_INCARNATION_BYTES];
    worker_make_incarnation(incarnation);
    struct status_store_options options = {.address = config->redis,
                                           .prefix = config->key_prefix,
                                           .worker = worker->options.name,
                                           .incarnation = incarnation,
                                           .lease_ms = worker->lease_ns / CLOCK_NS_PER_MS,
                                           .ttl_s = config->status_ttl_s,
                                           .claim_timeout_ms = config->redis_claim_timeout_ms,
                                           .link_timeout_ms = config->redis_timeout_ms,
                                           .backlog_max = (uint32_t)config->redis_backlog_max,
                                           .result_bytes_max =
                                               (size_t)config->result_max_bytes_in_status,
                                           .clock = worker->options.clock,
                                           .log = worker->options.log};
    return status_store_open(&options, &worker->store, err, err_bytes);
}

static bool worker_open_control(struct worker *worker, char *err, size_t err_bytes) {
    const struct config *config = worker->config;
    const struct status_control_options options = {.address = config->redis,
                                                   .prefix = config->key_prefix,
                                                   .greeting_timeout_ms = config->redis_timeout_ms,
                                                   .clock = worker->options.clock};
    return status_control_open(&options, &worker->control, err, err_bytes);
}

static bool worker_open_parts(struct worker *worker, char *err, size_t err_bytes) {
    struct clock *clock = worker->options.clock;
    struct log *log = worker->options.log;
    return worker_open_store(worker, err, err_bytes) &&
           worker_open_control(worker, err, err_bytes) &&
           kafka_source_open(worker->config, clock, log, &worker->source, err, err_bytes) ==
               KAFKA_SOURCE_OK &&
           kafka_sink_open(worker->config, clock, log, &worker->sink, err, err_bytes) ==
               KAFKA_SINK_OK;
}

enum worker_status worker_open(const struct worker_options *options, struct worker **out, char *err,
                               size_t err_bytes) {
    struct worker *worker = calloc(1, sizeof *worker);
    assert(worker != NULL);
    worker->options = *options;
    worker->config = options->config;
    worker->engine = options->engine;
    engine_info(worker->engine, &worker->engine_info);
    worker->limits = job_limits_default();
    worker->limits.value_bytes_max = (size_t)worker->config->max_job_bytes;
    worker->limits.default_timeout_ms = worker->config->default_timeout_ms;
    worker->limits.default_params = &worker->default_params;
    worker->lease_ns = worker_lease_ms(worker->config) * CLOCK_NS_PER_MS;
    worker_init_backpressure(worker);
    uint32_t capacity = worker->backpressure.jobs_high + WORKER_RECEIVE_MAX;
    bool has_room = inflight_init(&worker->inflight, capacity) &&
                    deadline_heap_init(&worker->due, capacity) &&
                    deadline_heap_init(&worker->deadlines, capacity) &&
                    wait_queue_init(&worker->waiting, capacity,
                                    worker->config->priority_ageing_ms * CLOCK_NS_PER_MS);
    assert(has_room);
    if (!params_config_read(worker->config, &worker->default_params, err, err_bytes) ||
        !worker_open_parts(worker, err, err_bytes)) {
        worker_close(worker);
        return WORKER_BAD_SETTING;
    }
    *out = worker;
    return WORKER_OK;
}

static enum worker_status worker_say_missing(const struct worker *worker, const char *topic,
                                             char *err, size_t err_bytes) {
    topics_hint_missing(worker->config, topic, err, err_bytes);
    return WORKER_NOT_YET;
}

static enum worker_status worker_find_output(struct worker *worker, const char *topic,
                                             int timeout_ms, char *err, size_t err_bytes) {
    char why[128];
    switch (kafka_sink_find_topic(worker->sink, topic, timeout_ms, why, sizeof why)) {
    case KAFKA_SINK_OK: return WORKER_OK;
    case KAFKA_SINK_MISSING: return worker_say_missing(worker, topic, err, err_bytes);
    default:
        snprintf(err, err_bytes, "topic '%s' at %s: %s", topic, worker->config->brokers, why);
        return WORKER_NOT_YET;
    }
}

enum worker_status worker_join(struct worker *worker, int timeout_ms, char *err, size_t err_bytes) {
    const struct config *config = worker->config;
    char why[128];
    const char *missing = NULL;
    enum kafka_source_status found =
        kafka_source_find_topics(worker->source, timeout_ms, &missing, why, sizeof why);
    if (found == KAFKA_SOURCE_MISSING) {
        return worker_say_missing(worker, missing, err, err_bytes);
    }
    if (found != KAFKA_SOURCE_OK) {
        snprintf(err, err_bytes,
                 found == KAFKA_SOURCE_UNREACHABLE ? "no Kafka answers at %s (see --brokers): %s"
                                                   : "Kafka at %s: %s",
                 config->brokers, why);
        return WORKER_NOT_YET;
    }
    enum worker_status status =
        worker_find_output(worker, config->results_topic, timeout_ms, err, err_bytes);
    if (status == WORKER_OK) {
        status = worker_find_output(worker, config->dead_letter_topic, timeout_ms, err, err_bytes);
    }
    if (status == WORKER_OK &&
        kafka_sink_read_limits(worker->sink, timeout_ms, err, err_bytes) != KAFKA_SINK_OK) {
        status = WORKER_NOT_YET;
    }
    if (status == WORKER_OK && !worker_repair_start(worker, timeout_ms, err, err_bytes)) {
        status = WORKER_NOT_YET;
    }
    if (status == WORKER_OK &&
        kafka_source_subscribe(worker->source, err, err_bytes) != KAFKA_SOURCE_OK) {
        status = WORKER_NOT_YET;
    }
    return status;
}

void worker_drain(struct worker *worker) {
    int64_t timeout_ns = worker->config->drain_timeout_ms * CLOCK_NS_PER_MS;
    worker->is_draining = true;
    worker->engine_is_gone = engine_has_failed(worker->engine, NULL, 0);
    bool is_useless = worker->engine_is_gone || worker->has_given_up;
    worker->drain_end_ns =
        clock_monotonic_ns(worker->options.clock) + (is_useless ? 0 : timeout_ns);
    kafka_source_pause(worker->source, true);
}

bool worker_is_drained(const struct worker *worker) {
    struct status_store_stats store;
    status_store_stats(worker->store, &store);
    bool replays = store.is_up && store.backlog_count > 0;
    bool has_left = !worker->is_draining || kafka_source_has_left(worker->source);
    return worker->inflight.count == 0 && kafka_source_is_committed(worker->source) && !replays &&
           has_left;
}

void worker_stats(const struct worker *worker, struct worker_stats *out) {
    *out = worker->stats;
    out->in_flight = worker->inflight.count;
    out->in_engine = worker->in_engine;
    out->is_alone = worker->alone_ticket != 0;
    out->is_ready = kafka_source_is_assigned(worker->source) && !worker->has_given_up;
    out->is_full = worker->backpressure.advice != BACKPRESSURE_TAKE;
    kafka_source_stats(worker->source, &out->source);
    status_store_stats(worker->store, &out->store);
}

void worker_close(struct worker *worker) {
    if (worker == NULL) {
        return;
    }
    for (uint32_t i = 0; i < worker->inflight.capacity; i++) {
        kafka_source_release(&worker->inflight.jobs[i].record);
    }
    repair_close(worker->repair);
    kafka_source_close(worker->source);
    kafka_sink_close(worker->sink);
    status_store_close(worker->store);
    status_control_close(worker->control);
    inflight_deinit(&worker->inflight);
    deadline_heap_deinit(&worker->due);
    deadline_heap_deinit(&worker->deadlines);
    wait_queue_deinit(&worker->waiting);
    free(worker);
}
