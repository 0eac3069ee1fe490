/* The sizes that topics take: `max.message.bytes` of each, as the brokers tell it.
 *
 * A topic's limit is on whole batches, which a record that is sent alone is, too. Until the brokers
 * have told, and where they do not, the size given at opening holds. One thread. Owns its table.
 * Refuses to know what is sent. Only for kafka_*.c. */
#ifndef SOLFLEET_CONSUMER_KAFKA_LIMITS_H
#define SOLFLEET_CONSUMER_KAFKA_LIMITS_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#define KAFKA_LIMITS_TOPICS_MAX 64
#define KAFKA_LIMITS_TOPIC_BYTES_MAX 250 /* a topic's name, NUL included */

struct kafka_limits_topic {
    char name[KAFKA_LIMITS_TOPIC_BYTES_MAX];
    size_t bytes;
    bool told; /* by the brokers */
};

struct kafka_limits {
    struct kafka_limits_topic topics[KAFKA_LIMITS_TOPICS_MAX];
    size_t count;
    size_t assumed_bytes;
    bool asked; /* an answer is under way */
};

void kafka_limits_init(struct kafka_limits *limits, size_t assumed_bytes);
/* A name that is there is not added again; beyond KAFKA_LIMITS_TOPICS_MAX the rest is assumed. */
void kafka_limits_add(struct kafka_limits *limits, const char *name, size_t name_bytes);

/* The most bytes of a batch that the topic takes. */
size_t kafka_limits_of(const struct kafka_limits *limits, const char *topic);
/* The least of all. */
size_t kafka_limits_least(const struct kafka_limits *limits);
/* The topic has refused a batch of so many bytes, whatever it is known to take: half is assumed. */
void kafka_limits_refused(struct kafka_limits *limits, const char *topic, size_t bytes);

/* Whether the brokers can be asked; blocks up to timeout_ms, err says why not. */
bool kafka_limits_can_ask(rd_kafka_t *handle, int timeout_ms, char *err, size_t err_bytes);
/* Asks for all topics; the answer comes as an event of the queue. */
void kafka_limits_ask(struct kafka_limits *limits, rd_kafka_t *handle, rd_kafka_queue_t *queue,
                      int timeout_ms);
/* Takes that event. False, with the reason, where a topic's limit was not told. */
bool kafka_limits_take(struct kafka_limits *limits, rd_kafka_event_t *event, char *err,
                       size_t err_bytes);

#endif
