/* The headers of a message of librdkafka, as records have them. Borrowed from the message; any
 * thread. Private to kafka_source and kafka_reader. */
#ifndef SOLFLEET_CONSUMER_KAFKA_HEADERS_H
#define SOLFLEET_CONSUMER_KAFKA_HEADERS_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#include "consumer/record.h"

/* Gives up to `max`, in their order; how many there are. */
size_t kafka_headers_read(const rd_kafka_message_t *message, struct record_header *headers,
                          size_t max);

#endif
