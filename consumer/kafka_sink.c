#include "consumer/kafka_sink.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_limits.h"
#include "consumer/kafka_queue.h"
#include "consumer/kafka_settings.h"
#include "consumer/kafka_topic.h"
#include "engine/clock.h"
#include "engine/log.h"

#define ERROR_LOG_MS_MIN 5000
#define LIMITS_AGAIN_MS 5000 /* how long a question asked between records may take */

/* More than any topic is sensibly given; what a topic takes is looked up in `limits`. */
#define RECORD_BYTES_MAX "67108864"

/* A record that was refused alone. */
struct kafka_sink_refusal {
    struct kafka_sink_refusal *next;
    uint64_t tag;
    size_t bytes;
    char topic[KAFKA_LIMITS_TOPIC_BYTES_MAX];
};

/* In the order in which the handles are added to the queue. */
enum { FROM_MAIN, FROM_ALONE };

struct kafka_sink {
    const struct config *config;
    struct clock *clock;
    struct log *log;
    struct kafka_limits limits;
    size_t batch_bytes; /* of `handle` */
    rd_kafka_t *handle;
    rd_kafka_t *alone; /* sends each record in a batch of its own; made when first needed */
    struct kafka_queue queue;
    rd_kafka_event_t *reports;           /* being taken; NULL = none */
    size_t reports_source;               /* FROM_MAIN or FROM_ALONE */
    struct kafka_sink_refusal *refusals; /* reported when it is known what their topics take */
    bool has_sent;
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

/* What all but the value needs in a batch of its own. */
static size_t kafka_sink_beside_bytes(const struct kafka_sink_message *message) {
    size_t bytes = KAFKA_SINK_OVERHEAD_BYTES + message->key_bytes;
    for (size_t i = 0; i < message->header_count; i++) {
        bytes += strlen(message->headers[i].name) + message->headers[i].value_bytes +
                 KAFKA_SINK_HEADER_OVERHEAD_BYTES;
    }
    return bytes;
}

size_t kafka_sink_room(const struct kafka_sink *sink, const struct kafka_sink_message *message) {
    size_t limit = kafka_limits_of(&sink->limits, message->topic);
    size_t beside = kafka_sink_beside_bytes(message);
    return limit > beside ? limit - beside : 0;
}

/* Takes the headers when it succeeds. */
static rd_kafka_resp_err_t kafka_sink_produce(rd_kafka_t *handle, const char *topic,
                                              const void *key, size_t key_bytes, const void *value,
                                              size_t value_bytes, rd_kafka_headers_t *headers,
                                              void *tag) {
    return rd_kafka_producev(handle, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(key, key_bytes),
                             /* copied, whatever the type says */
                             RD_KAFKA_V_VALUE((void *)(uintptr_t)value, value_bytes),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(tag),
                             RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
}

enum kafka_sink_status kafka_sink_send(struct kafka_sink *sink,
                                       const struct kafka_sink_message *message, char *err,
                                       size_t err_bytes) {
    size_t bytes = kafka_sink_beside_bytes(message) + message->value_bytes;
    size_t limit = kafka_limits_of(&sink->limits, message->topic);
    if (bytes > limit) {
        snprintf(err, err_bytes, "%zu bytes, but topic '%.64s' takes %zu", bytes, message->topic,
                 limit);
        return KAFKA_SINK_TOO_LARGE;
    }
    sink->has_sent = true;
    rd_kafka_headers_t *headers = kafka_sink_make_headers(message);
    rd_kafka_resp_err_t error = kafka_sink_produce(
        sink->handle, message->topic, message->key, message->key_bytes, message->value,
        message->value_bytes, headers, (void *)(uintptr_t)message->tag);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (headers != NULL) {
            rd_kafka_headers_destroy(headers);
        }
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
    }
    return kafka_sink_status_of(error);
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

static void kafka_sink_take_limits(struct kafka_sink *sink, rd_kafka_event_t *event) {
    char err[256] = "";
    if (!kafka_limits_take(&sink->limits, event, err, sizeof err)) {
        log_write(sink->log, LOG_LEVEL_WARN, "kafka.limits_unknown",
                  LOG_FIELDS(log_text("error", err),
                             log_int("assumed_bytes", (int64_t)sink->limits.assumed_bytes)));
    }
}

/* What an event has to say but reports. */
static void kafka_sink_serve(struct kafka_sink *sink, rd_kafka_event_t *event) {
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_ERROR: kafka_sink_note_error(sink, event); break;
    case RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT: kafka_sink_take_limits(sink, event); break;
    default: break;
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
        sink->reports = kafka_queue_poll(&sink->queue, 0, &sink->reports_source);
        if (sink->reports == NULL) {
            return NULL;
        }
        kafka_sink_serve(sink, sink->reports);
    }
}

/* ---- refused for size ---- */

static rd_kafka_t *kafka_sink_make_handle(struct kafka_sink *sink, size_t batch_bytes, bool alone,
                                          char *err, size_t err_bytes);

static bool kafka_sink_make_alone(struct kafka_sink *sink) {
    char err[256];
    if (sink->alone == NULL) {
        sink->alone = kafka_sink_make_handle(sink, sink->batch_bytes, true, err, sizeof err);
        if (sink->alone == NULL) {
            log_write(sink->log, LOG_LEVEL_ERROR, "kafka.error",
                      LOG_FIELDS(log_text("error", err)));
            return false;
        }
        kafka_queue_add(&sink->queue, rd_kafka_queue_get_main(sink->alone));
    }
    return true;
}

/* Sends a record again in a batch of its own. False when that is not possible now. */
static bool kafka_sink_send_alone(struct kafka_sink *sink, const rd_kafka_message_t *message) {
    rd_kafka_headers_t *theirs = NULL, *headers = NULL;
    if (!kafka_sink_make_alone(sink)) {
        return false;
    }
    if (rd_kafka_message_headers(message, &theirs) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        headers = rd_kafka_headers_copy(theirs);
    }
    bool sent = kafka_sink_produce(sink->alone, rd_kafka_topic_name(message->rkt), message->key,
                                   message->key_len, message->payload, message->len, headers,
                                   message->_private) == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (!sent && headers != NULL) {
        rd_kafka_headers_destroy(headers);
    }
    return sent;
}

static size_t kafka_sink_bytes_of(const rd_kafka_message_t *message) {
    size_t bytes = KAFKA_SINK_OVERHEAD_BYTES + message->key_len + message->len;
    rd_kafka_headers_t *headers = NULL;
    const char *name;
    const void *value;
    size_t value_bytes;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &value_bytes) ==
                           RD_KAFKA_RESP_ERR_NO_ERROR;
             i++) {
            bytes += strlen(name) + value_bytes + KAFKA_SINK_HEADER_OVERHEAD_BYTES;
        }
    }
    return bytes;
}

/* A record that was refused alone: its topic takes less than was known, so that is asked for again,
 * and its report waits for the answer. */
static void kafka_sink_judge(struct kafka_sink *sink, const rd_kafka_message_t *message) {
    struct kafka_sink_refusal *refusal = calloc(1, sizeof *refusal);
    assert(refusal != NULL);
    refusal->tag = (uint64_t)(uintptr_t)message->_private;
    refusal->bytes = kafka_sink_bytes_of(message);
    snprintf(refusal->topic, sizeof refusal->topic, "%s", rd_kafka_topic_name(message->rkt));
    refusal->next = sink->refusals;
    sink->refusals = refusal;
    log_write(
        sink->log, LOG_LEVEL_WARN, "kafka.too_large",
        LOG_FIELDS(log_text("topic", refusal->topic), log_int("bytes", (int64_t)refusal->bytes)));
    if (!sink->limits.asked) {
        kafka_limits_ask(&sink->limits, sink->handle, sink->queue.sources[FROM_MAIN],
                         LIMITS_AGAIN_MS);
    }
}

/* Reports a refusal, once the brokers have been asked. */
static bool kafka_sink_take_refusal(struct kafka_sink *sink, struct kafka_sink_report *report) {
    struct kafka_sink_refusal *refusal = sink->refusals;
    if (refusal == NULL || sink->limits.asked) {
        return false;
    }
    if (kafka_limits_of(&sink->limits, refusal->topic) >= refusal->bytes) {
        kafka_limits_refused(&sink->limits, refusal->topic, refusal->bytes);
    }
    *report = (struct kafka_sink_report){.tag = refusal->tag, .status = KAFKA_SINK_TOO_LARGE};
    snprintf(report->error, sizeof report->error, "%zu bytes are more than '%.64s' takes",
             refusal->bytes, refusal->topic);
    sink->refusals = refusal->next;
    free(refusal);
    return true;
}

/* True when the message has no report yet: it goes on its way once more, alone, or its judgement
 * waits. */
static bool kafka_sink_puts_off(struct kafka_sink *sink, const rd_kafka_message_t *message) {
    if (kafka_sink_status_of(message->err) != KAFKA_SINK_TOO_LARGE) {
        return false;
    }
    if (sink->reports_source == FROM_ALONE) {
        kafka_sink_judge(sink, message);
        return true;
    }
    return kafka_sink_send_alone(sink, message);
}

bool kafka_sink_take(struct kafka_sink *sink, struct kafka_sink_report *report) {
    const rd_kafka_message_t *message;
    do {
        message = kafka_sink_next_message(sink);
        if (message == NULL) {
            return kafka_sink_take_refusal(sink, report);
        }
    } while (kafka_sink_puts_off(sink, message));
    enum kafka_sink_status status = kafka_sink_status_of(message->err);
    *report = (struct kafka_sink_report){
        .tag = (uint64_t)(uintptr_t)message->_private,
        /* what could not be sent alone is not judged */
        .status = status == KAFKA_SINK_TOO_LARGE ? KAFKA_SINK_REFUSED : status,
        .partition = message->partition,
        .offset = message->offset};
    if (status != KAFKA_SINK_OK) {
        snprintf(report->error, sizeof report->error, "%s", rd_kafka_err2str(message->err));
    }
    return true;
}

int kafka_sink_fd(const struct kafka_sink *sink) {
    return sink->queue.fd;
}

void kafka_sink_clear_fd(struct kafka_sink *sink) {
    kafka_queue_clear(&sink->queue);
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

static rd_kafka_conf_t *kafka_sink_conf(struct kafka_sink *sink, size_t batch_bytes, bool alone,
                                        char *err, size_t err_bytes) {
    const struct config *config = sink->config;
    char batch[24];
    snprintf(batch, sizeof batch, "%zu", batch_bytes);
    static const struct config_pass fixed[] = {{"acks", "all"},
                                               {"enable.idempotence", "true"},
                                               {"message.timeout.ms", "0"},
                                               {"allow.auto.create.topics", "false"},
                                               {"topic.metadata.refresh.interval.ms", "10000"},
                                               {"message.max.bytes", RECORD_BYTES_MAX}};
    const struct config_pass soft[] = {{"batch.size", batch},
                                       {"batch.num.messages", alone ? "1" : "10000"},
                                       {"linger.ms", alone ? "0" : "5"},
                                       {"partitioner", "murmur2_random"}};
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

static rd_kafka_t *kafka_sink_make_handle(struct kafka_sink *sink, size_t batch_bytes, bool alone,
                                          char *err, size_t err_bytes) {
    rd_kafka_conf_t *conf = kafka_sink_conf(sink, batch_bytes, alone, err, err_bytes);
    rd_kafka_t *handle =
        conf != NULL ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, err_bytes) : NULL;
    if (handle == NULL && conf != NULL) {
        rd_kafka_conf_destroy(conf);
    }
    return handle;
}

/* Makes the handle for the batches that the topics take. */
static bool kafka_sink_make_main(struct kafka_sink *sink, char *err, size_t err_bytes) {
    sink->batch_bytes = kafka_limits_least(&sink->limits) - KAFKA_SINK_OVERHEAD_BYTES;
    sink->handle = kafka_sink_make_handle(sink, sink->batch_bytes, false, err, err_bytes);
    if (sink->handle == NULL) {
        return false;
    }
    kafka_queue_add(&sink->queue, rd_kafka_queue_get_main(sink->handle));
    return true;
}

static void kafka_sink_drop_handle(rd_kafka_t *handle) {
    if (handle != NULL) {
        rd_kafka_purge(handle, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(handle);
    }
}

static void kafka_sink_name_topics(struct kafka_sink *sink, const struct config *config) {
    kafka_limits_add(&sink->limits, config->results_topic, strlen(config->results_topic));
    kafka_limits_add(&sink->limits, config->dead_letter_topic, strlen(config->dead_letter_topic));
    for (const char *at = config->reply_topics != NULL ? config->reply_topics : ""; *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        kafka_limits_add(&sink->limits, at, bytes);
        at += bytes + (at[bytes] == ',');
    }
}

enum kafka_sink_status kafka_sink_open(const struct config *config, struct clock *clock,
                                       struct log *log, struct kafka_sink **out, char *err,
                                       size_t err_bytes) {
    struct kafka_sink *sink = calloc(1, sizeof *sink);
    assert(sink != NULL);
    sink->config = config;
    sink->clock = clock;
    sink->log = log;
    kafka_queue_open(&sink->queue);
    kafka_limits_init(&sink->limits, (size_t)config->max_message_bytes);
    kafka_sink_name_topics(sink, config);
    if (!kafka_sink_make_main(sink, err, err_bytes)) {
        kafka_sink_close(sink);
        return KAFKA_SINK_BAD_SETTING;
    }
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
    for (struct kafka_sink_refusal *next; sink->refusals != NULL; sink->refusals = next) {
        next = sink->refusals->next;
        free(sink->refusals);
    }
    kafka_queue_close(&sink->queue);
    kafka_sink_drop_handle(sink->alone);
    kafka_sink_drop_handle(sink->handle);
    free(sink);
}

/* ---- what the topics take ---- */

/* Waits for the answer; before anything was sent all other events are errors. */
static void kafka_sink_await_limits(struct kafka_sink *sink, int timeout_ms) {
    int64_t end_ns = clock_monotonic_ns(NULL) + timeout_ms * CLOCK_NS_PER_MS;
    while (sink->limits.asked && clock_monotonic_ns(NULL) < end_ns) {
        rd_kafka_event_t *event = kafka_queue_poll(&sink->queue, 20, NULL);
        if (event != NULL) {
            kafka_sink_serve(sink, event);
            rd_kafka_event_destroy(event);
        }
    }
    sink->limits.asked = false; /* one that comes later is as welcome */
}

static bool kafka_sink_limits_suffice(const struct kafka_sink *sink, char *err, size_t err_bytes) {
    for (size_t i = 0; i < sink->limits.count; i++) {
        const struct kafka_limits_topic *topic = &sink->limits.topics[i];
        if (topic->bytes < KAFKA_SINK_LIMIT_BYTES_MIN) {
            snprintf(err, err_bytes,
                     "topic '%s' takes only %zu bytes a message: raise its max.message.bytes to "
                     "%d or more",
                     topic->name, topic->bytes, KAFKA_SINK_LIMIT_BYTES_MIN);
            return false;
        }
        log_write(sink->log, LOG_LEVEL_INFO, "kafka.limit",
                  LOG_FIELDS(log_text("topic", topic->name),
                             log_int("bytes", (int64_t)topic->bytes),
                             log_text("from", topic->told ? "the broker" : "max_message_bytes")));
    }
    return true;
}

enum kafka_sink_status kafka_sink_read_limits(struct kafka_sink *sink, int timeout_ms, char *err,
                                              size_t err_bytes) {
    char why[256];
    assert(!sink->has_sent); /* a new handle would lose it */
    if (kafka_limits_can_ask(sink->handle, timeout_ms, why, sizeof why)) {
        kafka_limits_ask(&sink->limits, sink->handle, sink->queue.sources[FROM_MAIN], timeout_ms);
        kafka_sink_await_limits(sink, timeout_ms);
    } else {
        log_write(sink->log, LOG_LEVEL_WARN, "kafka.limits_unknown",
                  LOG_FIELDS(log_text("error", why),
                             log_int("assumed_bytes", (int64_t)sink->limits.assumed_bytes)));
    }
    if (!kafka_sink_limits_suffice(sink, err, err_bytes)) {
        return KAFKA_SINK_REFUSED;
    }
    if (kafka_limits_least(&sink->limits) - KAFKA_SINK_OVERHEAD_BYTES >= sink->batch_bytes) {
        return KAFKA_SINK_OK;
    }
    kafka_queue_empty(&sink->queue);
    kafka_sink_drop_handle(sink->handle);
    return kafka_sink_make_main(sink, err, err_bytes) ? KAFKA_SINK_OK : KAFKA_SINK_BAD_SETTING;
}
