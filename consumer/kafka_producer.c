#include "consumer/kafka_producer.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_settings.h"
#include "consumer/topics_hint.h"

struct kafka_producer {
    const struct config *config; /* borrowed */
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    rd_kafka_event_t *reports;                 /* being handed out one by one; NULL = none */
    char last_error[KAFKA_CLIENT_ERROR_BYTES]; /* what librdkafka said last about its connections */
};

static rd_kafka_conf_t *kafka_producer_conf(const struct config *config, int64_t timeout_ms,
                                            char *err, size_t err_bytes) {
    char timeout[24];
    snprintf(timeout, sizeof timeout, "%lld", (long long)timeout_ms);
    /* An acknowledged record is on every in-sync replica, once. */
    static const struct config_pass fixed[] = {{"acks", "all"}, {"enable.idempotence", "true"}};
    /* Java's partitioner, so that a key lands on the same partition whoever produces it. Batches
     * far below what any topic takes, so that none is refused for its size; a record by itself is
     * for the broker to judge. */
    const struct config_pass soft[] = {{"message.timeout.ms", timeout},
                                       {"linger.ms", "5"},
                                       {"partitioner", "murmur2_random"},
                                       {"batch.size", "65536"},
                                       {"message.max.bytes", "67108864"}};
    rd_kafka_conf_t *conf =
        kafka_settings_make(config, fixed, sizeof fixed / sizeof fixed[0], err, err_bytes);
    for (size_t i = 0; conf && i < sizeof soft / sizeof soft[0]; i++) {
        if (!kafka_settings_default(conf, config, soft[i].name, soft[i].value, err, err_bytes)) {
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
    }
    if (conf) {
        rd_kafka_conf_set_log_cb(conf, NULL); /* errors come as events, and are said once */
        rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    }
    return conf;
}

enum kafka_client_status kafka_producer_open(const struct config *config, int64_t timeout_ms,
                                             struct kafka_producer **out, char *err,
                                             size_t err_bytes) {
    *out = NULL;
    struct kafka_producer *producer = calloc(1, sizeof *producer);
    rd_kafka_conf_t *conf = kafka_producer_conf(config, timeout_ms, err, err_bytes);
    if (!producer || !conf) {
        free(producer);
        return KAFKA_CLIENT_BAD_SETTING;
    }
    producer->handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, err_bytes);
    if (!producer->handle) {
        rd_kafka_conf_destroy(conf);
        free(producer);
        return KAFKA_CLIENT_BAD_SETTING;
    }
    producer->config = config;
    producer->queue = rd_kafka_queue_get_main(producer->handle);
    *out = producer;
    return KAFKA_CLIENT_OK;
}

void kafka_producer_close(struct kafka_producer *producer) {
    if (!producer) {
        return;
    }
    if (producer->reports) {
        rd_kafka_event_destroy(producer->reports);
    }
    rd_kafka_purge(producer->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_queue_destroy(producer->queue);
    rd_kafka_destroy(producer->handle);
    free(producer);
}

/* Takes what librdkafka has to say about its connections; reports that come along are kept. */
static void kafka_producer_note(struct kafka_producer *producer, rd_kafka_event_t *event) {
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR &&
        rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        snprintf(producer->last_error, sizeof producer->last_error, "%s",
                 rd_kafka_event_error_string(event));
    }
    rd_kafka_event_destroy(event);
}

/* Asks a broker about the topic; *topic_error is what it says of it. */
static rd_kafka_resp_err_t kafka_producer_ask(struct kafka_producer *producer, const char *topic,
                                              int64_t timeout_ms,
                                              rd_kafka_resp_err_t *topic_error) {
    rd_kafka_topic_t *named = rd_kafka_topic_new(producer->handle, topic, NULL);
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(producer->handle, 0, named, &found, (int)timeout_ms);
    rd_kafka_topic_destroy(named);
    if (!error) {
        *topic_error =
            found->topic_cnt == 1 ? found->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        rd_kafka_metadata_destroy(found);
    }
    return error;
}

/* Notes events for some time: before anything was sent, these are errors only. */
static void kafka_producer_listen(struct kafka_producer *producer, int wait_ms) {
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(producer->queue, wait_ms))) {
        kafka_producer_note(producer, event);
    }
}

enum kafka_client_status kafka_producer_check(struct kafka_producer *producer, const char *topic,
                                              int64_t timeout_ms, char *err, size_t err_bytes) {
    rd_kafka_resp_err_t topic_error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    for (int waited_ms = 0; topic_error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
                            waited_ms <= KAFKA_CLIENT_SETTLE_MS;
         waited_ms += KAFKA_CLIENT_SETTLE_STEP_MS) {
        rd_kafka_resp_err_t error = kafka_producer_ask(producer, topic, timeout_ms, &topic_error);
        if (error) {
            kafka_producer_listen(producer, 0);
            snprintf(err, err_bytes, "%s",
                     producer->last_error[0] ? producer->last_error : rd_kafka_err2str(error));
            return kafka_client_status_of(error);
        }
        if (topic_error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
            kafka_producer_listen(producer, KAFKA_CLIENT_SETTLE_STEP_MS);
        }
    }
    /* A broker that is just making the topic answers so: sending will wait for it. */
    if (topic_error == RD_KAFKA_RESP_ERR_NO_ERROR ||
        topic_error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) {
        return KAFKA_CLIENT_OK;
    }
    if (topic_error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        topics_hint_missing(producer->config, topic, err, err_bytes);
    } else {
        snprintf(err, err_bytes, "topic '%s': %s", topic, rd_kafka_err2str(topic_error));
    }
    return KAFKA_CLIENT_REFUSED;
}

enum kafka_client_status kafka_producer_send(struct kafka_producer *producer, const char *topic,
                                             const char *key, const char *value, size_t value_bytes,
                                             struct kafka_producer_delivery *delivery, char *err,
                                             size_t err_bytes) {
    /* librdkafka takes a value through a plain pointer and, without a copy flag, only reads it. */
    rd_kafka_resp_err_t error = rd_kafka_producev(
        producer->handle, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(key, strlen(key)),
        RD_KAFKA_V_VALUE((void *)value, value_bytes), RD_KAFKA_V_OPAQUE(delivery), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        return KAFKA_CLIENT_NONE;
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
    }
    return kafka_client_status_of(error);
}

static rd_kafka_headers_t *kafka_producer_make_headers(const struct record_header *headers,
                                                       size_t count) {
    rd_kafka_headers_t *list = count ? rd_kafka_headers_new(count) : NULL;
    for (size_t i = 0; i < count; i++) {
        rd_kafka_header_add(list, headers[i].name, -1, headers[i].value,
                            (ssize_t)headers[i].value_bytes);
    }
    return list;
}

enum kafka_client_status kafka_producer_send_record(struct kafka_producer *producer,
                                                    const char *topic, const struct record *record,
                                                    const struct record_header *headers,
                                                    size_t header_count,
                                                    struct kafka_producer_delivery *delivery,
                                                    char *err, size_t err_bytes) {
    rd_kafka_headers_t *list = kafka_producer_make_headers(headers, header_count);
    rd_kafka_resp_err_t error = rd_kafka_producev(
        producer->handle, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(record->key, record->key_bytes),
        RD_KAFKA_V_VALUE((void *)record->value, record->value_bytes),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(delivery),
        RD_KAFKA_V_HEADERS(list), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        return KAFKA_CLIENT_OK;
    }
    if (list) {
        rd_kafka_headers_destroy(list);
    }
    snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
    return error == RD_KAFKA_RESP_ERR__QUEUE_FULL ? KAFKA_CLIENT_NONE
                                                  : kafka_client_status_of(error);
}

static void kafka_producer_report(const struct kafka_producer *producer,
                                  const rd_kafka_message_t *message,
                                  struct kafka_producer_delivery *out) {
    *out = (struct kafka_producer_delivery){.status = kafka_client_status_of(message->err),
                                            .partition = message->partition,
                                            .offset = message->offset};
    if (message->err) {
        bool connection = out->status == KAFKA_CLIENT_UNREACHABLE && producer->last_error[0];
        snprintf(out->error, sizeof out->error, "%s",
                 connection ? producer->last_error : rd_kafka_err2str(message->err));
    }
}

enum kafka_client_status kafka_producer_take_delivery(struct kafka_producer *producer, int wait_ms,
                                                      struct kafka_producer_delivery **out) {
    for (;;) {
        const rd_kafka_message_t *message =
            producer->reports ? rd_kafka_event_message_next(producer->reports) : NULL;
        if (message) {
            struct kafka_producer_delivery *delivery = message->_private;
            kafka_producer_report(producer, message, delivery);
            if (out) {
                *out = delivery;
            }
            return KAFKA_CLIENT_OK;
        }
        if (producer->reports) {
            rd_kafka_event_destroy(producer->reports);
            producer->reports = NULL;
        }
        rd_kafka_event_t *event = rd_kafka_queue_poll(producer->queue, wait_ms);
        if (!event) {
            return KAFKA_CLIENT_NONE;
        }
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR) {
            producer->reports = event;
            continue;
        }
        kafka_producer_note(producer, event);
    }
}
