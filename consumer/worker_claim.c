#include "consumer/worker_claim.h"

#include <assert.h>
#include <string.h>

#include "consumer/worker_cancel.h"
#include "consumer/worker_life.h"
#include "consumer/worker_outcome.h"
#include "consumer/worker_state.h"
#include "engine/crash_point.h"

#define PARK_MS_MIN 100 /* until the first question whether another worker has ended */
#define PARK_LEASE_SHARE 3

/* ---- ask ---- */

/* The claim is made for a record that is ours: a ticket may have outlived its first one. */
static struct source_ref worker_claim_source(const struct worker *worker,
                                             const struct inflight_job *job) {
    const struct inflight_source *at = &job->source;
    while (!kafka_source_owns(worker->source, &at->ref) && at->next != NULL) {
        at = at->next;
    }
    return kafka_source_owns(worker->source, &at->ref) ? at->ref : job->source.ref;
}

void worker_claim_ask(struct worker *worker, struct inflight_job *job) {
    struct status_store_claim claim = {.request_id = job->request_id,
                                       .source = worker_claim_source(worker, job),
                                       .fingerprint = job->fingerprint,
                                       .queued_unix_ms = job->timestamp_unix_ms,
                                       .only_if_queued = job->id_is_key};
    job->is_claimed = false;
    job->attempt = 0;
    inflight_let_go(&worker->inflight, job);
    status_store_claim(worker->store, job->ticket, &claim);
}

/* ---- the answer ---- */

/* A ticket of ours holds the id already, which the server did not know, or could not say. */
static enum job_life_event worker_claim_beside(struct worker *worker, struct inflight_job *job,
                                               const struct status_store_answer *answer) {
    struct inflight_job *holder = inflight_holder(&worker->inflight, job->request_id);
    bool is_same = strcmp(holder->fingerprint, job->fingerprint) == 0;
    if (!answer->reached) {
        return is_same ? JOB_LIFE_IS_HELD_HERE : JOB_LIFE_IS_CONFLICT;
    }
    if (is_same) {
        holder->is_claimed = true;
        holder->attempt = answer->attempt;
        return JOB_LIFE_IS_HELD_HERE;
    }
    inflight_let_go(&worker->inflight, holder); /* its seal will tell it that the id is not its */
    inflight_hold(&worker->inflight, job);
    return JOB_LIFE_IS_NEW;
}

static enum job_life_event worker_claim_new(struct worker *worker, struct inflight_job *job,
                                            const struct status_store_answer *answer) {
    if (job->is_malformed && !answer->reached) {
        return JOB_LIFE_IS_CONFLICT; /* the id may be another's: nothing can be told its client */
    }
    enum job_life_event what = inflight_hold(&worker->inflight, job)
                                   ? JOB_LIFE_IS_NEW
                                   : worker_claim_beside(worker, job, answer);
    return what == JOB_LIFE_IS_NEW && job->is_malformed ? JOB_LIFE_IS_MALFORMED : what;
}

/* A claim of ours stands there whose ticket is gone: let go of it, and ask again. */
static enum job_life_event worker_claim_here(struct worker *worker, struct inflight_job *job,
                                             const struct status_store_answer *answer) {
    if (inflight_holder(&worker->inflight, job->request_id) != NULL) {
        return JOB_LIFE_IS_HELD_HERE;
    }
    status_store_release(worker->store, job->request_id, answer->attempt);
    return JOB_LIFE_IS_HELD_ELSEWHERE;
}

static enum job_life_event worker_claim_event(struct worker *worker, struct inflight_job *job,
                                              const struct status_store_answer *answer) {
    switch (answer->claimed) {
    case STATUS_STORE_DONE: return JOB_LIFE_IS_DONE;
    case STATUS_STORE_CONFLICT: return JOB_LIFE_IS_CONFLICT;
    case STATUS_STORE_RUNNING_HERE: return worker_claim_here(worker, job, answer);
    case STATUS_STORE_RUNNING_ELSEWHERE: return JOB_LIFE_IS_HELD_ELSEWHERE;
    case STATUS_STORE_NONE:
        job->has_no_status = true; /* the key is unusable: there will be a result, but no status */
        return job->is_malformed ? JOB_LIFE_IS_CONFLICT : JOB_LIFE_IS_NEW;
    case STATUS_STORE_SEALED:
        if (answer->sealed->result != NULL) {
            return JOB_LIFE_IS_SEALED;
        }
        break; /* somebody took it away: computed again */
    case STATUS_STORE_POISON: return job->is_malformed ? JOB_LIFE_IS_MALFORMED : JOB_LIFE_IS_POISON;
    case STATUS_STORE_NEW: break;
    }
    return worker_claim_new(worker, job, answer);
}

static void worker_claim_note(struct worker *worker, struct inflight_job *job,
                              const struct status_store_answer *answer) {
    bool is_ours = answer->claimed == STATUS_STORE_NEW || answer->claimed == STATUS_STORE_SEALED ||
                   answer->claimed == STATUS_STORE_POISON;
    job->lease_left_ms = answer->lease_left_ms;
    if (is_ours && answer->reached) {
        job->is_claimed = answer->attempt > 0;
        job->attempt = answer->attempt;
        job->deaths = answer->deaths;
        inflight_hold(&worker->inflight, job);
    }
}

void worker_claim_conflict(struct worker *worker, struct inflight_job *job) {
    if (!job->is_malformed) {
        worker->stats.conflicts++;
        error_set(&job->error, ERROR_CONFLICT, "request_id",
                  "belongs to another job with other content");
    }
}

/* What the event is to leave in the entry before it is carried out. */
static void worker_claim_prepare(struct worker *worker, struct inflight_job *job,
                                 enum job_life_event what,
                                 const struct status_store_answer *answer) {
    switch (what) {
    case JOB_LIFE_IS_NEW: crash_point("claimed"); break;
    case JOB_LIFE_IS_SEALED: worker_outcome_adopt(worker, job, answer->sealed); break;
    case JOB_LIFE_IS_POISON:
        worker->stats.poisoned++;
        error_set(&job->error, ERROR_POISON, NULL, "%u workers died while they ran it",
                  (unsigned)answer->deaths);
        break;
    case JOB_LIFE_IS_CONFLICT: worker_claim_conflict(worker, job); break;
    default: break;
    }
}

/* The claim has been answered NEW for want of an answer, and work has begun. */
static void worker_claim_answered_late(struct worker *worker, struct inflight_job *job,
                                       const struct status_store_answer *answer) {
    if (job == NULL || job->life.state == JOB_LIFE_CLAIMING || job->life.state == JOB_LIFE_PARKED) {
        return; /* of a claim before this one */
    }
    worker_claim_note(worker, job, answer);
    if (answer->claimed == STATUS_STORE_NEW || job->is_malformed ||
        job->life.state == JOB_LIFE_STOPPING || job->life.state > JOB_LIFE_STOPPING) {
        return; /* it is known now; or on its way out: the seal decides */
    }
    enum job_life_event what = worker_claim_event(worker, job, answer);
    worker_claim_prepare(worker, job, what, answer);
    worker_life(worker, job, what);
}

void worker_claim_answered(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer) {
    if (answer->is_late) {
        worker_claim_answered_late(worker, job, answer);
        return;
    }
    assert(job != NULL); /* every ticket waits for its claim's answer */
    uint64_t ticket = job->ticket;
    enum job_life_event what = worker_claim_event(worker, job, answer);
    if (what != JOB_LIFE_IS_HELD_HERE) {
        worker_claim_note(worker, job, answer);
    }
    worker_claim_prepare(worker, job, what, answer);
    worker_life(worker, job, what);
    if (answer->cancel_requested && inflight_find(&worker->inflight, ticket) == job &&
        job->called_off == FINISH_STOP) {
        worker_cancel(worker, job);
    } else if (inflight_find(&worker->inflight, ticket) == job) {
        worker_cancel_claimed(worker, job);
    }
}

/* ---- parked ---- */

void worker_claim_park(struct worker *worker, struct inflight_job *job) {
    int64_t ms = (int64_t)PARK_MS_MIN << (job->times_parked < 16 ? job->times_parked : 16);
    int64_t ms_max = worker->lease_ns / CLOCK_NS_PER_MS / PARK_LEASE_SHARE;
    bool is_at_once = job->lease_left_ms == 0 && job->times_parked == 0;
    ms = ms < ms_max ? ms : ms_max;
    if (job->lease_left_ms > 0 && job->lease_left_ms < ms) {
        ms = job->lease_left_ms;
    }
    job->times_parked++;
    deadline_heap_set(&worker->due, inflight_slot(&worker->inflight, job),
                      clock_monotonic_ns(worker->options.clock) +
                          (is_at_once ? 0 : ms * CLOCK_NS_PER_MS));
}
