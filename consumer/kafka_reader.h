/* A reader: one topic's records for a command that looks and ends.
 *
 * It belongs to no consumer group and commits nothing, so it disturbs no worker. One thread; every
 * wait is bounded by the caller. Owns its handle. Refuses to know what travels in a record. */
#ifndef SOLFLEET_CONSUMER_KAFKA_READER_H
#define SOLFLEET_CONSUMER_KAFKA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/kafka_client.h"
#include "consumer/record.h"

struct config;
struct kafka_reader;

enum kafka_reader_start {
    KAFKA_READER_BEGINNING, /* everything that the topic still holds */
    KAFKA_READER_NEWEST,    /* the last `newest` records of each partition */
    KAFKA_READER_LATEST,    /* only what comes from now on */
    KAFKA_READER_SINCE      /* what has come from the moment given on */
};

/* Lives until the next read or close, as its headers do. */
struct kafka_reader_record {
    const char *key; /* not terminated; NULL when absent */
    size_t key_bytes;
    const char *value; /* not terminated; NULL when absent */
    size_t value_bytes;
    int64_t timestamp_unix_ms; /* -1 when absent */
    int32_t partition;
    int64_t offset;
};

/* `amount`: how many are the newest, or since when. */
enum kafka_client_status kafka_reader_open(const struct config *config, const char *topic,
                                           enum kafka_reader_start start, int64_t amount,
                                           int64_t timeout_ms, struct kafka_reader **out, char *err,
                                           size_t err_bytes) __attribute__((warn_unused_result));

/* The same for one record only. */
enum kafka_client_status kafka_reader_open_at(const struct config *config, const char *topic,
                                              int32_t partition, int64_t offset, int64_t timeout_ms,
                                              struct kafka_reader **out, char *err,
                                              size_t err_bytes) __attribute__((warn_unused_result));
void kafka_reader_close(struct kafka_reader *reader); /* accepts NULL */

/* From now on brokers that are away are waited for without an end, and without asking for them. */
void kafka_reader_be_patient(struct kafka_reader *reader);

/* Reads one record, waiting up to wait_ms. With `follow` there is no END: what comes later is read,
 * too; without, only what was there at opening. UNREACHABLE after timeout_ms without a broker. */
enum kafka_client_status kafka_reader_read(struct kafka_reader *reader, int wait_ms, bool follow,
                                           struct kafka_reader_record *out, char *err,
                                           size_t err_bytes) __attribute__((warn_unused_result));

/* Up to `max` headers of the record read last. */
size_t kafka_reader_headers(const struct kafka_reader *reader, struct record_header *headers,
                            size_t max);

#endif
