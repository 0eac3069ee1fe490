#include "tests/support/delivery_engine.h"

#include "tests/support/delivery_link.h"

static bool engine_job_is_any(const struct delivery_job *job) {
    return job->is_used;
}

static bool engine_job_waits(const struct delivery_job *job) {
    return job->life.state == JOB_LIFE_WAITING;
}

static bool engine_job_is_in_engine(const struct delivery_job *job) {
    return job_life_is_in_engine(&job->life);
}

static bool engine_job_is_orphan(const struct delivery_job *job) {
    return job->life.is_orphan;
}

static bool engine_job_sleeps(const struct delivery_job *job) {
    return job->life.state == JOB_LIFE_PARKED || job->life.state == JOB_LIFE_RESTING;
}

static void delivery_engine_check_suspects(struct delivery_worker *worker) {
    int count = 0, suspects = 0;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *job = &worker->jobs[i];
        bool runs = job->is_used && engine_job_is_in_engine(job);
        count += runs;
        suspects += runs && job->is_suspect;
    }
    if (suspects > 0 && count > 1) {
        delivery_world_violate(worker->world, "a suspect runs alone");
    }
}

bool delivery_engine_admit(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_waits);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    bool is_suspect = job->deaths > 0;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *other = &worker->jobs[i];
        if (other->is_used && engine_job_is_in_engine(other) && (is_suspect || other->is_suspect) &&
            !delivery_worker_is(worker, DELIVERY_RUNS_SUSPECTS_WITH_OTHERS)) {
            return false;
        }
    }
    if (job->attempt > 1 && !job->has_begun) { /* said before it is so: see worker_run */
        job->has_begun = true;
        delivery_link_call(worker, job, STATUS_SCRIPT_ADVANCE);
    }
    if (delivery_world_below(worker->world, 4) == 0) {
        return true; /* the engine is full */
    }
    if (delivery_world_below(worker->world, 32) == 0) {
        delivery_worker_take(worker, job, JOB_LIFE_REJECT);
        return true;
    }
    job->is_suspect = is_suspect;
    delivery_worker_take(worker, job, JOB_LIFE_ADMIT);
    delivery_engine_check_suspects(worker);
    return true;
}

bool delivery_engine_compute(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_is_in_engine);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    bool is_poison = job->id == worker->world->poison && job->content == 0;
    switch (job->life.state) {
    case JOB_LIFE_ADMITTED: delivery_worker_take(worker, job, JOB_LIFE_START); return true;
    case JOB_LIFE_RUNNING:
        if (!is_poison) {
            delivery_worker_take(worker, job, JOB_LIFE_END);
        }
        return !is_poison;
    default:
        delivery_worker_take(worker, job,
                             delivery_world_below(worker->world, 4) == 0 && !is_poison
                                 ? JOB_LIFE_END
                                 : JOB_LIFE_STOPPED);
        return true;
    }
}

bool delivery_engine_break(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_is_in_engine);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_BREAK);
    return true;
}

bool delivery_engine_call_off(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_is_any);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_CALL_OFF);
    return true;
}

bool delivery_engine_give_up(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_is_orphan);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_GIVE_UP);
    return true;
}

bool delivery_engine_due(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, engine_job_sleeps);
    if (!delivery_worker_acts(worker) || job == NULL || job->due_ms > worker->world->now_ms ||
        delivery_worker_is(worker, DELIVERY_NEVER_ASKS_AGAIN)) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_DUE);
    return true;
}

bool delivery_engine_runs_poison(const struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *job = &worker->jobs[i];
        if (job->is_used && job->life.state == JOB_LIFE_RUNNING && job->content == 0 &&
            job->id == worker->world->poison) {
            return true;
        }
    }
    return false;
}
