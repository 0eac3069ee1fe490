/* Kafka consumer settings: the librdkafka configuration of the worker's group member.
 *
 * What delivery rests on is one table; `kafka.*` overrides it only with `unsafe`. Refuses group
 * settings that this librdkafka does not do well. The result is the caller's until librdkafka takes
 * it. Only for kafka_*.c and tests. */
#ifndef SOLFLEET_CONSUMER_KAFKA_CONSUMER_SETTINGS_H
#define SOLFLEET_CONSUMER_KAFKA_CONSUMER_SETTINGS_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/config.h"

/* What delivery rests on, and cannot be changed without `unsafe`; group.id besides. */
extern const struct config_pass kafka_consumer_settings_fixed[];
extern const size_t kafka_consumer_settings_fixed_count;

/* NULL with the reason in err. */
rd_kafka_conf_t *kafka_consumer_settings_make(const struct config *config, char *err,
                                              size_t err_bytes);

/* Time after which the group gives up a member that it does not hear of. */
int64_t kafka_consumer_settings_session_ms(const struct config *config);

/* NULL, or why a librdkafka of this version may not use an assignor or a group protocol. */
const char *kafka_consumer_settings_refusal(const struct config *config, int version);

#endif
