/* The worker's state, shared by the files that are its steps. Private to worker*.c. */
#ifndef SOLFLEET_CONSUMER_WORKER_STATE_H
#define SOLFLEET_CONSUMER_WORKER_STATE_H

#include "consumer/backpressure.h"
#include "consumer/config.h"
#include "consumer/inflight.h"
#include "consumer/kafka_sink.h"
#include "consumer/worker.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/log.h"

#define WORKER_RECEIVE_MAX 256 /* records in one step: results must not wait behind a backlog */

struct worker {
    struct worker_options options;
    const struct config *config;
    struct engine *engine;
    struct engine_info engine_info;
    struct job_params default_params;
    struct job_limits limits;

    struct kafka_source *source;
    struct kafka_sink *sink;
    struct status_store *store;
    char incarnation[17]; /* of this process, among all that ever bear its name */
    struct inflight inflight;
    struct inflight_list waiting; /* for room in the engine, in the order they came */
    struct inflight_list unsent;  /* results and dead letters to be handed to the sink */
    struct backpressure backpressure;

    bool has_more; /* the source had more than one step takes */
    bool is_draining, engine_is_draining;
    int64_t send_again_ns; /* the sink refused: no earlier; 0 = no wait */
    struct worker_stats stats;
};

/* Everything a job needs is done: its records may be committed. Frees the entry. */
void worker_settle(struct worker *worker, struct inflight_job *job);

#endif
