/* The question whether a topic is there, asked of the brokers. Blocks up to its timeout; any
 * thread. Only for kafka_*.c. */
#ifndef SOLFLEET_CONSUMER_KAFKA_TOPIC_H
#define SOLFLEET_CONSUMER_KAFKA_TOPIC_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

enum kafka_topic_status {
    KAFKA_TOPIC_OK = 0,
    KAFKA_TOPIC_MISSING,
    KAFKA_TOPIC_UNREACHABLE, /* no broker answers */
    KAFKA_TOPIC_REFUSED      /* a broker says no, e.g. for want of permission */
};

/* err says more, except where the answer is OK. */
enum kafka_topic_status kafka_topic_find(rd_kafka_t *handle, const char *name, int timeout_ms,
                                         char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
