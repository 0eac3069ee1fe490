#include "consumer/kafka_broker.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>

struct kafka_broker {
    rd_kafka_t *handle; /* the cluster hangs on a handle; this one does nothing else */
    rd_kafka_mock_cluster_t *cluster;
};

static bool kafka_broker_make_topics(struct kafka_broker *broker, const char *const *topics,
                                     size_t topic_count, int partitions, char *err,
                                     size_t err_bytes) {
    for (size_t i = 0; i < topic_count; i++) {
        rd_kafka_resp_err_t error =
            rd_kafka_mock_topic_create(broker->cluster, topics[i], partitions, 1);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            snprintf(err, err_bytes, "cannot make topic %s: %s", topics[i],
                     rd_kafka_err2str(error));
            return false;
        }
    }
    return true;
}

struct kafka_broker *kafka_broker_open(const char *const *topics, size_t topic_count,
                                       int partitions, char *err, size_t err_bytes) {
    struct kafka_broker *broker = calloc(1, sizeof *broker);
    if (!broker) {
        snprintf(err, err_bytes, "out of memory");
        return NULL;
    }
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL); /* it would warn that it has no brokers to talk to */
    broker->handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, err_bytes);
    if (!broker->handle) {
        rd_kafka_conf_destroy(conf);
    } else {
        broker->cluster = rd_kafka_mock_cluster_new(broker->handle, 1);
        if (!broker->cluster) {
            snprintf(err, err_bytes, "cannot listen on 127.0.0.1");
        }
    }
    if (!broker->cluster ||
        !kafka_broker_make_topics(broker, topics, topic_count, partitions, err, err_bytes)) {
        kafka_broker_close(broker);
        return NULL;
    }
    return broker;
}

void kafka_broker_close(struct kafka_broker *broker) {
    if (!broker) {
        return;
    }
    if (broker->cluster) {
        rd_kafka_mock_cluster_destroy(broker->cluster);
    }
    if (broker->handle) {
        rd_kafka_destroy(broker->handle);
    }
    free(broker);
}

const char *kafka_broker_address(const struct kafka_broker *broker) {
    return rd_kafka_mock_cluster_bootstraps(broker->cluster);
}
