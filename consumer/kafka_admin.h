/* Topic administration: makes the topics that are missing and tells about those that exist.
 *
 * Blocking, bounded by the time-out given; a handle of its own for each call. Any thread. It never
 * changes a topic that exists. Refuses to know what the topics are for. */
#ifndef SOLFLEET_CONSUMER_KAFKA_ADMIN_H
#define SOLFLEET_CONSUMER_KAFKA_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/config.h"
#include "consumer/kafka_client.h"

#define KAFKA_ADMIN_TOPICS_MAX 16

struct kafka_admin_topic {
    /* in */
    const char *name;
    int partitions;
    int replication; /* -1 = the broker's default */
    const struct config_pass *properties;
    size_t property_count;
    /* out */
    bool existed;
    int partitions_found;    /* now; 0 when the broker asked has not heard of it yet */
    char timestamp_type[32]; /* where it existed and the broker tells; else "" */
};

/* Idempotent. On OK every topic exists. REFUSED: err names the topic and the broker's reason. */
enum kafka_client_status kafka_admin_make_topics(const struct config *config,
                                                 struct kafka_admin_topic *topics, size_t count,
                                                 int64_t timeout_ms, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
