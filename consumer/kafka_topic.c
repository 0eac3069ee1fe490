#include "consumer/kafka_topic.h"

#include <stdio.h>

static enum kafka_topic_status kafka_topic_status_of(rd_kafka_resp_err_t error) {
    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE: /* being made */ return KAFKA_TOPIC_OK;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC: return KAFKA_TOPIC_MISSING;
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__RESOLVE: return KAFKA_TOPIC_UNREACHABLE;
    default: return KAFKA_TOPIC_REFUSED;
    }
}

enum kafka_topic_status kafka_topic_find(rd_kafka_t *handle, const char *name, int timeout_ms,
                                         char *err, size_t err_bytes) {
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
    if (topic == NULL) {
        snprintf(err, err_bytes, "topic '%s': %s", name, rd_kafka_err2str(rd_kafka_last_error()));
        return KAFKA_TOPIC_REFUSED;
    }
    rd_kafka_resp_err_t error = rd_kafka_metadata(handle, 0, topic, &metadata, timeout_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = metadata->topic_cnt == 1 ? metadata->topics[0].err
                                         : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(topic);
    enum kafka_topic_status status = kafka_topic_status_of(error);
    if (status != KAFKA_TOPIC_OK) {
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
    }
    return status;
}
