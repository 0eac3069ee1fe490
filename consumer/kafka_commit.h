/* Commits of the Kafka source: the settled prefix of each partition goes to the group, and what is
 * settled beyond it as metadata.
 *
 * One commit is under way at a time, by time and count; a second only for partitions that go. Never
 * waits: the answer comes through the source's queue, and it decides what counts as committed, and
 * that partitions are no longer ours. Private to the Kafka source. */
#ifndef SOLFLEET_CONSUMER_KAFKA_COMMIT_H
#define SOLFLEET_CONSUMER_KAFKA_COMMIT_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>

struct kafka_source;

/* Sends what is due by time or count; `all` makes everything due. */
void kafka_commit_due(struct kafka_source *source, bool all);
/* When that has something to do; INT64_MAX = nothing. */
int64_t kafka_commit_deadline_ns(const struct kafka_source *source);
/* Sends what is due of partitions that are about to go. */
void kafka_commit_last(struct kafka_source *source, const rd_kafka_topic_partition_list_t *going);

#endif
