#include "tests/support/delivery_link.h"

#include <assert.h>
#include <string.h>

void delivery_link_call(struct delivery_worker *worker, const struct delivery_job *job,
                        enum status_script script) {
    struct delivery_call call = {.script = script,
                                 .ticket = job->ticket,
                                 .id = job->id,
                                 .content = job->content,
                                 .attempt = job->attempt,
                                 .source = job->refs[0],
                                 .state = job->state};
    memcpy(call.result, job->result, sizeof call.result);
    bool is_kept = script == STATUS_SCRIPT_FINISH || script == STATUS_SCRIPT_RELEASE;
    if (worker->is_linked) {
        assert(worker->call_count < DELIVERY_QUEUE);
        worker->calls[worker->call_count++] = call;
    } else if (is_kept) {
        assert(worker->backlog_count < DELIVERY_QUEUE);
        worker->backlog[worker->backlog_count++] = call;
    }
}

/* What a worker is told that has nobody to ask. */
static void delivery_link_unreached(struct delivery_worker *worker, struct delivery_job *job,
                                    enum status_script script) {
    worker->world->is_open[job->id] = true;
    switch (script) {
    case STATUS_SCRIPT_CLAIM:
        delivery_worker_take(worker, job,
                             job->is_malformed ? JOB_LIFE_IS_MALFORMED : JOB_LIFE_IS_NEW);
        break;
    case STATUS_SCRIPT_SEAL: delivery_worker_take(worker, job, JOB_LIFE_SEAL_HOLDS); break;
    case STATUS_SCRIPT_FINISH:
        if (job->life.state == JOB_LIFE_FINISHING) {
            delivery_worker_take(worker, job, JOB_LIFE_WRITE);
        }
        break;
    default: break;
    }
}

void delivery_link_ask(struct delivery_worker *worker, struct delivery_job *job,
                       enum status_script script) {
    delivery_link_call(worker, job, script);
    if (!worker->is_linked) {
        delivery_link_unreached(worker, job, script);
    }
}

bool delivery_link_serve(struct delivery_worker *worker) {
    for (int i = 0; i < worker->call_count; i++) {
        if (!worker->calls[i].is_applied) {
            if (worker->world->is_redis_up) {
                delivery_world_apply(worker->world, worker->incarnation, &worker->calls[i]);
            }
            return worker->world->is_redis_up;
        }
    }
    return false;
}

static void delivery_link_adopt(struct delivery_job *job,
                                const struct status_model_answer *answer) {
    job->state = answer->outcome.state;
    memcpy(job->result, answer->outcome.result, sizeof job->result);
}

/* HERE, and not here any more: let go, and ask again. */
static void delivery_link_held_here(struct delivery_worker *worker, struct delivery_job *job,
                                    int64_t attempt) {
    if (delivery_worker_other(worker, job) != NULL) {
        delivery_worker_take(worker, job, JOB_LIFE_IS_HELD_HERE);
        return;
    }
    job->attempt = attempt;
    delivery_link_call(worker, job, STATUS_SCRIPT_RELEASE);
    delivery_worker_do(worker, job, JOB_LIFE_DO_CLAIM);
}

static void delivery_link_claimed(struct delivery_worker *worker, struct delivery_job *job,
                                  const struct delivery_call *call) {
    const struct status_model_answer *answer = &call->answer;
    bool is_ours = answer->code == STATUS_SCRIPT_NEW || answer->code == STATUS_SCRIPT_SEALED ||
                   answer->code == STATUS_SCRIPT_POISON;
    (call->is_late ? worker->coverage->late_claims : worker->coverage->claims)[-answer->code]++;
    if (is_ours) {
        job->attempt = answer->attempt;
        job->deaths = answer->deaths;
    }
    switch (answer->code) {
    case STATUS_SCRIPT_NEW:
        if (!call->is_late) {
            delivery_worker_take(worker, job,
                                 job->is_malformed ? JOB_LIFE_IS_MALFORMED : JOB_LIFE_IS_NEW);
        }
        break;
    case STATUS_SCRIPT_SEALED:
        if (job->life.state < JOB_LIFE_STOPPING) {
            delivery_link_adopt(job, answer);
        }
        delivery_worker_take(worker, job, JOB_LIFE_IS_SEALED);
        break;
    case STATUS_SCRIPT_POISON: delivery_worker_take(worker, job, JOB_LIFE_IS_POISON); break;
    case STATUS_SCRIPT_LOST: delivery_worker_take(worker, job, JOB_LIFE_IS_DONE); break;
    case STATUS_SCRIPT_CONFLICT: delivery_worker_take(worker, job, JOB_LIFE_IS_CONFLICT); break;
    case STATUS_SCRIPT_HERE:
        if (!call->is_late) {
            delivery_link_held_here(worker, job, answer->attempt);
        }
        break;
    case STATUS_SCRIPT_ELSEWHERE:
        if (!call->is_late) {
            job->due_ms = worker->world->now_ms + answer->lease_left_ms;
            delivery_worker_take(worker, job,
                                 delivery_worker_is(worker, DELIVERY_SETTLES_WHAT_ANOTHER_RUNS)
                                     ? JOB_LIFE_IS_DONE
                                     : JOB_LIFE_IS_HELD_ELSEWHERE);
        }
        break;
    default: assert(0 && "no such answer to a claim");
    }
}

/* An attempt that was given to a ticket that is gone. */
static void delivery_link_let_go(struct delivery_worker *worker, const struct delivery_call *call) {
    struct delivery_job gone = {.ticket = call->ticket,
                                .id = call->id,
                                .content = call->content,
                                .attempt = call->answer.attempt,
                                .refs[0] = call->source};
    bool is_given = call->answer.code == STATUS_SCRIPT_NEW ||
                    call->answer.code == STATUS_SCRIPT_SEALED ||
                    call->answer.code == STATUS_SCRIPT_POISON;
    if (call->script == STATUS_SCRIPT_CLAIM && is_given) {
        delivery_link_call(worker, &gone, STATUS_SCRIPT_RELEASE);
    }
}

static void delivery_link_sealed(struct delivery_worker *worker, struct delivery_job *job,
                                 const struct status_model_answer *answer) {
    worker->coverage->seals[answer->code > 0 ? DELIVERY_ANSWERS : -answer->code]++;
    switch (answer->code) {
    case STATUS_SCRIPT_LOST: delivery_worker_take(worker, job, JOB_LIFE_SEAL_TERMINAL); break;
    case STATUS_SCRIPT_CONFLICT: delivery_worker_take(worker, job, JOB_LIFE_SEAL_CONFLICT); break;
    case STATUS_SCRIPT_SEALED:
        if (!delivery_worker_is(worker, DELIVERY_PUBLISHES_ITS_OWN_OVER_THE_SEALED)) {
            delivery_link_adopt(job, answer);
        }
        delivery_worker_take(worker, job, JOB_LIFE_SEAL_OLDER);
        break;
    default: delivery_worker_take(worker, job, JOB_LIFE_SEAL_HOLDS); break;
    }
}

bool delivery_link_hear(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || worker->call_count == 0 || !worker->calls[0].is_applied) {
        return false;
    }
    struct delivery_call call = worker->calls[0];
    memmove(worker->calls, worker->calls + 1, (size_t)--worker->call_count * sizeof call);
    struct delivery_job *job = delivery_worker_find(worker, call.ticket);
    if (job == NULL) {
        delivery_link_let_go(worker, &call);
    } else if (call.script == STATUS_SCRIPT_CLAIM) {
        delivery_link_claimed(worker, job, &call);
    } else if (call.script == STATUS_SCRIPT_SEAL) {
        delivery_link_sealed(worker, job, &call.answer);
    } else if (call.script == STATUS_SCRIPT_FINISH && job->life.state == JOB_LIFE_FINISHING) {
        delivery_worker_take(worker, job, JOB_LIFE_WRITE);
    }
    return true;
}

bool delivery_link_expire(struct delivery_worker *worker) {
    for (int i = 0; i < worker->call_count && delivery_worker_acts(worker); i++) {
        struct delivery_call *call = &worker->calls[i];
        struct delivery_job *job = delivery_worker_find(worker, call->ticket);
        if (call->script == STATUS_SCRIPT_CLAIM && !call->is_late && job != NULL) {
            call->is_late = true;
            delivery_link_unreached(worker, job, STATUS_SCRIPT_CLAIM);
            return true;
        }
    }
    return false;
}

/* What was under way may have been run or not; what must not be lost is kept. */
bool delivery_link_cut(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || !worker->is_linked) {
        return false;
    }
    struct delivery_call lost[DELIVERY_QUEUE];
    int count = worker->call_count;
    memcpy(lost, worker->calls, (size_t)count * sizeof lost[0]);
    worker->call_count = 0;
    worker->is_linked = false;
    for (int i = 0; i < count; i++) {
        bool is_kept =
            lost[i].script == STATUS_SCRIPT_FINISH || lost[i].script == STATUS_SCRIPT_RELEASE;
        if (is_kept) {
            lost[i].is_applied = false;
            assert(worker->backlog_count < DELIVERY_QUEUE);
            worker->backlog[worker->backlog_count++] = lost[i];
        }
        struct delivery_job *job = delivery_worker_find(worker, lost[i].ticket);
        if (job != NULL && !lost[i].is_late) {
            delivery_link_unreached(worker, job, lost[i].script);
        }
    }
    return true;
}

bool delivery_link_open(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || worker->is_linked || !worker->world->is_redis_up) {
        return false;
    }
    worker->is_linked = true;
    memcpy(worker->calls, worker->backlog, (size_t)worker->backlog_count * sizeof worker->calls[0]);
    worker->call_count = worker->backlog_count;
    worker->backlog_count = 0;
    return true;
}

/* All at once. What waits behind other calls is not renewed: it would come too late as well. */
bool delivery_link_renew(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || !worker->is_linked || worker->call_count > 0 ||
        !worker->world->is_redis_up) {
        return false;
    }
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        struct delivery_job *job = &worker->jobs[i];
        if (job->is_used && job_life_needs_lease(&job->life) && job->attempt > 0) {
            struct delivery_call call = {.script = STATUS_SCRIPT_RENEW,
                                         .id = job->id,
                                         .content = job->content,
                                         .attempt = job->attempt};
            delivery_world_apply(worker->world, worker->incarnation, &call);
            if (call.answer.code == STATUS_SCRIPT_LOST) {
                delivery_worker_take(worker, job, JOB_LIFE_LOSE);
            }
        }
    }
    worker->world->incarnations[worker->incarnation].last_renewed_ms = worker->world->now_ms;
    return true;
}
