/* The worker's state, shared by the files that are its steps. Private to worker*.c. */
#ifndef SOLFLEET_CONSUMER_WORKER_STATE_H
#define SOLFLEET_CONSUMER_WORKER_STATE_H

#include "consumer/backpressure.h"
#include "consumer/config.h"
#include "consumer/inflight.h"
#include "consumer/kafka_sink.h"
#include "consumer/worker.h"
#include "engine/clock.h"
#include "engine/deadline_heap.h"
#include "engine/engine.h"
#include "engine/log.h"
#include "engine/wait_queue.h"

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
    struct status_control *control;
    struct repair *repair; /* under way; NULL = none */
    bool is_repaired;      /* it has ended, or cannot be */
    int64_t repair_ns;     /* no slice of it earlier */
    char incarnation[17];  /* of this process, among all that ever bear its name */
    struct inflight inflight;
    struct wait_queue waiting;        /* for room in the engine, by slot: who is next is its law */
    struct inflight_list suspects;    /* to be alone in the engine: their owners died before */
    struct inflight_list progressing; /* what their status does not say yet is to be sent */
    struct inflight_list unsent;      /* results and dead letters to be handed to the sink */
    struct deadline_heap due;         /* parked, resting, and orphans that run, by slot */
    struct deadline_heap deadlines;   /* of what waits, in the engine's queue, too, by slot */
    struct backpressure backpressure;

    int64_t lease_ns;      /* how long a claim holds */
    int64_t renew_ns;      /* when all leases are renewed next */
    uint64_t queued_count; /* ever, by the wait queue */
    bool engine_is_full;   /* for the next of those that wait */
    uint32_t in_engine;
    uint32_t foretold_in_engine; /* of those, whose status said so before they began */
    uint32_t left_in_engine;     /* expired in its queue: their ends there are nobody's */
    uint64_t alone_ticket;       /* the suspect in the engine; 0 = none */
    bool has_unsent_stops;       /* the engine had no room for a cancel */

    uint32_t failures_in_a_row; /* of the engine, without a finished job */
    int64_t failed_ns;          /* when the last was counted */
    bool has_given_up;          /* on the engine */
    bool engine_is_gone;        /* nothing comes from it any more */

    bool has_more; /* the source had more than one step takes */
    bool is_draining, engine_is_draining, has_asked_to_leave, is_giving_back;
    int64_t drain_end_ns;
    uint32_t backlog_most; /* jobs in flight since memory was given back */
    int64_t trimmed_ns;    /* when that was */
    int64_t send_again_ns; /* the sink refused: no earlier; 0 = no wait */
    struct worker_stats stats;
};

#endif
