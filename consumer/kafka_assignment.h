/* Assignments of the Kafka source: partitions that the group gives and takes, and which of them are
 * paused at the client library.
 *
 * Eager or cooperative, as the library says. On a revoke the settled prefixes are sent and nothing
 * is waited for. Private to the Kafka source. */
#ifndef SOLFLEET_CONSUMER_KAFKA_ASSIGNMENT_H
#define SOLFLEET_CONSUMER_KAFKA_ASSIGNMENT_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

struct kafka_source;

/* The library's rebalance callback; `opaque` is the source. */
void kafka_assignment_change(rd_kafka_t *handle, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t *list, void *opaque);

/* Holds one partition back, or lets it go on unless all are paused. */
void kafka_assignment_hold(struct kafka_source *source, int32_t number, bool held);
/* Pauses or resumes all that are not held. */
void kafka_assignment_pause(struct kafka_source *source, bool paused);
/* Shuts and opens partitions, so that each topic has its share of the records in flight. */
void kafka_assignment_share(struct kafka_source *source);

#endif
