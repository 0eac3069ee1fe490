#include "consumer/kafka_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/kafka_controller.h"

static const char kafka_limits_property[] = "max.message.bytes";

/* ---- the table ---- */

void kafka_limits_init(struct kafka_limits *limits, size_t assumed_bytes) {
    *limits = (struct kafka_limits){.assumed_bytes = assumed_bytes};
}

static struct kafka_limits_topic *kafka_limits_find(struct kafka_limits *limits, const char *name,
                                                    size_t name_bytes) {
    for (size_t i = 0; i < limits->count; i++) {
        const char *known = limits->topics[i].name;
        if (strlen(known) == name_bytes && memcmp(known, name, name_bytes) == 0) {
            return &limits->topics[i];
        }
    }
    return NULL;
}

void kafka_limits_add(struct kafka_limits *limits, const char *name, size_t name_bytes) {
    if (name_bytes == 0 || name_bytes >= KAFKA_LIMITS_TOPIC_BYTES_MAX ||
        limits->count == KAFKA_LIMITS_TOPICS_MAX ||
        kafka_limits_find(limits, name, name_bytes) != NULL) {
        return;
    }
    struct kafka_limits_topic *topic = &limits->topics[limits->count++];
    memcpy(topic->name, name, name_bytes);
    topic->name[name_bytes] = '\0';
    topic->bytes = limits->assumed_bytes;
}

size_t kafka_limits_of(const struct kafka_limits *limits, const char *topic) {
    for (size_t i = 0; i < limits->count; i++) {
        if (strcmp(limits->topics[i].name, topic) == 0) {
            return limits->topics[i].bytes;
        }
    }
    return limits->assumed_bytes;
}

size_t kafka_limits_least(const struct kafka_limits *limits) {
    size_t least = limits->count > 0 ? limits->topics[0].bytes : limits->assumed_bytes;
    for (size_t i = 1; i < limits->count; i++) {
        least = limits->topics[i].bytes < least ? limits->topics[i].bytes : least;
    }
    return least;
}

void kafka_limits_refused(struct kafka_limits *limits, const char *topic, size_t bytes) {
    struct kafka_limits_topic *known = kafka_limits_find(limits, topic, strlen(topic));
    if (known != NULL && known->bytes > bytes / 2) {
        known->bytes = bytes / 2;
    }
}

/* ---- the brokers ---- */

bool kafka_limits_can_ask(rd_kafka_t *handle, int timeout_ms, char *err, size_t err_bytes) {
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t error = rd_kafka_metadata(handle, 0, NULL, &found, timeout_ms);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
        return false;
    }
    bool can = kafka_controller_is_among(handle, found, timeout_ms);
    rd_kafka_metadata_destroy(found);
    if (!can) {
        snprintf(err, err_bytes, "this broker has no admin interface");
    }
    return can;
}

void kafka_limits_ask(struct kafka_limits *limits, rd_kafka_t *handle, rd_kafka_queue_t *queue,
                      int timeout_ms) {
    rd_kafka_ConfigResource_t *asked[KAFKA_LIMITS_TOPICS_MAX];
    for (size_t i = 0; i < limits->count; i++) {
        asked[i] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, limits->topics[i].name);
    }
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    char said[128];
    rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, said, sizeof said);
    rd_kafka_DescribeConfigs(handle, asked, limits->count, options, queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(asked, limits->count);
    limits->asked = true;
}

/* The property among a topic's; 0 when it is not there. */
static size_t kafka_limits_read(const rd_kafka_ConfigResource_t *resource) {
    size_t count = 0;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
    for (size_t i = 0; i < count; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        if (value != NULL &&
            strcmp(rd_kafka_ConfigEntry_name(entries[i]), kafka_limits_property) == 0) {
            return (size_t)strtoull(value, NULL, 10);
        }
    }
    return 0;
}

static bool kafka_limits_take_topic(struct kafka_limits *limits,
                                    const rd_kafka_ConfigResource_t *resource, char *err,
                                    size_t err_bytes) {
    const char *name = rd_kafka_ConfigResource_name(resource);
    struct kafka_limits_topic *topic = kafka_limits_find(limits, name, strlen(name));
    size_t bytes = kafka_limits_read(resource);
    if (topic != NULL && bytes > 0) {
        topic->bytes = bytes;
        topic->told = true;
        return true;
    }
    const char *said = rd_kafka_ConfigResource_error_string(resource);
    snprintf(err, err_bytes, "topic '%s': %s", name, said != NULL ? said : "not told");
    return false;
}

bool kafka_limits_take(struct kafka_limits *limits, rd_kafka_event_t *event, char *err,
                       size_t err_bytes) {
    limits->asked = false;
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(err, err_bytes, "%s", rd_kafka_event_error_string(event));
        return false;
    }
    size_t count = 0;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count);
    bool told = true;
    for (size_t i = 0; i < count; i++) {
        told &= kafka_limits_take_topic(limits, resources[i], err, err_bytes);
    }
    return told;
}
