#include "tests/support/delivery_worker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool delivery_worker_is(const struct delivery_worker *worker,
                               enum delivery_mutation mutation) {
    return worker->world->mutation == mutation;
}

static bool delivery_worker_acts(const struct delivery_worker *worker) {
    return worker->is_alive && !worker->is_frozen;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static struct delivery_job *delivery_worker_find(struct delivery_worker *worker, uint64_t ticket) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        if (worker->jobs[i].is_used && worker->jobs[i].ticket == ticket) {
            return &worker->jobs[i];
        }
    }
    return NULL;
}

/* A job in that state, at random; NULL when there is none. */
static struct delivery_job *delivery_worker_pick(struct delivery_worker *worker,
                                                 bool (*fits)(const struct delivery_job *job)) {
    uint32_t first = delivery_world_below(worker->world, DELIVERY_JOBS);
    for (uint32_t i = 0; i < DELIVERY_JOBS; i++) {
        struct delivery_job *job = &worker->jobs[(first + i) % DELIVERY_JOBS];
        if (job->is_used && fits(job)) {
            return job;
        }
    }
    return NULL;
}

static struct delivery_job *delivery_worker_add(struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        if (!worker->jobs[i].is_used) {
            worker->jobs[i] = (struct delivery_job){.is_used = true, .ticket = ++worker->tickets};
            return &worker->jobs[i];
        }
    }
    return NULL;
}

static void delivery_worker_join(struct delivery_job *job, const struct source_ref *ref) {
    assert(job->ref_count < DELIVERY_REFS);
    job->refs[job->ref_count++] = *ref;
}

static void delivery_worker_settle(struct delivery_worker *worker, struct delivery_job *job) {
    for (int i = 0; i < job->ref_count; i++) {
        bool released;
        (void)partition_table_settle(&worker->table, &job->refs[i], &released);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void delivery_worker_take(struct delivery_worker *worker, struct delivery_job *job,
                                 enum job_life_event event);

static void delivery_worker_call(struct delivery_worker *worker, const struct delivery_job *job,
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
static void delivery_worker_unreached(struct delivery_worker *worker, struct delivery_job *job,
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

static void delivery_worker_ask(struct delivery_worker *worker, struct delivery_job *job,
                                enum status_script script) {
    delivery_worker_call(worker, job, script);
    if (!worker->is_linked) {
        delivery_worker_unreached(worker, job, script);
    }
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void delivery_worker_send(struct delivery_worker *worker, const struct delivery_job *job,
                                 bool is_letter) {
    assert(worker->send_count < DELIVERY_QUEUE);
    struct delivery_send *send = &worker->sends[worker->send_count++];
    *send = (struct delivery_send){
        .ticket = job->ticket, .is_letter = is_letter, .id = job->id, .content = job->content};
    memcpy(send->result, job->result, sizeof send->result);
}

static void delivery_worker_publish(struct delivery_worker *worker, struct delivery_job *job) {
    if (job->needs_result) {
        delivery_worker_send(worker, job, false);
    }
    if (job->needs_letter) {
        delivery_worker_send(worker, job, true);
    }
    if (delivery_worker_is(worker, DELIVERY_COMMITS_BEFORE_THE_ACKNOWLEDGEMENT)) {
        delivery_worker_settle(worker, job);
    }
    if (delivery_worker_is(worker, DELIVERY_FINISHES_BEFORE_PUBLISHING) && job->needs_result) {
        delivery_worker_call(worker, job, STATUS_SCRIPT_FINISH);
    }
}

/* The answer is what the job determines; the rest of a result is not the same twice. */
static void delivery_worker_make(struct delivery_worker *worker, struct delivery_job *job,
                                 const char *answer, enum status_state state) {
    job->state = state;
    job->needs_result = true;
    snprintf(job->result, sizeof job->result, "%s%d.%d|%u.%llu", answer, job->id, job->content,
             worker->incarnation, (unsigned long long)job->ticket);
}

static void delivery_worker_seal(struct delivery_worker *worker, struct delivery_job *job) {
    if (delivery_worker_is(worker, DELIVERY_PUBLISHES_UNSEALED)) {
        delivery_worker_take(worker, job, JOB_LIFE_SEAL_HOLDS);
    } else {
        delivery_worker_ask(worker, job, STATUS_SCRIPT_SEAL);
    }
}

/* ---- what job_life says ---------------------------------------------------------------------- */

static struct delivery_job *delivery_worker_other(struct delivery_worker *worker,
                                                  const struct delivery_job *job) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        struct delivery_job *other = &worker->jobs[i];
        if (other->is_used && other != job && other->id == job->id &&
            other->content == job->content && other->attempt > 0) {
            return other;
        }
    }
    return NULL;
}

static void delivery_worker_do(struct delivery_worker *worker, struct delivery_job *job,
                               enum job_life_action action) {
    switch (action) {
    case JOB_LIFE_DO_CLAIM:
        job->attempt = job->deaths = 0;
        job->has_begun = job->is_suspect = job->is_called_off = false;
        delivery_worker_ask(worker, job, STATUS_SCRIPT_CLAIM);
        break;
    case JOB_LIFE_DO_NOTE_START:
        job->has_begun = true;
        delivery_worker_call(worker, job, STATUS_SCRIPT_ADVANCE);
        break;
    case JOB_LIFE_DO_CALL_OFF: job->is_called_off = true; break;
    case JOB_LIFE_DO_SEAL:
        delivery_worker_make(worker, job, job->is_called_off ? "cancelled " : "a",
                             job->is_called_off ? STATUS_CANCELLED : STATUS_DONE);
        delivery_worker_seal(worker, job);
        break;
    case JOB_LIFE_DO_END_UNRUN:
        delivery_worker_make(worker, job, "cancelled ", STATUS_CANCELLED);
        delivery_worker_seal(worker, job);
        break;
    case JOB_LIFE_DO_FAIL_AND_LETTER: job->needs_letter = true; /* fall through */
    case JOB_LIFE_DO_FAIL:
        delivery_worker_make(worker, job, "failed ", STATUS_FAILED);
        delivery_worker_seal(worker, job);
        break;
    case JOB_LIFE_DO_LETTER:
        job->needs_letter = true;
        job->needs_result = false;
        delivery_worker_publish(worker, job);
        break;
    case JOB_LIFE_DO_PUBLISH_SEALED: job->needs_result = true; /* fall through */
    case JOB_LIFE_DO_PUBLISH: delivery_worker_publish(worker, job); break;
    case JOB_LIFE_DO_FINISH: delivery_worker_ask(worker, job, STATUS_SCRIPT_FINISH); break;
    case JOB_LIFE_DO_SETTLE:
    case JOB_LIFE_DO_SETTLE_AS_DONE: delivery_worker_settle(worker, job); break;
    case JOB_LIFE_DO_GIVE_BACK:
        if (job->attempt > 0 && !delivery_worker_is(worker, DELIVERY_FORGETS_WITHOUT_RELEASING)) {
            delivery_worker_call(worker, job, STATUS_SCRIPT_RELEASE);
        }
        break;
    case JOB_LIFE_IMPOSSIBLE:
        delivery_world_violate(worker->world, "no event is impossible for job_life");
        break;
    default: break;
    }
}

/* One more record of an id that another ticket has. */
static void delivery_worker_hand_over(struct delivery_worker *worker, struct delivery_job *job) {
    struct delivery_job *other = delivery_worker_other(worker, job);
    assert(other != NULL);
    for (int i = 0; i < job->ref_count; i++) {
        delivery_worker_join(other, &job->refs[i]);
    }
    delivery_worker_take(worker, other, JOB_LIFE_JOIN);
}

static void delivery_worker_take(struct delivery_worker *worker, struct delivery_job *job,
                                 enum job_life_event event) {
    uint64_t ticket = job->ticket;
    enum job_life_state from = job->life.state;
    enum job_life_action action = job_life_take(&job->life, event);
    worker->coverage->actions[action]++;
    delivery_world_tell(worker->world,
                        "w%d, ticket %llu of %d.%d: state %d, event %d: action %d, %d",
                        worker->number, (unsigned long long)ticket, job->id, job->content,
                        (int)from, (int)event, (int)action, (int)job->life.state);
    if (action == JOB_LIFE_DO_JOIN) {
        delivery_worker_hand_over(worker, job);
    }
    delivery_worker_do(worker, job, action);
    if (job->ticket == ticket && job->life.state == JOB_LIFE_GONE) {
        job->is_used = false;
    }
}

/* ---- records --------------------------------------------------------------------------------- */

bool delivery_worker_receive(struct delivery_worker *worker) {
    int number = (int)delivery_world_below(worker->world, DELIVERY_PARTITIONS);
    const struct delivery_partition *partition = &worker->world->partitions[number];
    if (!delivery_worker_acts(worker) || !partition_table_is_assigned(&worker->table, number)) {
        return false;
    }
    int next = 0;
    while (next < partition->count && partition->log[next].offset < worker->position[number]) {
        next++;
    }
    struct delivery_job *job = next < partition->count ? delivery_worker_add(worker) : NULL;
    if (job == NULL) {
        return false;
    }
    const struct delivery_record *record = &partition->log[next];
    struct source_ref ref;
    bool entered = partition_table_enter(&worker->table, number, record->offset, &ref);
    assert(entered);
    worker->position[number] = record->offset + 1;
    job->id = record->id;
    job->content = record->content;
    job->is_malformed = record->is_malformed;
    delivery_worker_join(job, &ref);
    delivery_worker_do(worker, job, JOB_LIFE_DO_CLAIM);
    return true;
}

static bool delivery_worker_is_orphan(const struct delivery_worker *worker,
                                      const struct delivery_job *job) {
    for (int i = 0; i < job->ref_count; i++) {
        if (partition_table_owns(&worker->table, &job->refs[i])) {
            return false;
        }
    }
    return true;
}

/* After partitions went. */
static void delivery_worker_look_over(struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        struct delivery_job *job = &worker->jobs[i];
        if (job->is_used && !job->life.is_orphan && delivery_worker_is_orphan(worker, job)) {
            delivery_worker_take(worker, job, JOB_LIFE_ORPHAN);
        }
    }
}

/* ---- Redis ----------------------------------------------------------------------------------- */

bool delivery_worker_serve(struct delivery_worker *worker) {
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

static void delivery_worker_adopt(struct delivery_job *job,
                                  const struct status_model_answer *answer) {
    job->state = answer->outcome.state;
    memcpy(job->result, answer->outcome.result, sizeof job->result);
}

/* HERE, and not here any more: let go, and ask again. */
static void delivery_worker_held_here(struct delivery_worker *worker, struct delivery_job *job,
                                      int64_t attempt) {
    if (delivery_worker_other(worker, job) != NULL) {
        delivery_worker_take(worker, job, JOB_LIFE_IS_HELD_HERE);
        return;
    }
    job->attempt = attempt;
    delivery_worker_call(worker, job, STATUS_SCRIPT_RELEASE);
    delivery_worker_do(worker, job, JOB_LIFE_DO_CLAIM);
}

static void delivery_worker_claimed(struct delivery_worker *worker, struct delivery_job *job,
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
            delivery_worker_adopt(job, answer);
        }
        delivery_worker_take(worker, job, JOB_LIFE_IS_SEALED);
        break;
    case STATUS_SCRIPT_POISON: delivery_worker_take(worker, job, JOB_LIFE_IS_POISON); break;
    case STATUS_SCRIPT_LOST: delivery_worker_take(worker, job, JOB_LIFE_IS_DONE); break;
    case STATUS_SCRIPT_CONFLICT: delivery_worker_take(worker, job, JOB_LIFE_IS_CONFLICT); break;
    case STATUS_SCRIPT_HERE:
        if (!call->is_late) {
            delivery_worker_held_here(worker, job, answer->attempt);
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
static void delivery_worker_let_go(struct delivery_worker *worker,
                                   const struct delivery_call *call) {
    struct delivery_job gone = {.ticket = call->ticket,
                                .id = call->id,
                                .content = call->content,
                                .attempt = call->answer.attempt,
                                .refs[0] = call->source};
    bool is_given = call->answer.code == STATUS_SCRIPT_NEW ||
                    call->answer.code == STATUS_SCRIPT_SEALED ||
                    call->answer.code == STATUS_SCRIPT_POISON;
    if (call->script == STATUS_SCRIPT_CLAIM && is_given) {
        delivery_worker_call(worker, &gone, STATUS_SCRIPT_RELEASE);
    }
}

static void delivery_worker_sealed(struct delivery_worker *worker, struct delivery_job *job,
                                   const struct status_model_answer *answer) {
    worker->coverage->seals[answer->code > 0 ? DELIVERY_ANSWERS : -answer->code]++;
    switch (answer->code) {
    case STATUS_SCRIPT_LOST: delivery_worker_take(worker, job, JOB_LIFE_SEAL_TERMINAL); break;
    case STATUS_SCRIPT_CONFLICT: delivery_worker_take(worker, job, JOB_LIFE_SEAL_CONFLICT); break;
    case STATUS_SCRIPT_SEALED:
        if (!delivery_worker_is(worker, DELIVERY_PUBLISHES_ITS_OWN_OVER_THE_SEALED)) {
            delivery_worker_adopt(job, answer);
        }
        delivery_worker_take(worker, job, JOB_LIFE_SEAL_OLDER);
        break;
    default: delivery_worker_take(worker, job, JOB_LIFE_SEAL_HOLDS); break;
    }
}

bool delivery_worker_hear(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || worker->call_count == 0 || !worker->calls[0].is_applied) {
        return false;
    }
    struct delivery_call call = worker->calls[0];
    memmove(worker->calls, worker->calls + 1, (size_t)--worker->call_count * sizeof call);
    struct delivery_job *job = delivery_worker_find(worker, call.ticket);
    if (job == NULL) {
        delivery_worker_let_go(worker, &call);
    } else if (call.script == STATUS_SCRIPT_CLAIM) {
        delivery_worker_claimed(worker, job, &call);
    } else if (call.script == STATUS_SCRIPT_SEAL) {
        delivery_worker_sealed(worker, job, &call.answer);
    } else if (call.script == STATUS_SCRIPT_FINISH && job->life.state == JOB_LIFE_FINISHING) {
        delivery_worker_take(worker, job, JOB_LIFE_WRITE);
    }
    return true;
}

bool delivery_worker_expire(struct delivery_worker *worker) {
    for (int i = 0; i < worker->call_count && delivery_worker_acts(worker); i++) {
        struct delivery_call *call = &worker->calls[i];
        struct delivery_job *job = delivery_worker_find(worker, call->ticket);
        if (call->script == STATUS_SCRIPT_CLAIM && !call->is_late && job != NULL) {
            call->is_late = true;
            delivery_worker_unreached(worker, job, STATUS_SCRIPT_CLAIM);
            return true;
        }
    }
    return false;
}

/* What was under way may have been run or not; what must not be lost is kept. */
bool delivery_worker_cut(struct delivery_worker *worker) {
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
            delivery_worker_unreached(worker, job, lost[i].script);
        }
    }
    return true;
}

bool delivery_worker_link(struct delivery_worker *worker) {
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
bool delivery_worker_renew(struct delivery_worker *worker) {
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

/* ---- the engine ------------------------------------------------------------------------------ */

static bool delivery_job_is_any(const struct delivery_job *job) {
    return job->is_used;
}

static bool delivery_job_waits(const struct delivery_job *job) {
    return job->life.state == JOB_LIFE_WAITING;
}

static bool delivery_job_is_in_engine(const struct delivery_job *job) {
    return job_life_is_in_engine(&job->life);
}

static bool delivery_job_is_orphan(const struct delivery_job *job) {
    return job->life.is_orphan;
}

static bool delivery_job_sleeps(const struct delivery_job *job) {
    return job->life.state == JOB_LIFE_PARKED || job->life.state == JOB_LIFE_RESTING;
}

static void delivery_worker_check_suspects(struct delivery_worker *worker) {
    int count = 0, suspects = 0;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *job = &worker->jobs[i];
        bool runs = job->is_used && delivery_job_is_in_engine(job);
        count += runs;
        suspects += runs && job->is_suspect;
    }
    if (suspects > 0 && count > 1) {
        delivery_world_violate(worker->world, "a suspect runs alone");
    }
}

bool delivery_worker_admit(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_waits);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    bool is_suspect = job->deaths > 0;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *other = &worker->jobs[i];
        if (other->is_used && delivery_job_is_in_engine(other) &&
            (is_suspect || other->is_suspect) &&
            !delivery_worker_is(worker, DELIVERY_RUNS_SUSPECTS_WITH_OTHERS)) {
            return false;
        }
    }
    if (delivery_world_below(worker->world, 32) == 0) {
        delivery_worker_take(worker, job, JOB_LIFE_REJECT);
        return true;
    }
    job->is_suspect = is_suspect;
    delivery_worker_take(worker, job, JOB_LIFE_ADMIT);
    delivery_worker_check_suspects(worker);
    return true;
}

bool delivery_worker_compute(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_is_in_engine);
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

bool delivery_worker_break(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_is_in_engine);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_BREAK);
    return true;
}

bool delivery_worker_call_off(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_is_any);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_CALL_OFF);
    return true;
}

bool delivery_worker_give_up(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_is_orphan);
    if (!delivery_worker_acts(worker) || job == NULL) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_GIVE_UP);
    return true;
}

bool delivery_worker_due(struct delivery_worker *worker) {
    struct delivery_job *job = delivery_worker_pick(worker, delivery_job_sleeps);
    if (!delivery_worker_acts(worker) || job == NULL || job->due_ms > worker->world->now_ms ||
        delivery_worker_is(worker, DELIVERY_NEVER_ASKS_AGAIN)) {
        return false;
    }
    delivery_worker_take(worker, job, JOB_LIFE_DUE);
    return true;
}

bool delivery_worker_runs_poison(const struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *job = &worker->jobs[i];
        if (job->is_used && job->life.state == JOB_LIFE_RUNNING && job->content == 0 &&
            job->id == worker->world->poison) {
            return true;
        }
    }
    return false;
}

/* ---- the brokers ----------------------------------------------------------------------------- */

/* Also of a worker that is dead: what left it may arrive. */
bool delivery_worker_append(struct delivery_worker *worker) {
    for (int i = 0; i < worker->send_count; i++) {
        struct delivery_send *send = &worker->sends[i];
        if (!send->is_appended) {
            send->is_appended = true;
            if (send->is_letter) {
                delivery_world_append_letter(worker->world, send->id, send->content);
            } else {
                delivery_world_append_result(worker->world, send->id, send->content, send->result);
            }
            return true;
        }
    }
    return false;
}

static bool delivery_worker_has_sends(const struct delivery_worker *worker, uint64_t ticket) {
    for (int i = 0; i < worker->send_count; i++) {
        if (worker->sends[i].ticket == ticket) {
            return true;
        }
    }
    return false;
}

bool delivery_worker_acknowledge(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || worker->send_count == 0 || !worker->sends[0].is_appended) {
        return false;
    }
    uint64_t ticket = worker->sends[0].ticket;
    memmove(worker->sends, worker->sends + 1,
            (size_t)--worker->send_count * sizeof worker->sends[0]);
    struct delivery_job *job = delivery_worker_find(worker, ticket);
    if (job != NULL && !delivery_worker_has_sends(worker, ticket)) {
        delivery_worker_take(
            worker, job, job->needs_result ? JOB_LIFE_ACKNOWLEDGE : JOB_LIFE_ACKNOWLEDGE_LETTER);
    }
    return true;
}

static int64_t delivery_worker_due_offset(const struct delivery_worker *worker, int number) {
    int64_t due = partition_table_due(&worker->table, number);
    if (due >= 0 && delivery_worker_is(worker, DELIVERY_COMMITS_PAST_THE_UNSETTLED)) {
        due = worker->position[number];
    }
    return due;
}

static bool delivery_worker_begin_commit(struct delivery_worker *worker) {
    int number = (int)delivery_world_below(worker->world, DELIVERY_PARTITIONS);
    int64_t due = delivery_worker_due_offset(worker, number);
    if (!delivery_worker_acts(worker) || due < 0) {
        return false;
    }
    worker->commit = (struct delivery_commit){.is_under_way = true,
                                              .number = number,
                                              .generation = worker->generation[number],
                                              .offset = due};
    return true;
}

bool delivery_worker_commit(struct delivery_worker *worker) {
    struct delivery_commit *commit = &worker->commit;
    if (!commit->is_under_way) {
        return delivery_worker_begin_commit(worker);
    }
    if (!commit->is_answered) { /* of a dead worker, too */
        commit->is_answered = true;
        commit->is_taken = delivery_world_commit(worker->world, commit->number, worker->number,
                                                 commit->generation, commit->offset);
        return true;
    }
    if (!delivery_worker_acts(worker)) {
        return false;
    }
    commit->is_under_way = false;
    if (commit->is_taken) {
        partition_table_committed(&worker->table, commit->number, commit->offset);
    } else if (worker->generation[commit->number] == commit->generation) {
        (void)delivery_worker_revoke(worker, commit->number, false); /* the result decides */
    }
    return true;
}

bool delivery_worker_revoke(struct delivery_worker *worker, int number, bool commits) {
    if (!delivery_worker_acts(worker) || !partition_table_is_assigned(&worker->table, number)) {
        return false;
    }
    int64_t due = delivery_worker_due_offset(worker, number);
    if (commits && due >= 0) {
        (void)delivery_world_commit(worker->world, number, worker->number,
                                    worker->generation[number], due);
    }
    partition_table_revoke(&worker->table, number);
    delivery_worker_look_over(worker);
    return true;
}

bool delivery_worker_assign(struct delivery_worker *worker, int number) {
    struct delivery_partition *partition = &worker->world->partitions[number];
    if (!delivery_worker_acts(worker) || partition->owner != DELIVERY_NOBODY) {
        return false;
    }
    partition->owner = worker->number;
    worker->generation[number] = ++partition->generation;
    worker->position[number] = partition->committed;
    partition_table_begin(&worker->table);
    partition_table_assign(&worker->table, number);
    delivery_worker_look_over(worker);
    return true;
}

/* ---- life and death -------------------------------------------------------------------------- */

void delivery_worker_init(struct delivery_worker *worker, struct delivery_world *world, int number,
                          struct delivery_coverage *coverage) {
    worker->world = world;
    worker->coverage = coverage;
    worker->number = number;
    worker->is_alive = worker->is_frozen = worker->is_linked = false;
    worker->tickets = 0;
    worker->call_count = worker->backlog_count = worker->send_count = 0;
    worker->commit.is_under_way = false;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        worker->jobs[i].is_used = false;
    }
    for (int i = 0; i < DELIVERY_PARTITIONS; i++) {
        worker->generation[i] = 0;
        worker->position[i] = 0;
    }
    partition_table_init(&worker->table);
}

void delivery_worker_deinit(struct delivery_worker *worker) {
    partition_table_deinit(&worker->table);
}

/* Ids it had begun to run, and whose end Redis may not know. */
static uint32_t delivery_worker_begun(const struct delivery_worker *worker) {
    uint32_t begun = 0;
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        const struct delivery_job *job = &worker->jobs[i];
        begun |= job->is_used && job->has_begun ? 1u << job->id : 0;
    }
    for (int i = 0; i < worker->call_count; i++) {
        bool is_end = worker->calls[i].script == STATUS_SCRIPT_RELEASE ||
                      worker->calls[i].script == STATUS_SCRIPT_FINISH;
        begun |= is_end ? 1u << worker->calls[i].id : 0;
    }
    for (int i = 0; i < worker->backlog_count; i++) {
        begun |= 1u << worker->backlog[i].id;
    }
    return begun;
}

/* What it had sent may still arrive, as far as it had: a random part of it, before it is gone. */
bool delivery_worker_crash(struct delivery_worker *worker) {
    if (!worker->is_alive) {
        return false;
    }
    struct delivery_incarnation *self = &worker->world->incarnations[worker->incarnation];
    while (delivery_world_below(worker->world, 2) == 0 && delivery_worker_serve(worker)) {
    }
    while (delivery_world_below(worker->world, 2) == 0 && delivery_worker_append(worker)) {
    }
    if (worker->commit.is_under_way && !worker->commit.is_answered &&
        delivery_world_below(worker->world, 2) == 0) {
        (void)delivery_worker_commit(worker);
    }
    for (int i = 0; i < worker->backlog_count; i++) { /* statuses that nobody will write */
        worker->world->is_open[worker->backlog[i].id] = true;
    }
    delivery_world_tell(worker->world, "w%d, %u, dies", worker->number, worker->incarnation);
    self->is_dead = true;
    self->begun = delivery_worker_begun(worker);
    delivery_worker_deinit(worker);
    delivery_worker_init(worker, worker->world, worker->number, worker->coverage);
    return true;
}

bool delivery_worker_start(struct delivery_worker *worker) {
    struct delivery_world *world = worker->world;
    if (worker->is_alive) {
        return false;
    }
    worker->incarnation = delivery_world_begin(world, worker->number);
    worker->is_alive = true;
    worker->is_linked = world->is_redis_up;
    return true;
}

bool delivery_worker_is_idle(const struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        if (worker->jobs[i].is_used) {
            return false;
        }
    }
    return worker->call_count == 0 && worker->backlog_count == 0 && worker->send_count == 0 &&
           !worker->commit.is_under_way && partition_table_is_committed(&worker->table);
}
