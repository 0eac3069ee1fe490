/* The outcome of a client's call to Kafka, as all client commands understand it.
 *
 * Plain values, any thread. Refuses to know which call it was. */
#ifndef SOLFLEET_CONSUMER_KAFKA_CLIENT_H
#define SOLFLEET_CONSUMER_KAFKA_CLIENT_H

#define KAFKA_CLIENT_ERROR_BYTES 192 /* of librdkafka's words about one connection */

/* How long a topic that has just been made may be unknown to the broker that is asked. */
#define KAFKA_CLIENT_SETTLE_MS 1000
#define KAFKA_CLIENT_SETTLE_STEP_MS 50

enum kafka_client_status {
    KAFKA_CLIENT_OK = 0,
    KAFKA_CLIENT_NONE,        /* nothing within the time */
    KAFKA_CLIENT_END,         /* every partition has been read up to where it ended at opening */
    KAFKA_CLIENT_UNREACHABLE, /* no broker answers: try again */
    KAFKA_CLIENT_BAD_SETTING,
    KAFKA_CLIENT_REFUSED /* the broker says no: unknown topic, record too large, no permission */
};

/* Of a librdkafka error code; OK for none. */
enum kafka_client_status kafka_client_status_of(int error);

#endif
