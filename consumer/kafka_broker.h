/* A broker: librdkafka's in-process cluster, serving the Kafka protocol on 127.0.0.1.
 *
 * For demos and tests: everything is in memory, at most 5 MiB or 100,000 records a partition, and
 * it has no admin interface, so the topics are made here. It chooses its own port. Runs on threads
 * of librdkafka; open, address and close from one thread. Refuses to know what the topics are
 * for. */
#ifndef SOLFLEET_CONSUMER_KAFKA_BROKER_H
#define SOLFLEET_CONSUMER_KAFKA_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#define KAFKA_BROKER_PARTITIONS_MAX 1024

struct kafka_broker;

/* NULL with the reason in err. */
struct kafka_broker *kafka_broker_open(const char *const *topics, size_t topic_count,
                                       int partitions, char *err, size_t err_bytes);
void kafka_broker_close(struct kafka_broker *broker); /* accepts NULL */

/* "127.0.0.1:PORT", as long as the broker is open. */
const char *kafka_broker_address(const struct kafka_broker *broker);

#endif
