#include "consumer/worker_life.h"

#include <assert.h>

#include "consumer/worker_claim.h"
#include "consumer/worker_deadline.h"
#include "consumer/worker_outcome.h"
#include "consumer/worker_publish.h"
#include "consumer/worker_run.h"
#include "consumer/worker_state.h"

/* ---- ends ---- */

/* Nothing more is needed here; settled or not, the records go. */
static void worker_life_forget(struct worker *worker, struct inflight_job *job) {
    kafka_source_release(&job->record);
    inflight_remove(&worker->inflight, job);
}

static void worker_life_settle(struct worker *worker, struct inflight_job *job) {
    for (const struct inflight_source *at = &job->source; at != NULL; at = at->next) {
        kafka_source_settle(worker->source, &at->ref);
    }
    worker_life_forget(worker, job);
}

static void worker_life_give_back(struct worker *worker, struct inflight_job *job) {
    worker->stats.given_back++;
    worker->stats.given_back_in_drain += worker->is_draining;
    if (job->is_claimed) {
        status_store_release(worker->store, job->request_id, job->attempt);
    }
    worker_life_forget(worker, job);
}

/* The ticket that has the job answers for these records, too. */
static void worker_life_join(struct worker *worker, struct inflight_job *job) {
    struct inflight_job *holder = inflight_holder(&worker->inflight, job->request_id);
    assert(holder != NULL && holder != job); /* it was found before it was joined */
    worker->stats.joined++;
    for (const struct inflight_source *at = &job->source; at != NULL; at = at->next) {
        inflight_join(holder, &at->ref);
    }
    worker_life_forget(worker, job);
    worker_life(worker, holder, JOB_LIFE_JOIN);
    if (holder->life.state == JOB_LIFE_RUNNING) { /* an orphan no longer: its grace has no end */
        deadline_heap_remove(&worker->due, inflight_slot(&worker->inflight, holder));
    }
}

/* ---- what is to be done ---- */

static void worker_life_act(struct worker *worker, struct inflight_job *job,
                            enum job_life_action action, struct engine_event *event) {
    switch (action) {
    case JOB_LIFE_NOTHING: break;
    case JOB_LIFE_DO_CLAIM: worker_claim_ask(worker, job); break;
    case JOB_LIFE_DO_PARK: worker_claim_park(worker, job); break;
    case JOB_LIFE_DO_WAIT: worker_run_enqueue(worker, job); break;
    case JOB_LIFE_DO_WAIT_AGAIN: worker_run_enqueue_again(worker, job); break;
    case JOB_LIFE_DO_REST: worker_run_rest(worker, job); break;
    case JOB_LIFE_DO_NOTE_START: worker_run_note_start(worker, job, event); break;
    case JOB_LIFE_DO_STOP: worker_run_stop(worker, job, FINISH_CANCELLED); break;
    case JOB_LIFE_DO_CALL_OFF: worker_run_stop(worker, job, job->called_off); break;
    case JOB_LIFE_DO_SEAL: worker_outcome_answer(worker, job, event); break;
    case JOB_LIFE_DO_FAIL: worker_outcome_fail(worker, job); break;
    case JOB_LIFE_DO_FAIL_AND_LETTER:
        job->outcome.letter_unsent = true;
        worker_outcome_fail(worker, job);
        break;
    case JOB_LIFE_DO_END_UNRUN: worker_outcome_call_off(worker, job); break;
    case JOB_LIFE_DO_LETTER: worker_publish_letter(worker, job); break;
    case JOB_LIFE_DO_PUBLISH:
    case JOB_LIFE_DO_PUBLISH_SEALED: worker_publish_result(worker, job); break;
    case JOB_LIFE_DO_FINISH: worker_outcome_finish(worker, job); break;
    case JOB_LIFE_DO_JOIN: worker_life_join(worker, job); break;
    case JOB_LIFE_DO_SETTLE_AS_DONE: worker->stats.duplicates++; /* fall through */
    case JOB_LIFE_DO_SETTLE: worker_life_settle(worker, job); break;
    case JOB_LIFE_DO_GIVE_BACK: worker_life_give_back(worker, job); break;
    case JOB_LIFE_DO_FORGET: worker_life_forget(worker, job); break;
    case JOB_LIFE_IMPOSSIBLE:
    case JOB_LIFE_ACTION_COUNT: assert(!"an event that cannot happen in this state");
    }
}

/* Enters the job among those in this state, or takes it out. */
static void worker_life_count(struct worker *worker, const struct inflight_job *job,
                              enum job_life_state state, int32_t by) {
    bool is_in_engine = job_life_is_in_engine(&(struct job_life){.state = state});
    worker->stats.parked += (uint32_t)(state == JOB_LIFE_PARKED ? by : 0);
    worker->in_engine += (uint32_t)(is_in_engine ? by : 0);
    worker->foretold_in_engine += (uint32_t)(is_in_engine && job->is_foretold ? by : 0);
}

void worker_life_end(struct worker *worker, struct inflight_job *job, enum job_life_event what,
                     struct engine_event *event) {
    enum job_life_state before = job->life.state;
    enum job_life_action action = job_life_take(&job->life, what);
    if (job->life.state != before) {
        worker_life_count(worker, job, before, -1);
        worker_life_count(worker, job, job->life.state, 1);
        inflight_list_remove(job);
        worker_run_leave_queue(worker, job);
        deadline_heap_remove(&worker->due, inflight_slot(&worker->inflight, job));
        worker_deadline_follow(worker, job);
        if (what == JOB_LIFE_EXPIRE && before == JOB_LIFE_ADMITTED) {
            worker->left_in_engine++;
        } else if (!job_life_is_in_engine(&job->life) && job->ticket == worker->alone_ticket) {
            worker->alone_ticket = 0;
        }
    }
    worker_life_act(worker, job, action, event);
}

void worker_life(struct worker *worker, struct inflight_job *job, enum job_life_event what) {
    worker_life_end(worker, job, what, NULL);
}
