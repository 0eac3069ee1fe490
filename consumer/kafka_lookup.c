#include "consumer/kafka_lookup.h"

#include <assert.h>

#include "consumer/kafka_assignment.h"
#include "consumer/kafka_source_state.h"

#define ASK_TIMEOUT_MS 10000
#define ASK_PAUSE_MS 200
#define WARN_PAUSE_MS 5000

static rd_kafka_topic_partition_list_t *kafka_lookup_unknown(const struct kafka_source *source) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        if (partition_table_is_assigned(&source->partitions, i) &&
            !partition_table_is_started(&source->partitions, i)) {
            kafka_source_list(source, list, i);
        }
    }
    return list;
}

static void kafka_lookup_send(struct kafka_source *source,
                              const rd_kafka_topic_partition_list_t *unknown) {
    rd_kafka_ListConsumerGroupOffsets_t *question =
        rd_kafka_ListConsumerGroupOffsets_new(source->config->group, unknown);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(source->handle, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    assert(question != NULL && options != NULL);
    rd_kafka_AdminOptions_set_request_timeout(options, ASK_TIMEOUT_MS, NULL, 0);
    rd_kafka_ListConsumerGroupOffsets(source->handle, &question, 1, options, source->answers);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ListConsumerGroupOffsets_destroy(question);
    source->is_asking = true;
    source->asked_epoch = source->partitions.epoch;
}

void kafka_lookup_ask(struct kafka_source *source) {
    source->ask_again_ns = INT64_MAX;
    if (source->is_asking) {
        return; /* what is still unknown after its answer is asked about then */
    }
    rd_kafka_topic_partition_list_t *unknown = kafka_lookup_unknown(source);
    if (unknown->cnt > 0) {
        kafka_lookup_send(source, unknown);
    }
    rd_kafka_topic_partition_list_destroy(unknown);
}

static void kafka_lookup_refuse(struct kafka_source *source, const char *why) {
    int64_t now_ns = clock_monotonic_ns(source->clock);
    source->ask_again_ns = now_ns + ASK_PAUSE_MS * CLOCK_NS_PER_MS;
    if (source->ask_warned_ns == 0 ||
        now_ns - source->ask_warned_ns >= WARN_PAUSE_MS * CLOCK_NS_PER_MS) {
        source->ask_warned_ns = now_ns;
        log_write(source->log, LOG_LEVEL_WARN, "kafka.lookup_failed",
                  LOG_FIELDS(log_text("error", why),
                             log_text("effect", "partitions wait for their committed offsets")));
    }
}

static void kafka_lookup_start(struct kafka_source *source, const rd_kafka_topic_partition_t *at) {
    size_t count;
    int32_t number = kafka_source_number(source, at->topic, at->partition);
    int64_t committed = at->offset >= 0 ? at->offset : -1;
    if (!offset_metadata_decode(committed, at->metadata, at->metadata_size, source->ranges,
                                &count)) {
        log_write(source->log, LOG_LEVEL_WARN, "kafka.metadata_unreadable",
                  LOG_FIELDS(log_int("partition", at->partition),
                             log_text("effect", "records settled before may be done again")));
    }
    if (partition_table_is_of(&source->partitions, number, source->asked_epoch)) {
        partition_table_start(&source->partitions, number, committed, source->ranges, count);
        kafka_assignment_hold(source, number, partition_table_is_held(&source->partitions, number));
    }
}

static void kafka_lookup_take(struct kafka_source *source, rd_kafka_event_t *event) {
    size_t count = 0;
    const rd_kafka_ListConsumerGroupOffsets_result_t *result =
        rd_kafka_event_ListConsumerGroupOffsets_result(event);
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR || result == NULL) {
        kafka_lookup_refuse(source, rd_kafka_event_error_string(event));
        return;
    }
    const rd_kafka_group_result_t **groups =
        rd_kafka_ListConsumerGroupOffsets_result_groups(result, &count);
    const rd_kafka_error_t *error = count > 0 ? rd_kafka_group_result_error(groups[0]) : NULL;
    const rd_kafka_topic_partition_list_t *list =
        count > 0 ? rd_kafka_group_result_partitions(groups[0]) : NULL;
    if (error != NULL || list == NULL) {
        kafka_lookup_refuse(source, error != NULL ? rd_kafka_error_string(error) : "no answer");
        return;
    }
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            kafka_lookup_start(source, &list->elems[i]);
        } else {
            kafka_lookup_refuse(source, rd_kafka_err2str(list->elems[i].err));
        }
    }
}

void kafka_lookup_step(struct kafka_source *source) {
    rd_kafka_event_t *event = source->is_asking ? rd_kafka_queue_poll(source->answers, 0) : NULL;
    if (event != NULL) {
        source->is_asking = false;
        source->ask_again_ns = 0; /* partitions may have come since it was asked */
        kafka_lookup_take(source, event);
        rd_kafka_event_destroy(event);
    }
    if (source->ask_again_ns != INT64_MAX &&
        clock_monotonic_ns(source->clock) >= source->ask_again_ns) {
        kafka_lookup_ask(source);
    }
}
