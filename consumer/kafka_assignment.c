#include "consumer/kafka_assignment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/intake_share.h"
#include "consumer/kafka_commit.h"
#include "consumer/kafka_lookup.h"
#include "consumer/kafka_source_state.h"

/* ---- pause ---- */

/* librdkafka cannot be asked what is paused, and a pause survives a reassignment: what is assigned
 * is paused each time, and resumed once it is known. Never resume what is not paused: librdkafka
 * 2.0 then gives the last record again. A partition that is already gone is no matter. */
static void kafka_assignment_switch(struct kafka_source *source,
                                    rd_kafka_topic_partition_list_t *list, bool paused) {
    rd_kafka_resp_err_t error = paused ? rd_kafka_pause_partitions(source->handle, list)
                                       : rd_kafka_resume_partitions(source->handle, list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        log_write(source->log, LOG_LEVEL_WARN, "kafka.pause",
                  LOG_FIELDS(log_text("error", rd_kafka_err2str(error))));
    }
}

void kafka_assignment_hold(struct kafka_source *source, int32_t number, bool held) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    bool is_shut = partition_table_is_shut(&source->partitions, number);
    kafka_source_list(source, list, number);
    kafka_assignment_switch(source, list, held || is_shut || source->is_paused);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_assignment_pause(struct kafka_source *source, bool paused) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    source->is_paused = paused;
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        if (partition_table_is_assigned(&source->partitions, i) &&
            !partition_table_is_held(&source->partitions, i) &&
            !partition_table_is_shut(&source->partitions, i)) {
            kafka_source_list(source, list, i);
        }
    }
    kafka_assignment_switch(source, list, paused);
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- share ---- */

/* Shuts or opens a partition; the library hears of a change only. */
static void kafka_assignment_shut(struct kafka_source *source, int32_t number, bool shut) {
    if (shut != partition_table_is_shut(&source->partitions, number)) {
        partition_table_shut(&source->partitions, number, shut);
        kafka_assignment_hold(source, number, partition_table_is_held(&source->partitions, number));
    }
}

static struct intake_share_partition *kafka_assignment_shares(struct kafka_source *source,
                                                              uint32_t count) {
    if (count > source->shares_capacity) {
        free(source->shares);
        source->shares = calloc(count, sizeof *source->shares);
        assert(source->shares != NULL);
        source->shares_capacity = count;
    }
    return source->shares;
}

void kafka_assignment_share(struct kafka_source *source) {
    struct partition_table *table = &source->partitions;
    size_t count = 0;
    if (source->topics.count == 1 || source->share_slots == 0) {
        return;
    }
    struct intake_share_partition *shares = kafka_assignment_shares(source, table->assigned_count);
    for (int32_t i = 0; i < table->capacity; i++) {
        if (partition_table_is_assigned(table, i)) {
            shares[count++] = (struct intake_share_partition){
                .topic = (uint32_t)topic_list_index(&source->topics, i),
                .held = partition_table_in_flight(table, i),
                .is_shut = partition_table_is_shut(table, i)};
        }
    }
    intake_share_decide(shares, count, (uint32_t)source->topics.count, source->share_slots);
    count = 0;
    for (int32_t i = 0; i < table->capacity; i++) {
        if (partition_table_is_assigned(table, i)) {
            kafka_assignment_shut(source, i, shares[count++].is_shut);
        }
    }
}

/* ---- assign, revoke ---- */

static void kafka_assignment_check(struct kafka_source *source, rd_kafka_error_t *error) {
    if (error != NULL) {
        kafka_source_fail(source, rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
}

static bool kafka_assignment_is_cooperative(const struct kafka_source *source) {
    return strcmp(rd_kafka_rebalance_protocol(source->handle), "COOPERATIVE") == 0;
}

/* Every partition is held until the group has said what it has of it. */
static void kafka_assignment_give(struct kafka_source *source,
                                  rd_kafka_topic_partition_list_t *list) {
    source->stats.assignments_total++;
    source->is_assigned = true;
    source->has_unknown = false;
    source->commit_again_ns = 0;
    partition_table_begin(&source->partitions);
    for (int i = 0; i < list->cnt; i++) {
        partition_table_assign(
            &source->partitions,
            kafka_source_number(source, list->elems[i].topic, list->elems[i].partition));
    }
    if (kafka_assignment_is_cooperative(source)) {
        kafka_assignment_check(source, rd_kafka_incremental_assign(source->handle, list));
    } else if (rd_kafka_assign(source->handle, list) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_source_fail(source, rd_kafka_err2str(rd_kafka_last_error()));
    }
    if (list->cnt > 0) {
        kafka_assignment_switch(source, list, true);
    }
    kafka_lookup_ask(source);
}

static void kafka_assignment_take(struct kafka_source *source,
                                  rd_kafka_topic_partition_list_t *list) {
    if (rd_kafka_assignment_lost(source->handle)) {
        source->stats.lost_total++; /* can be wrong: the commit's result tells */
    }
    kafka_commit_last(source, list);
    for (int i = 0; i < list->cnt; i++) {
        partition_table_revoke(
            &source->partitions,
            kafka_source_number(source, list->elems[i].topic, list->elems[i].partition));
    }
    source->has_revoked |= list->cnt > 0;
    if (kafka_assignment_is_cooperative(source)) {
        kafka_assignment_check(source, rd_kafka_incremental_unassign(source->handle, list));
    } else {
        rd_kafka_assign(source->handle, NULL);
    }
}

void kafka_assignment_change(rd_kafka_t *handle, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t *list, void *opaque) {
    (void)handle;
    struct kafka_source *source = opaque;
    bool gives = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    log_write(source->log, LOG_LEVEL_INFO, gives ? "kafka.assigned" : "kafka.revoked",
              LOG_FIELDS(log_int("partitions", list->cnt)));
    if (gives) {
        kafka_assignment_give(source, list);
    } else {
        kafka_assignment_take(source, list);
    }
}
