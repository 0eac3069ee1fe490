#include "tests/support/delivery_broker.h"

#include <assert.h>
#include <string.h>

#include "consumer/offset_metadata.h"

void delivery_broker_send(struct delivery_worker *worker, const struct delivery_job *job,
                          bool is_letter) {
    assert(worker->send_count < DELIVERY_QUEUE);
    struct delivery_send *send = &worker->sends[worker->send_count++];
    *send = (struct delivery_send){
        .ticket = job->ticket, .is_letter = is_letter, .id = job->id, .content = job->content};
    memcpy(send->result, job->result, sizeof send->result);
}

/* Also of a worker that is dead: what left it may arrive. */
bool delivery_broker_append(struct delivery_worker *worker) {
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

static bool delivery_broker_has_sends(const struct delivery_worker *worker, uint64_t ticket) {
    for (int i = 0; i < worker->send_count; i++) {
        if (worker->sends[i].ticket == ticket) {
            return true;
        }
    }
    return false;
}

bool delivery_broker_acknowledge(struct delivery_worker *worker) {
    if (!delivery_worker_acts(worker) || worker->send_count == 0 || !worker->sends[0].is_appended) {
        return false;
    }
    uint64_t ticket = worker->sends[0].ticket;
    memmove(worker->sends, worker->sends + 1,
            (size_t)--worker->send_count * sizeof worker->sends[0]);
    struct delivery_job *job = delivery_worker_find(worker, ticket);
    if (job != NULL && !delivery_broker_has_sends(worker, ticket)) {
        delivery_worker_take(
            worker, job, job->needs_result ? JOB_LIFE_ACKNOWLEDGE : JOB_LIFE_ACKNOWLEDGE_LETTER);
    }
    return true;
}

static int64_t delivery_broker_due_offset(const struct delivery_worker *worker, int number) {
    bool is_due = partition_table_is_due(&worker->table, number);
    int64_t due = is_due ? partition_table_mark(&worker->table, number) : -1;
    if (due >= 0 && delivery_worker_is(worker, DELIVERY_COMMITS_PAST_THE_UNSETTLED)) {
        due = worker->position[number];
    }
    return due;
}

/* What is settled beyond the offset, as a text. */
static void delivery_broker_metadata(const struct delivery_worker *worker, int number,
                                     int64_t offset, char text[DELIVERY_METADATA_BYTES]) {
    struct offset_range ranges[DELIVERY_RECORDS];
    size_t count = partition_table_settled(&worker->table, number, ranges, DELIVERY_RECORDS);
    if (delivery_worker_is(worker, DELIVERY_COMMITS_PAST_THE_UNSETTLED)) {
        count = 0; /* they would lie below its offset */
    }
    if (delivery_worker_is(worker, DELIVERY_CALLS_THE_UNSETTLED_SETTLED) &&
        offset + 1 < worker->position[number]) {
        ranges[0] = (struct offset_range){offset + 1, worker->position[number]};
        count = 1;
    }
    (void)offset_metadata_encode(offset, ranges, count, text, DELIVERY_METADATA_BYTES - 1);
}

static bool delivery_broker_begin_commit(struct delivery_worker *worker) {
    int number = (int)delivery_world_below(worker->world, DELIVERY_PARTITIONS);
    int64_t due = delivery_broker_due_offset(worker, number);
    if (!delivery_worker_acts(worker) || due < 0) {
        return false;
    }
    worker->commit = (struct delivery_commit){.is_under_way = true,
                                              .number = number,
                                              .generation = worker->generation[number],
                                              .epoch = worker->table.epoch,
                                              .offset = due};
    delivery_broker_metadata(worker, number, due, worker->commit.metadata);
    partition_table_sent(&worker->table, number);
    return true;
}

bool delivery_broker_commit(struct delivery_worker *worker) {
    struct delivery_commit *commit = &worker->commit;
    if (!commit->is_under_way) {
        return delivery_broker_begin_commit(worker);
    }
    if (!commit->is_answered) { /* of a dead worker, too */
        commit->is_answered = true;
        commit->is_taken =
            delivery_world_commit(worker->world, commit->number, worker->number, commit->generation,
                                  commit->offset, commit->metadata);
        return true;
    }
    if (!delivery_worker_acts(worker)) {
        return false;
    }
    commit->is_under_way = false;
    if (commit->is_taken) {
        partition_table_committed(&worker->table, commit->number, commit->epoch);
    } else if (worker->generation[commit->number] == commit->generation) {
        (void)delivery_broker_revoke(worker, commit->number, false); /* the result decides */
    }
    return true;
}

bool delivery_broker_revoke(struct delivery_worker *worker, int number, bool commits) {
    if (!delivery_worker_acts(worker) || !partition_table_is_assigned(&worker->table, number)) {
        return false;
    }
    int64_t due = delivery_broker_due_offset(worker, number);
    if (commits && due >= 0) {
        char metadata[DELIVERY_METADATA_BYTES];
        delivery_broker_metadata(worker, number, due, metadata);
        (void)delivery_world_commit(worker->world, number, worker->number,
                                    worker->generation[number], due, metadata);
    }
    partition_table_revoke(&worker->table, number);
    delivery_worker_look_over(worker);
    return true;
}

bool delivery_broker_assign(struct delivery_worker *worker, int number) {
    struct delivery_partition *partition = &worker->world->partitions[number];
    if (!delivery_worker_acts(worker) || partition->owner != DELIVERY_NOBODY) {
        return false;
    }
    partition->owner = worker->number;
    worker->generation[number] = ++partition->generation;
    worker->position[number] = partition->committed < 0 ? 0 : partition->committed;
    partition_table_begin(&worker->table);
    partition_table_assign(&worker->table, number);
    static struct offset_range known[OFFSET_METADATA_RANGES_MAX];
    size_t known_count = 0;
    bool is_ours = offset_metadata_decode(partition->committed, partition->metadata,
                                          strlen(partition->metadata), known, &known_count);
    assert(is_ours);
    partition_table_start(&worker->table, number, partition->committed, known, known_count);
    delivery_worker_look_over(worker);
    return true;
}
