/* Kafka settings: a librdkafka configuration made from ours, with the user's `kafka.*` on top.
 *
 * The result is the caller's until librdkafka takes it. Any thread. Refuses to know what the handle
 * is for: a caller passes the properties its promises rest on, and those win over `kafka.*` unless
 * `unsafe` is set. Only for kafka_*.c. */
#ifndef SOLFLEET_CONSUMER_KAFKA_SETTINGS_H
#define SOLFLEET_CONSUMER_KAFKA_SETTINGS_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

struct config;
struct config_pass;

/* NULL with the reason in err: an unknown property, a bad value, or one that may not be changed. */
rd_kafka_conf_t *kafka_settings_make(const struct config *config, const struct config_pass *fixed,
                                     size_t fixed_count, char *err, size_t err_bytes);

/* Sets a property that nothing rests on, unless the user has set it. False with the reason in
 * err. */
bool kafka_settings_default(rd_kafka_conf_t *conf, const struct config *config, const char *name,
                            const char *value, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
