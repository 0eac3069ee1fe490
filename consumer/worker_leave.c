#include "consumer/worker_leave.h"

#include "consumer/worker_life.h"
#include "consumer/worker_state.h"

/* ---- partitions that go ---- */

static bool worker_leave_owns(const struct worker *worker, const struct inflight_job *job) {
    for (const struct inflight_source *at = &job->source; at != NULL; at = at->next) {
        if (kafka_source_owns(worker->source, &at->ref)) {
            return true;
        }
    }
    return false;
}

static int64_t worker_leave_grace_end_ns(const struct worker *worker) {
    int64_t grace_ns = worker->config->revoke_grace_ms * CLOCK_NS_PER_MS;
    return worker->is_draining ? worker->drain_end_ns
                               : clock_monotonic_ns(worker->options.clock) + grace_ns;
}

static void worker_leave_orphan(struct worker *worker, struct inflight_job *job, int64_t end_ns) {
    uint64_t ticket = job->ticket;
    worker_life(worker, job, JOB_LIFE_ORPHAN);
    if (inflight_find(&worker->inflight, ticket) == job && job->life.state == JOB_LIFE_RUNNING) {
        deadline_heap_set(&worker->due, inflight_slot(&worker->inflight, job), end_ns);
    }
}

/* Those whose records are not ours any more; when we leave, all. */
static void worker_leave_look_over(struct worker *worker) {
    int64_t end_ns = worker_leave_grace_end_ns(worker);
    struct inflight_job *job = NULL;
    while ((job = inflight_next(&worker->inflight, job)) != NULL) {
        bool stays = !worker->has_asked_to_leave && worker_leave_owns(worker, job);
        if (!job->life.is_orphan && !stays) {
            worker_leave_orphan(worker, job, end_ns);
        }
    }
}

/* ---- time ---- */

void worker_leave_take_due(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    uint32_t slot;
    while (deadline_heap_take(&worker->due, now_ns, &slot)) {
        struct inflight_job *job = &worker->inflight.jobs[slot];
        worker_life(worker, job,
                    job->life.state == JOB_LIFE_RUNNING ? JOB_LIFE_GIVE_UP : JOB_LIFE_DUE);
    }
}

/* ---- the group ---- */

/* Everything that is not on its way out. */
static void worker_leave_give_back(struct worker *worker) {
    struct inflight_job *job = NULL;
    worker->is_giving_back = true;
    while ((job = inflight_next(&worker->inflight, job)) != NULL) {
        uint64_t ticket = job->ticket;
        worker_life(worker, job, JOB_LIFE_ORPHAN);
        if (inflight_find(&worker->inflight, ticket) == job) {
            bool is_stuck = worker->engine_is_gone && job_life_is_in_engine(&job->life);
            worker_life(worker, job, is_stuck ? JOB_LIFE_ENGINE_GONE : JOB_LIFE_GIVE_UP);
        }
    }
}

/* First of all, so that others go on with what has not begun here. But with Redis away they could
 * not know what runs here, and would compute it, too: then it is finished first. */
static bool worker_leave_is_time(const struct worker *worker, int64_t now_ns) {
    struct status_store_stats store;
    status_store_stats(worker->store, &store);
    bool is_finished = worker->inflight.count == 0 && kafka_source_is_committed(worker->source);
    return store.is_up || is_finished || now_ns >= worker->drain_end_ns;
}

static void worker_leave_drain(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    if (!worker->has_asked_to_leave && worker_leave_is_time(worker, now_ns)) {
        worker->has_asked_to_leave = true;
        kafka_source_leave(worker->source);
        worker_leave_look_over(worker);
    }
    bool has_died = !worker->engine_is_gone && engine_has_failed(worker->engine, NULL, 0);
    worker->engine_is_gone |= has_died;
    if (has_died || (!worker->is_giving_back && now_ns >= worker->drain_end_ns)) {
        worker_leave_give_back(worker);
    }
}

void worker_leave_step(struct worker *worker) {
    if (worker->is_draining) {
        worker_leave_drain(worker);
    }
    if (kafka_source_take_revoked(worker->source)) {
        worker_leave_look_over(worker);
    }
}
