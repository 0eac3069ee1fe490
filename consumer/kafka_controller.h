/* The question whether the brokers have a controller, who takes admin requests: librdkafka's
 * in-process cluster names one that is none of its brokers, and a request to it would wait in vain.
 * Blocks up to its time-out; any thread. Only for kafka_*.c. */
#ifndef SOLFLEET_CONSUMER_KAFKA_CONTROLLER_H
#define SOLFLEET_CONSUMER_KAFKA_CONTROLLER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

/* `found` is what the brokers told last; it has their list. */
bool kafka_controller_is_among(rd_kafka_t *handle, const struct rd_kafka_metadata *found,
                               int timeout_ms);

#endif
