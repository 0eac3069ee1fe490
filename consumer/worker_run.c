#include "consumer/worker_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker_life.h"
#include "consumer/worker_state.h"

#define EVENTS_PER_TAKE 64
#define REST_MS_MIN 100 /* doubled with each failure of the engine */
#define REST_DOUBLINGS_MAX 6
#define FAILURES_IN_A_ROW_MAX 3
/* Of records in one step: they are made tokens, a microsecond a byte at worst (one endless word),
 * and nothing else is done meanwhile. */
#define SUBMIT_BYTES_MAX (128u << 10)

/* ---- the way in ---- */

/* How long its prompt is nobody knows yet: about four bytes are a token. */
static void worker_run_queue(struct worker *worker, struct inflight_job *job) {
    struct wait_queue_item item = {.prompt_tokens = (uint32_t)(job->value_bytes / 4 + 1),
                                   .level = job->job.priority,
                                   .arrival_ns = clock_monotonic_ns(worker->options.clock),
                                   .number = worker->queued_count++};
    item.tokens = item.prompt_tokens + job->job.params.max_tokens;
    bool numbered = job_tenant_number(&job->job, &item.tenant);
    assert(numbered); /* fails only without memory */
    (void)numbered;
    wait_queue_add(&worker->waiting, inflight_slot(&worker->inflight, job), &item);
    job->is_queued = true;
}

void worker_run_enqueue(struct worker *worker, struct inflight_job *job) {
    if (job->deaths > 0) {
        inflight_list_append(&worker->suspects, job);
    } else {
        worker_run_queue(worker, job);
    }
}

void worker_run_leave_queue(struct worker *worker, struct inflight_job *job) {
    if (job->is_queued) {
        wait_queue_remove(&worker->waiting, inflight_slot(&worker->inflight, job));
    }
    job->is_queued = false;
}

void worker_run_enqueue_again(struct worker *worker, struct inflight_job *job) {
    const struct record *record = &job->record;
    assert(!job->has_job);
    enum error_code code =
        job_decode(record->value, record->value_bytes, &worker->limits, &job->job, &job->error);
    assert(code == ERROR_NONE); /* it was before */
    (void)code;
    job->has_job = true;
    job->job.deadline_ns = job->deadline_ns;
    worker_run_enqueue(worker, job);
}

/* The one that waits behind it at its level; NULL = none. */
static struct inflight_job *worker_run_behind(struct worker *worker, struct inflight_job *job) {
    uint32_t slot = inflight_slot(&worker->inflight, job);
    uint32_t next = job->is_queued ? worker->waiting.entries[slot].links[WAIT_QUEUE_IN_LEVEL].next
                                   : WAIT_QUEUE_NONE;
    return next != WAIT_QUEUE_NONE ? &worker->inflight.jobs[next] : NULL;
}

/* Of those who are said to run no more are in the engine than may really run: if the process dies,
 * it counts as a death of each. */
static uint32_t worker_run_foretold_room(const struct worker *worker) {
    uint32_t most = (uint32_t)worker->config->max_batch_size;
    return most > worker->foretold_in_engine ? most - worker->foretold_in_engine : 0;
}

/* Says that it runs before it does: one that was claimed before may be what kills the process at
 * once, too soon for the engine to tell. So do those that will follow, in the same call; a suspect
 * is alone. */
static void worker_run_foretell(struct worker *worker, struct inflight_job *first) {
    uint32_t count = 0, most = worker_run_foretold_room(worker);
    for (struct inflight_job *job = first; job != NULL && count < most;
         job = worker_run_behind(worker, job)) {
        if (job->attempt > 1 && !job->is_foretold) {
            struct status_store_advance advance = {
                .request_id = job->request_id, .attempt = job->attempt, .started_unix_ms = -1};
            status_store_advance(worker->store, &advance);
            job->is_foretold = true;
            count++;
        }
    }
    status_store_flush(worker->store);
}

/* False when the engine has no room for it. */
static bool worker_run_admit(struct worker *worker, struct inflight_job *job) {
    if (job->attempt > 1 && worker_run_foretold_room(worker) == 0) {
        return false;
    }
    if (job->attempt > 1 && !job->is_foretold) {
        worker_run_foretell(worker, job);
    }
    enum engine_status status = engine_submit(worker->engine, job->ticket, &job->job, &job->error);
    if (status == ENGINE_BUSY || status == ENGINE_FAILED) {
        return false;
    }
    assert(status == ENGINE_OK || status == ENGINE_REJECTED);
    if (job->is_queued) {
        wait_queue_start(&worker->waiting, inflight_slot(&worker->inflight, job));
        job->is_queued = false;
    }
    job->has_job = status != ENGINE_OK;
    worker_life(worker, job, status == ENGINE_OK ? JOB_LIFE_ADMIT : JOB_LIFE_REJECT);
    return true;
}

static bool worker_run_engine_is_empty(const struct worker *worker) {
    return worker->in_engine + worker->left_in_engine == 0;
}

/* The engine is to be empty before a suspect, and to stay so beside it. */
static void worker_run_submit_suspect(struct worker *worker) {
    struct inflight_job *job = worker->suspects.head;
    if (!worker_run_engine_is_empty(worker)) {
        return;
    }
    worker->alone_ticket = job->ticket;
    if (!worker_run_admit(worker, job)) {
        worker->alone_ticket = 0;
    }
}

/* Ends that the engine had no room to be told of. */
static void worker_run_stop_again(struct worker *worker) {
    struct inflight_job *job = NULL;
    worker->has_unsent_stops = false;
    while ((job = inflight_next(&worker->inflight, job)) != NULL) {
        if (job->stop_is_unsent && job_life_is_in_engine(&job->life)) {
            worker_run_stop(worker, job,
                            job->called_off != FINISH_STOP ? job->called_off : FINISH_CANCELLED);
        }
    }
}

/* In the order of the wait queue, one by one: each is a step of its law. */
static void worker_run_submit_waiting(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    size_t bytes = 0;
    worker->engine_is_full = false;
    while (worker->waiting.count > 0) {
        wait_queue_begin_step(&worker->waiting, WAIT_QUEUE_NONE);
        uint32_t slot = wait_queue_peek(&worker->waiting, now_ns, WAIT_QUEUE_LEVELS);
        struct inflight_job *job = &worker->inflight.jobs[slot];
        bytes += job->value_bytes;
        if (!worker_run_admit(worker, job)) {
            worker->engine_is_full = true;
            return;
        }
        if (bytes > SUBMIT_BYTES_MAX) {
            worker->has_more |= worker->waiting.count > 0;
            return;
        }
    }
}

void worker_run_submit(struct worker *worker) {
    if (worker->has_unsent_stops) {
        worker_run_stop_again(worker);
    }
    worker->engine_is_full = worker->waiting.count > 0; /* unless it is asked, below */
    if (worker->engine_is_gone || worker->has_given_up) {
        return;
    }
    while (worker->suspects.head != NULL && worker_run_engine_is_empty(worker)) {
        worker_run_submit_suspect(worker);
        if (worker_run_engine_is_empty(worker) && worker->suspects.head != NULL) {
            break; /* not even alone, for now */
        }
    }
    if (worker->suspects.head != NULL || worker->alone_ticket != 0) {
        return;
    }
    worker_run_submit_waiting(worker);
}

void worker_run_stop(struct worker *worker, struct inflight_job *job, enum finish_reason reason) {
    job->stop_is_unsent = !engine_cancel(worker->engine, job->ticket, reason);
    worker->has_unsent_stops |= job->stop_is_unsent;
}

/* ---- what the engine says ---- */

static int64_t worker_run_unix_ms_of(const struct worker *worker, int64_t ns) {
    int64_t ago_ns = clock_monotonic_ns(worker->options.clock) - ns;
    return clock_unix_ms(worker->options.clock) - ago_ns / CLOCK_NS_PER_MS;
}

static void worker_run_note_progress(struct worker *worker, struct inflight_job *job,
                                     const struct engine_event *event) {
    job->prompt_tokens = event->usage.prompt_tokens;
    job->completion_tokens = event->usage.completion_tokens;
    if (job->list != &worker->progressing) {
        inflight_list_append(&worker->progressing, job);
    }
}

void worker_run_note_start(struct worker *worker, struct inflight_job *job,
                           const struct engine_event *event) {
    job->started_unix_ms = worker_run_unix_ms_of(worker, event->started_ns);
    worker_run_note_progress(worker, job, event);
}

static void worker_run_take_progress(struct worker *worker, struct inflight_job *job,
                                     struct engine_event *event) {
    if (job->life.state != JOB_LIFE_RUNNING) {
        return; /* it is being stopped */
    }
    if (event->text != NULL) {
        free(job->progress_text);
        job->progress_text = event->text;
        event->text = NULL;
    }
    worker_run_note_progress(worker, job, event);
}

/* Once for each job that has not ended in the same step: the others need no such status. */
static void worker_run_send_progress(struct worker *worker) {
    for (struct inflight_job *job; (job = inflight_list_take(&worker->progressing)) != NULL;) {
        struct status_store_advance advance = {.request_id = job->request_id,
                                               .attempt = job->attempt,
                                               .started_unix_ms = job->started_unix_ms,
                                               .prompt_tokens = job->prompt_tokens,
                                               .completion_tokens = job->completion_tokens,
                                               .text = job->progress_text};
        status_store_advance(worker->store, &advance);
        free(job->progress_text);
        job->progress_text = NULL;
    }
}

/* ---- an engine that fails ---- */

/* Those who were in the engine together fail together, which counts once: only what began after
 * the failure counted last says that it fails again. */
static void worker_run_note_failure(struct worker *worker, const struct engine_event *event) {
    worker->stats.engine_failures++;
    if (worker->failures_in_a_row > 0 && event->started_ns <= worker->failed_ns) {
        return;
    }
    worker->failed_ns = clock_monotonic_ns(worker->options.clock);
    worker->failures_in_a_row++;
    worker->has_given_up |= worker->failures_in_a_row >= FAILURES_IN_A_ROW_MAX;
    log_write(worker->options.log, LOG_LEVEL_ERROR, "engine.job_failed",
              LOG_FIELDS(log_text("error", event->error.message),
                         log_int("in_a_row", worker->failures_in_a_row)));
}

void worker_run_rest(struct worker *worker, struct inflight_job *job) {
    uint32_t doublings = job->engine_failures - 1;
    doublings = doublings < REST_DOUBLINGS_MAX ? doublings : REST_DOUBLINGS_MAX;
    int64_t rest_ns = ((int64_t)REST_MS_MIN << doublings) * CLOCK_NS_PER_MS;
    deadline_heap_set(&worker->due, inflight_slot(&worker->inflight, job),
                      clock_monotonic_ns(worker->options.clock) + rest_ns);
}

static enum job_life_event worker_run_judge_end(struct worker *worker, struct inflight_job *job,
                                                const struct engine_event *event) {
    if (event->finish_reason == FINISH_ERROR && event->error.code == ERROR_ENGINE_FAILED) {
        worker_run_note_failure(worker, event);
        job->engine_failures++;
        return job->engine_failures <= worker->config->engine_retries ? JOB_LIFE_BREAK
                                                                      : JOB_LIFE_END;
    }
    if (event->finish_reason == FINISH_CANCELLED && job->life.state == JOB_LIFE_STOPPING) {
        return JOB_LIFE_STOPPED;
    }
    worker->failures_in_a_row = 0;
    return JOB_LIFE_END;
}

/* Of a job that expired in the engine's queue, and is on its way out, or gone. */
static void worker_run_forget_left(struct worker *worker, const struct engine_event *event) {
    assert(worker->left_in_engine > 0);
    if (event->kind == ENGINE_EVENT_FINISHED) {
        worker->left_in_engine--;
        if (event->ticket == worker->alone_ticket) {
            worker->alone_ticket = 0;
        }
    }
}

static void worker_run_take_event(struct worker *worker, struct engine_event *event) {
    struct inflight_job *job = inflight_find(&worker->inflight, event->ticket);
    if (job == NULL || !job_life_is_in_engine(&job->life)) {
        worker_run_forget_left(worker, event);
        return;
    }
    switch (event->kind) {
    case ENGINE_EVENT_STARTED: worker_life_end(worker, job, JOB_LIFE_START, event); break;
    case ENGINE_EVENT_PROGRESS: worker_run_take_progress(worker, job, event); break;
    case ENGINE_EVENT_FINISHED:
        worker_life_end(worker, job, worker_run_judge_end(worker, job, event), event);
        break;
    }
}

void worker_run_take_events(struct worker *worker) {
    struct engine_event events[EVENTS_PER_TAKE];
    size_t count;
    if (worker->engine_is_gone) {
        return;
    }
    while ((count = engine_take_events(worker->engine, events, EVENTS_PER_TAKE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            worker_run_take_event(worker, &events[i]);
            engine_event_deinit(&events[i]);
        }
    }
    worker_run_send_progress(worker);
}
