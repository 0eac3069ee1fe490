/* A job's result, put together from what was remembered of it and how it ended. Pure; borrows all
 * it is given. */
#ifndef SOLFLEET_CONSUMER_WORKER_RESULT_H
#define SOLFLEET_CONSUMER_WORKER_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "consumer/inflight.h"
#include "engine/engine.h"

struct worker_result_context {
    const struct engine_info *model;
    const char *worker;
    int64_t now_ns, now_unix_ms; /* the same moment on both of the engine's clocks */
};

/* What the status says of an answer that ended so. */
enum status_state worker_result_state(enum finish_reason reason);

/* The record's value for a finished job: owned by the caller. */
char *worker_result_finished(const struct worker_result_context *context,
                             const struct inflight_job *job, const struct engine_event *event,
                             size_t *size);

/* The record's value for a job that ended without an answer, by job->error; `brief` leaves out all
 * that the client sent. Owned by the caller. */
char *worker_result_unanswered(const struct worker_result_context *context,
                               const struct inflight_job *job, enum status_state state, bool brief,
                               size_t *size);

#endif
