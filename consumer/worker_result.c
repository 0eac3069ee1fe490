#include "consumer/worker_result.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/prompt.h"
#include "schemas/solution.h"

enum status_state worker_result_state(enum finish_reason reason) {
    switch (reason) {
    case FINISH_STOP:
    case FINISH_LENGTH:
    case FINISH_REPETITION: return STATUS_DONE;
    case FINISH_DEADLINE: return STATUS_EXPIRED;
    case FINISH_CANCELLED: return STATUS_CANCELLED;
    case FINISH_ERROR: break;
    }
    return STATUS_FAILED;
}

static enum result_status worker_result_status(enum status_state state) {
    switch (state) {
    case STATUS_DONE: return RESULT_DONE;
    case STATUS_EXPIRED: return RESULT_EXPIRED;
    case STATUS_CANCELLED: return RESULT_CANCELLED;
    default: return RESULT_FAILED;
    }
}

/* Milliseconds from the record to a moment of the engine's clock; -1 where it was not reached. */
static int64_t worker_result_since_record_ms(const struct worker_result_context *context,
                                             const struct inflight_job *job, int64_t at_ns) {
    if (at_ns == 0) {
        return -1;
    }
    int64_t at_unix_ms = context->now_unix_ms - (context->now_ns - at_ns) / CLOCK_NS_PER_MS;
    int64_t since_ms = at_unix_ms - job->timestamp_unix_ms;
    return since_ms > 0 ? since_ms : 0; /* clocks of two machines */
}

static void worker_result_name(char *out, size_t out_bytes, const char *name) {
    snprintf(out, out_bytes, "%s", name != NULL ? name : "");
}

/* Fills what every result has; all strings but a solution's are lent, so the result is never
 * deinited. */
static void worker_result_begin(const struct worker_result_context *context,
                                const struct inflight_job *job, struct result *result) {
    result_init(result);
    memcpy(result->request_id, job->request_id, sizeof result->request_id);
    result->params = job->params;
    result->params_present = job->has_params;
    result->metadata = job->metadata;
    result->attempt = job->attempt > 0 ? job->attempt : 1;
    worker_result_name(result->worker, sizeof result->worker, context->worker);
    const struct engine_info *model = context->model;
    worker_result_name(result->model.name, sizeof result->model.name, model->model_name);
    worker_result_name(result->model.sha256, sizeof result->model.sha256, model->model_sha256);
    worker_result_name(result->model.policy, sizeof result->model.policy, model->policy);
    worker_result_name(result->model.numerics, sizeof result->model.numerics, model->numerics);
    worker_result_name(result->model.prompt_version, sizeof result->model.prompt_version,
                       PROMPT_VERSION_NONE);
}

static char *worker_result_encode(const struct result *result, size_t *size) {
    char *bytes = result_encode(result, size);
    assert(bytes != NULL);
    return bytes;
}

/* Also of an answer that was cut short: what is there may be of use, and says that it is cut. */
static void worker_result_solve(const struct inflight_job *job, const struct engine_event *event,
                                struct result *result) {
    if (!job->is_problem || event->text == NULL || event->finish_reason == FINISH_ERROR) {
        return;
    }
    bool was_cut = event->finish_reason != FINISH_STOP;
    enum solution_status status =
        solution_parse(event->text, job->code_language, was_cut, &result->solution);
    assert(status == SOLUTION_OK);
}

char *worker_result_finished(const struct worker_result_context *context,
                             const struct inflight_job *job, const struct engine_event *event,
                             size_t *size) {
    struct result result;
    worker_result_begin(context, job, &result);
    result.status = worker_result_status(worker_result_state(event->finish_reason));
    result.text = event->text;
    memcpy(result.answer_sha256, event->answer_sha256, sizeof result.answer_sha256);
    result.finish_reason = event->finish_reason;
    result.truncated = event->truncated;
    result.usage = event->usage;
    if (event->prompt_version != NULL) {
        worker_result_name(result.model.prompt_version, sizeof result.model.prompt_version,
                           event->prompt_version);
    }
    result.error = event->error;
    result.timings = (struct result_timings){
        .queue_ms = worker_result_since_record_ms(context, job, event->admitted_ns),
        .batch_wait_ms = event->started_ns == 0
                             ? -1
                             : (event->started_ns - event->admitted_ns) / CLOCK_NS_PER_MS,
        .first_token_ms = worker_result_since_record_ms(context, job, event->first_token_ns),
        .total_ms = worker_result_since_record_ms(context, job, event->finished_ns)};
    worker_result_solve(job, event, &result);
    char *bytes = worker_result_encode(&result, size);
    solution_deinit(&result.solution);
    return bytes;
}

char *worker_result_unanswered(const struct worker_result_context *context,
                               const struct inflight_job *job, enum status_state state, bool brief,
                               size_t *size) {
    struct result result;
    worker_result_begin(context, job, &result);
    result.status = worker_result_status(state);
    result.finish_reason = state == STATUS_CANCELLED ? FINISH_CANCELLED
                           : state == STATUS_EXPIRED ? FINISH_DEADLINE
                                                     : FINISH_ERROR;
    result.error = job->error;
    result.timings = (struct result_timings){
        .queue_ms = -1,
        .batch_wait_ms = -1,
        .first_token_ms = -1,
        .total_ms = worker_result_since_record_ms(context, job, context->now_ns)};
    if (brief) {
        result.metadata = NULL;
        result.params_present = false;
    }
    return worker_result_encode(&result, size);
}
