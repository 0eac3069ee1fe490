/* The Kafka sink: sends results and dead letters, and reports for each whether the brokers have it.
 *
 * All replicas acknowledge, idempotent, without a deadline: with the brokers away records wait, and
 * the caller's back-pressure bounds them. Every record accepted gets exactly one report, short of
 * kafka_sink_has_failed. A topic's limit is on batches: one is kept below the least of all, and a
 * record that was refused for its size with others is sent alone before its report says so. One
 * thread, except that librdkafka has threads of its own. Refuses to know jobs, results and where
 * records come from. */
#ifndef SOLFLEET_CONSUMER_KAFKA_SINK_H
#define SOLFLEET_CONSUMER_KAFKA_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/record.h"

/* What a record alone in a batch needs beside key, value and headers: 61 for the batch, at most 36
 * for the record, and some for what a later format may add. Each header needs two lengths. */
#define KAFKA_SINK_OVERHEAD_BYTES 128
#define KAFKA_SINK_HEADER_OVERHEAD_BYTES 10

/* A topic must take so much: a result that says only why it failed, whatever its strings. */
#define KAFKA_SINK_LIMIT_BYTES_MIN 4096

struct kafka_sink;
struct config;
struct clock;
struct log;

enum kafka_sink_status {
    KAFKA_SINK_OK = 0,
    KAFKA_SINK_BUSY,      /* the queue is full: send again after reports */
    KAFKA_SINK_TOO_LARGE, /* for the topic: make it smaller */
    KAFKA_SINK_REFUSED,   /* by the broker, e.g. an unknown topic: send again later */
    KAFKA_SINK_BAD_SETTING,
    KAFKA_SINK_MISSING,     /* find_topic: make it and ask again */
    KAFKA_SINK_UNREACHABLE, /* find_topic: no broker answers */
};

struct kafka_sink_message {
    const char *topic;
    const void *key; /* NULL = none */
    size_t key_bytes;
    const void *value; /* copied; NULL = a null value */
    size_t value_bytes;
    const struct record_header *headers;
    size_t header_count;
    uint64_t tag; /* comes back in the report */
};

struct kafka_sink_report {
    uint64_t tag;
    enum kafka_sink_status status; /* OK, TOO_LARGE (by itself; the room is less now) or REFUSED */
    int32_t partition;
    int64_t offset;
    char error[128]; /* "" when OK */
};

enum kafka_sink_status kafka_sink_open(const struct config *config, struct clock *clock,
                                       struct log *log, struct kafka_sink **out, char *err,
                                       size_t err_bytes) __attribute__((warn_unused_result));

/* Asks for a topic; blocks up to timeout_ms. */
enum kafka_sink_status kafka_sink_find_topic(struct kafka_sink *sink, const char *topic,
                                             int timeout_ms, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* Asks what sizes the output topics take; blocks up to twice timeout_ms. Before anything is sent.
 * Where the brokers do not tell, max_message_bytes holds and the log says so. REFUSED: one takes
 * less than KAFKA_SINK_LIMIT_BYTES_MIN, ask again. */
enum kafka_sink_status kafka_sink_read_limits(struct kafka_sink *sink, int timeout_ms, char *err,
                                              size_t err_bytes) __attribute__((warn_unused_result));

/* The most bytes that the value of this message may have in its topic, beside its key and headers,
 * as far as is known now. */
size_t kafka_sink_room(const struct kafka_sink *sink, const struct kafka_sink_message *message);

enum kafka_sink_status kafka_sink_send(struct kafka_sink *sink,
                                       const struct kafka_sink_message *message, char *err,
                                       size_t err_bytes) __attribute__((warn_unused_result));

/* Readable when reports may be waiting: to be taken until there is none. */
int kafka_sink_fd(const struct kafka_sink *sink);
void kafka_sink_clear_fd(struct kafka_sink *sink);
bool kafka_sink_take(struct kafka_sink *sink, struct kafka_sink_report *report);

/* True after a fatal error; err says why. Close and exit. */
bool kafka_sink_has_failed(const struct kafka_sink *sink, char *err, size_t err_bytes);

/* Drops what is not acknowledged. Accepts NULL. */
void kafka_sink_close(struct kafka_sink *sink);

#endif
