/* A record: what Kafka delivered, as the layers above the client library see it.
 *
 * Plain values, one thread. Bytes are borrowed until the record is released to where it came from.
 * Refuses to know what the value means. */
#ifndef SOLFLEET_CONSUMER_RECORD_H
#define SOLFLEET_CONSUMER_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADERS_MAX 1024 /* of one record; more are not carried on */

/* Where a record came from. The epoch names one assignment of the partition to this process: a
 * record of an earlier one can no longer be settled. */
struct source_ref {
    int32_t partition; /* its number among those of all topics: see topic_list.h */
    int64_t offset;
    uint64_t epoch;
};

struct record_header {
    const char *name;
    const void *value; /* NULL = a null value */
    size_t value_bytes;
};

struct record {
    const void *value; /* NULL = a null value */
    size_t value_bytes;
    const void *key; /* NULL = none */
    size_t key_bytes;
    int64_t timestamp_unix_ms; /* -1 = none */
    struct source_ref source;
    void *handle; /* its owner's; NULL = released */
};

#endif
