/* The Kafka source's state, shared by the files that are its parts: kafka_source.c and
 * kafka_assignment, kafka_lookup, kafka_commit. Private to them. */
#ifndef SOLFLEET_CONSUMER_KAFKA_SOURCE_STATE_H
#define SOLFLEET_CONSUMER_KAFKA_SOURCE_STATE_H

#include <librdkafka/rdkafka.h>

#include "consumer/config.h"
#include "consumer/intake_share.h"
#include "consumer/kafka_queue.h"
#include "consumer/kafka_source.h"
#include "consumer/offset_metadata.h"
#include "consumer/partition_table.h"
#include "consumer/topic_list.h"
#include "engine/clock.h"
#include "engine/log.h"

struct kafka_source {
    const struct config *config;
    struct clock *clock;
    struct log *log;
    rd_kafka_t *handle;
    struct kafka_queue events; /* of these two */
    rd_kafka_queue_t *queue;   /* everything but the answers to lookups */
    rd_kafka_queue_t *answers; /* of the group, to what kafka_lookup has asked */
    struct topic_list topics;
    struct partition_table partitions;     /* by the numbers that `topics` gives */
    uint32_t share_slots;                  /* records in flight that are shared; 0 = not */
    struct intake_share_partition *shares; /* [shares_capacity] for one call's use */
    uint32_t shares_capacity;
    bool is_paused, is_assigned;
    bool is_leaving;
    bool has_revoked; /* not taken yet */
    bool has_unknown; /* the brokers do not know a partition that we have: not dealt with yet */

    bool is_asking;        /* one lookup is under way */
    int64_t ask_again_ns;  /* INT64_MAX = nothing to ask */
    uint64_t asked_epoch;  /* of the table, when it was asked */
    int64_t ask_warned_ns; /* an outage fails every lookup */

    bool is_dirty;              /* there may be something to commit */
    uint32_t commits_under_way; /* one; another only when partitions go */
    int64_t last_commit_ns;
    int64_t commit_again_ns;  /* no commit before: one has failed; 0 = none has */
    int64_t commit_warned_ns; /* an outage fails one after the other */
    uint64_t settled_since_commit;
    size_t metadata_bytes_max; /* what the broker takes beside an offset */

    bool has_failed;
    char failure[256];
    int64_t error_logged_ns; /* an outage brings the same few errors over and over */
    struct kafka_source_stats stats;
    struct offset_range ranges[OFFSET_METADATA_RANGES_MAX]; /* for one call's use */
};

/* Nothing more is received from now on; the first reason is kept. */
void kafka_source_fail(struct kafka_source *source, const char *why);

/* The number of a partition as the library names it; -1: of no topic of ours. */
int32_t kafka_source_number(const struct kafka_source *source, const char *topic,
                            int32_t partition);
/* Adds the partition with a number to a list of the library's. */
rd_kafka_topic_partition_t *kafka_source_list(const struct kafka_source *source,
                                              rd_kafka_topic_partition_list_t *list,
                                              int32_t number);

#endif
