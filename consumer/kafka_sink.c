#include "consumer/kafka_sink.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "consumer/config.h"
#include "consumer/kafka_settings.h"
#include "consumer/kafka_topic.h"
#include "engine/clock.h"
#include "engine/log.h"

#define ERROR_LOG_MS_MIN 5000

struct kafka_sink {
    struct clock *clock;
    struct log *log;
    size_t bytes_max;
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    int fd;
    rd_kafka_event_t *reports; /* being taken; NULL = none */
    bool has_failed;
    char failure[256];
    int64_t error_logged_ns;
};

/* ---- sending ---- */

static rd_kafka_headers_t *kafka_sink_make_headers(const struct kafka_sink_message *message) {
    if (message->header_count == 0) {
        return NULL;
    }
    rd_kafka_headers_t *list = rd_kafka_headers_new(message->header_count);
    for (size_t i = 0; i < message->header_count; i++) {
        const struct record_header *header = &message->headers[i];
        rd_kafka_header_add(list, header->name, -1, header->value, (ssize_t)header->value_bytes);
    }
    return list;
}

static enum kafka_sink_status kafka_sink_status_of(rd_kafka_resp_err_t error) {
    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: return KAFKA_SINK_OK;
    case RD_KAFKA_RESP_ERR__QUEUE_FULL: return KAFKA_SINK_BUSY;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE: return KAFKA_SINK_TOO_LARGE;
    default: return KAFKA_SINK_REFUSED;
    }
}

static size_t kafka_sink_message_bytes(const struct kafka_sink_message *message) {
    size_t bytes = message->key_bytes + message->value_bytes;
    for (size_t i = 0; i < message->header_count; i++) {
        bytes += strlen(message->headers[i].name) + message->headers[i].value_bytes + 8;
    }
    return bytes;
}

enum kafka_sink_status kafka_sink_send(struct kafka_sink *sink,
                                       const struct kafka_sink_message *message, char *err,
                                       size_t err_bytes) {
    if (kafka_sink_message_bytes(message) > sink->bytes_max) {
        snprintf(err, err_bytes, "larger than %zu bytes", sink->bytes_max);
        return KAFKA_SINK_TOO_LARGE;
    }
    rd_kafka_headers_t *headers = kafka_sink_make_headers(message);
    rd_kafka_resp_err_t error =
        rd_kafka_producev(sink->handle, RD_KAFKA_V_TOPIC(message->topic),
                          RD_KAFKA_V_KEY(message->key, message->key_bytes),
                          /* copied, whatever the type says */
                          RD_KAFKA_V_VALUE((void *)(uintptr_t)message->value, message->value_bytes),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_OPAQUE((void *)(uintptr_t)message->tag),
                          RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (headers != NULL) {
            rd_kafka_headers_destroy(headers);
        }
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
    }
    return kafka_sink_status_of(error);
}

size_t kafka_sink_bytes_max(const struct kafka_sink *sink) {
    return sink->bytes_max;
}

/* ---- reports ---- */

static void kafka_sink_note_error(struct kafka_sink *sink, rd_kafka_event_t *event) {
    int64_t now_ns = clock_monotonic_ns(sink->clock);
    if (rd_kafka_event_error_is_fatal(event) && !sink->has_failed) {
        sink->has_failed = true;
        snprintf(sink->failure, sizeof sink->failure, "%s", rd_kafka_event_error_string(event));
    } else if (sink->error_logged_ns == 0 ||
               now_ns - sink->error_logged_ns >= ERROR_LOG_MS_MIN * CLOCK_NS_PER_MS) {
        sink->error_logged_ns = now_ns;
        log_write(sink->log, LOG_LEVEL_WARN, "kafka.error",
                  LOG_FIELDS(log_text("error", rd_kafka_err2str(rd_kafka_event_error(event))),
                             log_text("reason", rd_kafka_event_error_string(event))));
    }
}

/* The next message of the reports at hand, fetching more when there is none. */
static const rd_kafka_message_t *kafka_sink_next_message(struct kafka_sink *sink) {
    for (;;) {
        const rd_kafka_message_t *message =
            sink->reports != NULL ? rd_kafka_event_message_next(sink->reports) : NULL;
        if (message != NULL) {
            return message;
        }
        if (sink->reports != NULL) {
            rd_kafka_event_destroy(sink->reports);
        }
        sink->reports = rd_kafka_queue_poll(sink->queue, 0);
        if (sink->reports == NULL) {
            return NULL;
        }
        if (rd_kafka_event_type(sink->reports) == RD_KAFKA_EVENT_ERROR) {
            kafka_sink_note_error(sink, sink->reports);
        }
    }
}

bool kafka_sink_take(struct kafka_sink *sink, struct kafka_sink_report *report) {
    const rd_kafka_message_t *message = kafka_sink_next_message(sink);
    if (message == NULL) {
        return false;
    }
    bool failed = message->err != RD_KAFKA_RESP_ERR_NO_ERROR;
    *report = (struct kafka_sink_report){.tag = (uint64_t)(uintptr_t)message->_private,
                                         .status = kafka_sink_status_of(message->err),
                                         .topic = rd_kafka_topic_name(message->rkt),
                                         .value = message->payload,
                                         .value_bytes = message->len,
                                         .partition = message->partition,
                                         .offset = message->offset};
    if (failed) {
        snprintf(report->error, sizeof report->error, "%s", rd_kafka_err2str(message->err));
    }
    return true;
}

int kafka_sink_fd(const struct kafka_sink *sink) {
    return sink->fd;
}

void kafka_sink_clear_fd(struct kafka_sink *sink) {
    uint64_t count;
    ssize_t size = read(sink->fd, &count, sizeof count);
    (void)size; /* nothing to read is as good */
}

bool kafka_sink_has_failed(const struct kafka_sink *sink, char *err, size_t err_bytes) {
    if (sink->has_failed) {
        snprintf(err, err_bytes, "%s", sink->failure);
    }
    return sink->has_failed;
}

enum kafka_sink_status kafka_sink_find_topic(struct kafka_sink *sink, const char *topic,
                                             int timeout_ms, char *err, size_t err_bytes) {
    switch (kafka_topic_find(sink->handle, topic, timeout_ms, err, err_bytes)) {
    case KAFKA_TOPIC_OK: return KAFKA_SINK_OK;
    case KAFKA_TOPIC_MISSING: return KAFKA_SINK_MISSING;
    case KAFKA_TOPIC_UNREACHABLE: return KAFKA_SINK_UNREACHABLE;
    case KAFKA_TOPIC_REFUSED: break;
    }
    return KAFKA_SINK_REFUSED;
}

/* ---- open and close ---- */

/* On librdkafka's own threads. */
static void kafka_sink_on_log(const rd_kafka_t *handle, int level, const char *facility,
                              const char *text) {
    (void)level;
    const struct kafka_sink *sink = rd_kafka_opaque(handle);
    log_write(sink->log, LOG_LEVEL_DEBUG, "kafka.client",
              LOG_FIELDS(log_text("facility", facility), log_text("text", text)));
}

static rd_kafka_conf_t *kafka_sink_conf(struct kafka_sink *sink, const struct config *config,
                                        char *err, size_t err_bytes) {
    char bytes_max[24];
    snprintf(bytes_max, sizeof bytes_max, "%lld",
             (long long)(config->max_message_bytes - KAFKA_SINK_OVERHEAD_BYTES / 2));
    /* A topic's limit is on whole batches: one kept below it is never refused for its company. */
    const struct config_pass fixed[] = {{"acks", "all"},
                                        {"enable.idempotence", "true"},
                                        {"message.timeout.ms", "0"},
                                        {"allow.auto.create.topics", "false"},
                                        {"topic.metadata.refresh.interval.ms", "10000"},
                                        {"message.max.bytes", bytes_max}};
    const struct config_pass soft[] = {
        {"batch.size", bytes_max}, {"linger.ms", "5"}, {"partitioner", "murmur2_random"}};
    rd_kafka_conf_t *conf =
        kafka_settings_make(config, fixed, sizeof fixed / sizeof fixed[0], err, err_bytes);
    for (size_t i = 0; conf != NULL && i < sizeof soft / sizeof soft[0]; i++) {
        if (!kafka_settings_default(conf, config, soft[i].name, soft[i].value, err, err_bytes)) {
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
    }
    if (conf != NULL) {
        rd_kafka_conf_set_opaque(conf, sink);
        rd_kafka_conf_set_log_cb(conf, kafka_sink_on_log);
        rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    }
    return conf;
}

enum kafka_sink_status kafka_sink_open(const struct config *config, struct clock *clock,
                                       struct log *log, struct kafka_sink **out, char *err,
                                       size_t err_bytes) {
    struct kafka_sink *sink = calloc(1, sizeof *sink);
    assert(sink != NULL);
    sink->clock = clock;
    sink->log = log;
    sink->bytes_max = (size_t)config->max_message_bytes - KAFKA_SINK_OVERHEAD_BYTES;
    sink->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(sink->fd >= 0);
    rd_kafka_conf_t *conf = kafka_sink_conf(sink, config, err, err_bytes);
    sink->handle = conf != NULL ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, err_bytes) : NULL;
    if (sink->handle == NULL) {
        if (conf != NULL) {
            rd_kafka_conf_destroy(conf);
        }
        kafka_sink_close(sink);
        return KAFKA_SINK_BAD_SETTING;
    }
    static const uint64_t one = 1;
    sink->queue = rd_kafka_queue_get_main(sink->handle);
    rd_kafka_queue_io_event_enable(sink->queue, sink->fd, &one, sizeof one);
    *out = sink;
    return KAFKA_SINK_OK;
}

void kafka_sink_close(struct kafka_sink *sink) {
    if (sink == NULL) {
        return;
    }
    if (sink->reports != NULL) {
        rd_kafka_event_destroy(sink->reports);
    }
    if (sink->handle != NULL) {
        rd_kafka_queue_io_event_enable(sink->queue, -1, NULL, 0);
        rd_kafka_purge(sink->handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_queue_destroy(sink->queue);
        rd_kafka_destroy(sink->handle);
    }
    close(sink->fd);
    free(sink);
}
