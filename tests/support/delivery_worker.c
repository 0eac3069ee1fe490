#include "tests/support/delivery_worker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/delivery_broker.h"
#include "tests/support/delivery_link.h"

bool delivery_worker_is(const struct delivery_worker *worker, enum delivery_mutation mutation) {
    return worker->world->mutation == mutation;
}

bool delivery_worker_acts(const struct delivery_worker *worker) {
    return worker->is_alive && !worker->is_frozen;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct delivery_job *delivery_worker_find(struct delivery_worker *worker, uint64_t ticket) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        if (worker->jobs[i].is_used && worker->jobs[i].ticket == ticket) {
            return &worker->jobs[i];
        }
    }
    return NULL;
}

/* A job in that state, at random; NULL when there is none. */
struct delivery_job *delivery_worker_pick(struct delivery_worker *worker,
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

/* ---- publishing ------------------------------------------------------------------------------ */

static void delivery_worker_publish(struct delivery_worker *worker, struct delivery_job *job) {
    if (job->needs_result) {
        delivery_broker_send(worker, job, false);
    }
    if (job->needs_letter) {
        delivery_broker_send(worker, job, true);
    }
    if (delivery_worker_is(worker, DELIVERY_COMMITS_BEFORE_THE_ACKNOWLEDGEMENT)) {
        delivery_worker_settle(worker, job);
    }
    if (delivery_worker_is(worker, DELIVERY_FINISHES_BEFORE_PUBLISHING) && job->needs_result) {
        delivery_link_call(worker, job, STATUS_SCRIPT_FINISH);
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
        delivery_link_ask(worker, job, STATUS_SCRIPT_SEAL);
    }
}

/* ---- what job_life says ---------------------------------------------------------------------- */

struct delivery_job *delivery_worker_other(struct delivery_worker *worker,
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

void delivery_worker_do(struct delivery_worker *worker, struct delivery_job *job,
                        enum job_life_action action) {
    switch (action) {
    case JOB_LIFE_DO_CLAIM:
        job->attempt = job->deaths = 0;
        job->has_begun = job->is_suspect = job->is_called_off = false;
        delivery_link_ask(worker, job, STATUS_SCRIPT_CLAIM);
        break;
    case JOB_LIFE_DO_NOTE_START:
        job->has_begun = true;
        delivery_link_call(worker, job, STATUS_SCRIPT_ADVANCE);
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
    case JOB_LIFE_DO_FINISH: delivery_link_ask(worker, job, STATUS_SCRIPT_FINISH); break;
    case JOB_LIFE_DO_SETTLE:
    case JOB_LIFE_DO_SETTLE_AS_DONE: delivery_worker_settle(worker, job); break;
    case JOB_LIFE_DO_GIVE_BACK:
        if (job->attempt > 0 && !delivery_worker_is(worker, DELIVERY_FORGETS_WITHOUT_RELEASING)) {
            delivery_link_call(worker, job, STATUS_SCRIPT_RELEASE);
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

void delivery_worker_take(struct delivery_worker *worker, struct delivery_job *job,
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
    if (next == partition->count && worker->position[number] < partition->end) {
        worker->position[number] = partition->end;
        partition_table_reach(&worker->table, number, partition->end);
        return true;
    }
    struct delivery_job *job = next < partition->count ? delivery_worker_add(worker) : NULL;
    if (job == NULL) {
        return false;
    }
    const struct delivery_record *record = &partition->log[next];
    struct source_ref ref;
    enum partition_entry entry =
        partition_table_enter(&worker->table, number, record->offset, &ref);
    assert(entry == PARTITION_ENTRY_NEW || entry == PARTITION_ENTRY_KNOWN);
    worker->position[number] = record->offset + 1;
    if (entry == PARTITION_ENTRY_KNOWN) {
        worker->coverage->known_records++;
        job->is_used = false;
        return true;
    }
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
void delivery_worker_look_over(struct delivery_worker *worker) {
    for (int i = 0; i < DELIVERY_JOBS; i++) {
        struct delivery_job *job = &worker->jobs[i];
        if (job->is_used && !job->life.is_orphan && delivery_worker_is_orphan(worker, job)) {
            delivery_worker_take(worker, job, JOB_LIFE_ORPHAN);
        }
    }
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
    while (delivery_world_below(worker->world, 2) == 0 && delivery_link_serve(worker)) {
    }
    while (delivery_world_below(worker->world, 2) == 0 && delivery_broker_append(worker)) {
    }
    if (worker->commit.is_under_way && !worker->commit.is_answered &&
        delivery_world_below(worker->world, 2) == 0) {
        (void)delivery_broker_commit(worker);
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
