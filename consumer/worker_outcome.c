#include "consumer/worker_outcome.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/result_limits.h"
#include "consumer/worker_claim.h"
#include "consumer/worker_life.h"
#include "consumer/worker_publish.h"
#include "consumer/worker_result.h"
#include "consumer/worker_state.h"
#include "engine/crash_point.h"

static struct worker_result_context worker_outcome_context(const struct worker *worker) {
    return (struct worker_result_context){.model = &worker->engine_info,
                                          .worker = worker->options.name,
                                          .now_ns = clock_monotonic_ns(worker->options.clock),
                                          .now_unix_ms = clock_unix_ms(worker->options.clock)};
}

/* ---- results without an answer, and smaller ones ---- */

/* `brief` leaves out what the client sent. */
static void worker_outcome_make_empty(struct worker *worker, struct inflight_job *job, bool brief) {
    struct worker_result_context context = worker_outcome_context(worker);
    struct inflight_outcome *outcome = &job->outcome;
    free(outcome->result);
    outcome->result =
        worker_result_unanswered(&context, job, outcome->state, brief, &outcome->result_bytes);
}

/* The result as its topic takes it, while there is something to leave out. */
static bool worker_outcome_shorten(struct inflight_outcome *outcome, size_t room) {
    size_t bytes;
    char *shorter = result_limits_shorten(outcome->result, outcome->result_bytes, room, &bytes);
    if (shorter == NULL) {
        return false;
    }
    free(outcome->result);
    outcome->result = shorter;
    outcome->result_bytes = bytes;
    return true;
}

/* A shorter one, then an error in its place, then one without what the client sent. A result that
 * says no more than its id is not made smaller. */
void worker_outcome_cut(struct worker *worker, struct inflight_job *job, size_t room) {
    struct inflight_outcome *outcome = &job->outcome;
    outcome->is_sealed = false; /* what was sealed is not what goes out */
    if (outcome->result_cuts == 0 && worker_outcome_shorten(outcome, room)) {
        return;
    }
    if (outcome->state != STATUS_FAILED) {
        error_set(&job->error, ERROR_RESULT_TOO_LARGE, NULL,
                  "the result has %zu bytes, and its topic takes %zu", outcome->result_bytes, room);
        outcome->state = STATUS_FAILED;
    }
    outcome->result_cuts++;
    worker_outcome_make_empty(worker, job, outcome->result_cuts > 1);
}

/* So that what is sealed can be published. */
static void worker_outcome_fit(struct worker *worker, struct inflight_job *job) {
    size_t room;
    while ((room = worker_publish_room(worker, job)) < job->outcome.result_bytes &&
           job->outcome.result_cuts < WORKER_OUTCOME_CUTS_MAX) {
        worker_outcome_cut(worker, job, room);
    }
}

/* ---- seal ---- */

/* What a seal and a finish say alike. */
static struct status_store_finish worker_outcome_status(const struct inflight_job *job) {
    const struct inflight_outcome *outcome = &job->outcome;
    bool has_error = job->error.code != ERROR_NONE;
    return (struct status_store_finish){.request_id = job->request_id,
                                        .fingerprint = job->fingerprint,
                                        .state = outcome->state,
                                        .attempt = job->attempt,
                                        .started_unix_ms = job->started_unix_ms,
                                        .finished_unix_ms = outcome->finished_unix_ms,
                                        .prompt_tokens = outcome->prompt_tokens,
                                        .completion_tokens = outcome->completion_tokens,
                                        .error_code =
                                            has_error ? error_code_name(job->error.code) : NULL,
                                        .error_message = has_error ? job->error.message : NULL,
                                        .text = outcome->text,
                                        .result = outcome->result,
                                        .result_bytes = outcome->result_bytes};
}

static void worker_outcome_seal(struct worker *worker, struct inflight_job *job) {
    assert(job->life.state == JOB_LIFE_SEALING);
    job->outcome.finished_unix_ms = clock_unix_ms(worker->options.clock);
    worker_outcome_fit(worker, job);
    if (job->has_no_status) {
        worker_life(worker, job, JOB_LIFE_SEAL_HOLDS);
        return;
    }
    struct status_store_finish finish = worker_outcome_status(job);
    status_store_seal(worker->store, job->ticket, &finish);
}

void worker_outcome_sealed(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer) {
    if (!answer->reached) {
        worker_life(worker, job, JOB_LIFE_SEAL_HOLDS);
        return;
    }
    switch (answer->seal) {
    case STATUS_STORE_SEALED_NOW:
        job->outcome.is_sealed = true;
        crash_point("sealed");
        worker_life(worker, job, JOB_LIFE_SEAL_HOLDS);
        break;
    case STATUS_STORE_SEALED_BEFORE:
        if (answer->sealed->result != NULL) { /* unless somebody took it away */
            worker_outcome_adopt(worker, job, answer->sealed);
        }
        worker_life(worker, job, JOB_LIFE_SEAL_OLDER);
        break;
    case STATUS_STORE_SEAL_TERMINAL: worker_life(worker, job, JOB_LIFE_SEAL_TERMINAL); break;
    case STATUS_STORE_SEAL_CONFLICT:
        free(job->outcome.result); /* it is not that id's */
        job->outcome.result = NULL;
        worker_claim_conflict(worker, job);
        worker_life(worker, job, JOB_LIFE_SEAL_CONFLICT);
        break;
    }
}

/* ---- outcomes ---- */

void worker_outcome_answer(struct worker *worker, struct inflight_job *job,
                           struct engine_event *event) {
    struct worker_result_context context = worker_outcome_context(worker);
    struct inflight_outcome *outcome = &job->outcome;
    outcome->state = worker_result_state(event->finish_reason);
    outcome->result = worker_result_finished(&context, job, event, &outcome->result_bytes);
    outcome->prompt_tokens = event->usage.prompt_tokens;
    outcome->completion_tokens = event->usage.completion_tokens;
    if (job->progress == JOB_PROGRESS_TEXT) {
        outcome->text = event->text;
        event->text = NULL;
    }
    job->error = event->error;
    worker_outcome_seal(worker, job);
}

static void worker_outcome_end_empty(struct worker *worker, struct inflight_job *job,
                                     enum status_state state) {
    job->outcome.state = state;
    job->outcome.prompt_tokens = job->outcome.completion_tokens = -1;
    worker_outcome_make_empty(worker, job, false);
    worker_outcome_seal(worker, job);
}

void worker_outcome_fail(struct worker *worker, struct inflight_job *job) {
    worker_outcome_end_empty(worker, job, STATUS_FAILED);
}

void worker_outcome_call_off(struct worker *worker, struct inflight_job *job) {
    if (job->called_off == FINISH_DEADLINE) {
        error_set(&job->error, ERROR_EXPIRED, NULL, "its time was over before it was computed");
    } else {
        error_set(&job->error, ERROR_CANCELLED, NULL, "it was cancelled before it was computed");
    }
    worker_outcome_end_empty(worker, job, worker_result_state(job->called_off));
}

static char *worker_outcome_copy(const char *bytes, size_t size) {
    char *copy = malloc(size + 1);
    assert(copy != NULL);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

void worker_outcome_adopt(struct worker *worker, struct inflight_job *job,
                          const struct status_store_outcome *sealed) {
    struct inflight_outcome *outcome = &job->outcome;
    worker->stats.adopted++;
    free(outcome->result);
    free(outcome->text);
    outcome->result = worker_outcome_copy(sealed->result, sealed->result_bytes);
    outcome->result_bytes = sealed->result_bytes;
    outcome->text =
        sealed->text != NULL ? worker_outcome_copy(sealed->text, strlen(sealed->text)) : NULL;
    outcome->state = sealed->state;
    outcome->finished_unix_ms = sealed->finished_unix_ms;
    outcome->prompt_tokens = sealed->prompt_tokens;
    outcome->completion_tokens = sealed->completion_tokens;
    outcome->is_sealed = true;
    outcome->letter_unsent |= job->is_malformed; /* whether its letter went out is not known */
    if (!job->is_malformed) {
        job->error = (struct job_error){0};
        if (sealed->error_code != NULL && error_code_parse(sealed->error_code, &job->error.code)) {
            error_set(&job->error, job->error.code, NULL, "%s",
                      sealed->error_message != NULL ? sealed->error_message : "");
        }
        outcome->letter_unsent |= job->error.code == ERROR_POISON;
    }
}

/* ---- finish ---- */

static void worker_outcome_count(struct worker *worker, const struct inflight_job *job) {
    switch (job->outcome.state) {
    case STATUS_DONE: worker->stats.done++; break;
    case STATUS_EXPIRED: worker->stats.expired++; break;
    case STATUS_CANCELLED: worker->stats.cancelled++; break;
    default: worker->stats.failed++; break;
    }
}

void worker_outcome_finish(struct worker *worker, struct inflight_job *job) {
    struct status_store_finish finish = worker_outcome_status(job);
    finish.is_sealed = job->outcome.is_sealed;
    finish.result_topic = job->outcome.result_topic;
    finish.result_partition = job->outcome.result_partition;
    finish.result_offset = job->outcome.result_offset;
    worker_outcome_count(worker, job);
    status_store_finish(worker->store, job->ticket, &finish);
}
