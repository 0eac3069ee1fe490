#include "consumer/kafka_assignment.h"

#include <string.h>

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
    rd_kafka_topic_partition_list_add(list, source->config->jobs_topic, number);
    kafka_assignment_switch(source, list, held || source->is_paused);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_assignment_pause(struct kafka_source *source, bool paused) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    source->is_paused = paused;
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        if (partition_table_is_assigned(&source->partitions, i) &&
            !partition_table_is_held(&source->partitions, i)) {
            rd_kafka_topic_partition_list_add(list, source->config->jobs_topic, i);
        }
    }
    kafka_assignment_switch(source, list, paused);
    rd_kafka_topic_partition_list_destroy(list);
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
    source->commit_again_ns = 0;
    partition_table_begin(&source->partitions);
    for (int i = 0; i < list->cnt; i++) {
        partition_table_assign(&source->partitions, list->elems[i].partition);
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
        partition_table_revoke(&source->partitions, list->elems[i].partition);
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
