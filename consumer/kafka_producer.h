/* A producer: sends records to Kafka for a command that runs and ends, and tells how each fared.
 *
 * Acknowledged by all replicas, idempotent, in order. One thread; every wait is bounded by the
 * caller. Owns its handle. Refuses to know what travels in a record, and Redis. */
#ifndef SOLFLEET_CONSUMER_KAFKA_PRODUCER_H
#define SOLFLEET_CONSUMER_KAFKA_PRODUCER_H

#include <stddef.h>
#include <stdint.h>

#include "consumer/kafka_client.h"
#include "consumer/record.h"

struct config;
struct kafka_producer;

/* How one record fared. The caller's memory, filled when it is taken. */
struct kafka_producer_delivery {
    enum kafka_client_status status;
    int32_t partition;
    int64_t offset;
    char error[KAFKA_CLIENT_ERROR_BYTES]; /* "" when OK */
};

/* Borrows the configuration until close. Connects in the background; a record that no broker takes
 * within timeout_ms is UNREACHABLE. */
enum kafka_client_status kafka_producer_open(const struct config *config, int64_t timeout_ms,
                                             struct kafka_producer **out, char *err,
                                             size_t err_bytes) __attribute__((warn_unused_result));
void kafka_producer_close(struct kafka_producer *producer); /* accepts NULL */

/* Makes sure that a broker answers and knows the topic, before anything is promised to anyone. */
enum kafka_client_status kafka_producer_check(struct kafka_producer *producer, const char *topic,
                                              int64_t timeout_ms, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Queues a record; `value` and `delivery` are borrowed until the delivery is taken. NONE when the
 * queue is full: take deliveries first. */
enum kafka_client_status kafka_producer_send(struct kafka_producer *producer, const char *topic,
                                             const char *key, const char *value, size_t value_bytes,
                                             struct kafka_producer_delivery *delivery, char *err,
                                             size_t err_bytes) __attribute__((warn_unused_result));

/* The same of a record with any key (NULL = none), any value (NULL = a null value) and headers, all
 * copied; only `delivery` is borrowed. */
enum kafka_client_status
kafka_producer_send_record(struct kafka_producer *producer, const char *topic,
                           const struct record *record, const struct record_header *headers,
                           size_t header_count, struct kafka_producer_delivery *delivery, char *err,
                           size_t err_bytes) __attribute__((warn_unused_result));

/* Waits up to wait_ms until a record's fate is known. OK fills the delivery given with the record
 * and puts it into *out (may be NULL); NONE says that none came in time. Each record has exactly
 * one. */
enum kafka_client_status kafka_producer_take_delivery(struct kafka_producer *producer, int wait_ms,
                                                      struct kafka_producer_delivery **out)
    __attribute__((warn_unused_result));

#endif
