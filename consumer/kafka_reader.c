#include "consumer/kafka_reader.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_headers.h"
#include "consumer/kafka_settings.h"
#include "consumer/topics_hint.h"
#include "engine/clock.h"

struct kafka_reader {
    rd_kafka_t *handle;
    rd_kafka_topic_partition_list_t *ends; /* offset: where each partition ended at opening */
    int64_t *positions;                    /* next offset to read, in the order of `ends` */
    size_t open_count;                     /* partitions not yet read to their end */
    rd_kafka_message_t *message;           /* lent to the caller */
    int64_t timeout_ms;
    bool is_patient;
    int64_t down_since_ns; /* 0 while a broker is there */
    char last_error[KAFKA_CLIENT_ERROR_BYTES];
};

static void kafka_reader_on_error(rd_kafka_t *handle, int error, const char *reason, void *opaque) {
    (void)handle;
    struct kafka_reader *reader = opaque;
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        if (!reader->down_since_ns) {
            reader->down_since_ns = clock_monotonic_ns(NULL);
        }
        return;
    }
    snprintf(reader->last_error, sizeof reader->last_error, "%s", reason);
}

static enum kafka_client_status kafka_reader_start_handle(struct kafka_reader *reader,
                                                          const struct config *config,
                                                          const char *when_gone, char *err,
                                                          size_t err_bytes) {
    const struct config_pass fixed[] = {
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", when_gone}, /* offsets that retention has taken meanwhile */
    };
    rd_kafka_conf_t *conf =
        kafka_settings_make(config, fixed, sizeof fixed / sizeof fixed[0], err, err_bytes);
    if (!conf) {
        return KAFKA_CLIENT_BAD_SETTING;
    }
    /* librdkafka wants a group's name even from a reader that joins none. */
    if (!kafka_settings_default(conf, config, "group.id", "solfleet-reader", err, err_bytes)) {
        rd_kafka_conf_destroy(conf);
        return KAFKA_CLIENT_BAD_SETTING;
    }
    rd_kafka_conf_set_opaque(conf, reader);
    rd_kafka_conf_set_error_cb(conf, kafka_reader_on_error);
    rd_kafka_conf_set_log_cb(conf, NULL);
    reader->handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf, err, err_bytes);
    if (!reader->handle) {
        rd_kafka_conf_destroy(conf);
        return KAFKA_CLIENT_BAD_SETTING;
    }
    rd_kafka_poll_set_consumer(reader->handle);
    return KAFKA_CLIENT_OK;
}

static enum kafka_client_status kafka_reader_say(struct kafka_reader *reader, int error,
                                                 const char *what, char *err, size_t err_bytes) {
    enum kafka_client_status status = kafka_client_status_of(error);
    rd_kafka_poll(reader->handle, 0); /* lets the error callback say what happened */
    bool connection = status == KAFKA_CLIENT_UNREACHABLE && reader->last_error[0];
    snprintf(err, err_bytes, "%s: %s", what,
             connection ? reader->last_error : rd_kafka_err2str(error));
    return status;
}

/* Asks for the topic's partitions; on OK reader->ends has them. */
static rd_kafka_resp_err_t kafka_reader_ask(struct kafka_reader *reader, const char *topic,
                                            rd_kafka_resp_err_t *topic_error) {
    rd_kafka_topic_t *named = rd_kafka_topic_new(reader->handle, topic, NULL);
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(reader->handle, 0, named, &found, (int)reader->timeout_ms);
    rd_kafka_topic_destroy(named);
    if (error) {
        return error;
    }
    *topic_error =
        found->topic_cnt == 1 ? found->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (*topic_error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const struct rd_kafka_metadata_topic *told = &found->topics[0];
        reader->ends = rd_kafka_topic_partition_list_new(told->partition_cnt);
        for (int i = 0; i < told->partition_cnt; i++) {
            rd_kafka_topic_partition_list_add(reader->ends, topic, told->partitions[i].id);
        }
    }
    rd_kafka_metadata_destroy(found);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static enum kafka_client_status kafka_reader_find_partitions(struct kafka_reader *reader,
                                                             const struct config *config,
                                                             const char *topic, char *err,
                                                             size_t err_bytes) {
    rd_kafka_resp_err_t topic_error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    for (int waited_ms = 0; !reader->ends && waited_ms <= KAFKA_CLIENT_SETTLE_MS;
         waited_ms += KAFKA_CLIENT_SETTLE_STEP_MS) {
        rd_kafka_resp_err_t error = kafka_reader_ask(reader, topic, &topic_error);
        if (error) {
            return kafka_reader_say(reader, error, "no broker answers", err, err_bytes);
        }
        if (topic_error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            rd_kafka_poll(reader->handle, KAFKA_CLIENT_SETTLE_STEP_MS);
        }
    }
    if (reader->ends) {
        return KAFKA_CLIENT_OK;
    }
    if (topic_error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
        topics_hint_missing(config, topic, err, err_bytes);
        return KAFKA_CLIENT_REFUSED;
    }
    return kafka_reader_say(reader, topic_error, topic, err, err_bytes);
}

/* Fills the positions with where each partition was at a time; beyond its end it is negative. */
static rd_kafka_resp_err_t kafka_reader_look_up(struct kafka_reader *reader,
                                                int64_t since_unix_ms) {
    rd_kafka_topic_partition_list_t *at = rd_kafka_topic_partition_list_copy(reader->ends);
    for (int i = 0; i < at->cnt; i++) {
        at->elems[i].offset = since_unix_ms;
    }
    rd_kafka_resp_err_t error =
        rd_kafka_offsets_for_times(reader->handle, at, (int)reader->timeout_ms);
    for (int i = 0; !error && i < at->cnt; i++) {
        error = at->elems[i].err;
        reader->positions[i] = at->elems[i].offset;
    }
    rd_kafka_topic_partition_list_destroy(at);
    return error;
}

/* Asks where the partition begins and ends, and decides where to read from. */
static rd_kafka_resp_err_t kafka_reader_place(struct kafka_reader *reader, int index,
                                              enum kafka_reader_start start, int64_t amount) {
    rd_kafka_topic_partition_t *end = &reader->ends->elems[index];
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
        reader->handle, end->topic, end->partition, &low, &high, (int)reader->timeout_ms);
    if (error) {
        return error;
    }
    end->offset = high;
    switch (start) {
    case KAFKA_READER_BEGINNING: reader->positions[index] = low; break;
    case KAFKA_READER_NEWEST:
        reader->positions[index] = high - low > amount ? high - amount : low;
        break;
    case KAFKA_READER_LATEST: reader->positions[index] = high; break;
    case KAFKA_READER_SINCE:
        if (reader->positions[index] < 0) {
            reader->positions[index] = high;
        }
        break;
    }
    reader->open_count += reader->positions[index] < high;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t kafka_reader_place_each(struct kafka_reader *reader,
                                                   enum kafka_reader_start start, int64_t amount) {
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    reader->open_count = 0;
    if (start == KAFKA_READER_SINCE) {
        error = kafka_reader_look_up(reader, amount);
    }
    for (int i = 0; !error && i < reader->ends->cnt; i++) {
        error = kafka_reader_place(reader, i, start, amount);
    }
    return error;
}

/* Of a topic that was just made, or a partition that moves: the broker asked does not know yet. */
static bool kafka_reader_is_settling(rd_kafka_resp_err_t error) {
    return error == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
           error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
           error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

static enum kafka_client_status kafka_reader_place_all(struct kafka_reader *reader,
                                                       enum kafka_reader_start start,
                                                       int64_t amount, char *err,
                                                       size_t err_bytes) {
    reader->positions = calloc((size_t)reader->ends->cnt + 1, sizeof *reader->positions);
    if (!reader->positions) {
        snprintf(err, err_bytes, "out of memory");
        return KAFKA_CLIENT_REFUSED;
    }
    rd_kafka_resp_err_t error = kafka_reader_place_each(reader, start, amount);
    for (int waited_ms = 0; kafka_reader_is_settling(error) && waited_ms <= KAFKA_CLIENT_SETTLE_MS;
         waited_ms += KAFKA_CLIENT_SETTLE_STEP_MS) {
        rd_kafka_poll(reader->handle, KAFKA_CLIENT_SETTLE_STEP_MS);
        error = kafka_reader_place_each(reader, start, amount);
    }
    return error ? kafka_reader_say(reader, error, "no broker answers", err, err_bytes)
                 : KAFKA_CLIENT_OK;
}

static enum kafka_client_status kafka_reader_assign(struct kafka_reader *reader, char *err,
                                                    size_t err_bytes) {
    rd_kafka_topic_partition_list_t *from = rd_kafka_topic_partition_list_copy(reader->ends);
    for (int i = 0; i < from->cnt; i++) {
        from->elems[i].offset = reader->positions[i];
    }
    rd_kafka_resp_err_t error = rd_kafka_assign(reader->handle, from);
    rd_kafka_topic_partition_list_destroy(from);
    return error ? kafka_reader_say(reader, error, "cannot read", err, err_bytes) : KAFKA_CLIENT_OK;
}

static struct kafka_reader *kafka_reader_new(int64_t timeout_ms) {
    struct kafka_reader *reader = calloc(1, sizeof *reader);
    if (reader) {
        reader->timeout_ms = timeout_ms;
    }
    return reader;
}

static enum kafka_client_status kafka_reader_finish_open(struct kafka_reader *reader,
                                                         enum kafka_client_status status,
                                                         struct kafka_reader **out) {
    if (status != KAFKA_CLIENT_OK) {
        kafka_reader_close(reader);
        return status;
    }
    *out = reader;
    return KAFKA_CLIENT_OK;
}

enum kafka_client_status kafka_reader_open(const struct config *config, const char *topic,
                                           enum kafka_reader_start start, int64_t amount,
                                           int64_t timeout_ms, struct kafka_reader **out, char *err,
                                           size_t err_bytes) {
    *out = NULL;
    struct kafka_reader *reader = kafka_reader_new(timeout_ms);
    if (!reader) {
        snprintf(err, err_bytes, "out of memory");
        return KAFKA_CLIENT_REFUSED;
    }
    enum kafka_client_status status =
        kafka_reader_start_handle(reader, config, "earliest", err, err_bytes);
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_reader_find_partitions(reader, config, topic, err, err_bytes);
    }
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_reader_place_all(reader, start, amount, err, err_bytes);
    }
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_reader_assign(reader, err, err_bytes);
    }
    return kafka_reader_finish_open(reader, status, out);
}

enum kafka_client_status kafka_reader_open_at(const struct config *config, const char *topic,
                                              int32_t partition, int64_t offset, int64_t timeout_ms,
                                              struct kafka_reader **out, char *err,
                                              size_t err_bytes) {
    *out = NULL;
    struct kafka_reader *reader = kafka_reader_new(timeout_ms);
    if (!reader) {
        snprintf(err, err_bytes, "out of memory");
        return KAFKA_CLIENT_REFUSED;
    }
    enum kafka_client_status status =
        kafka_reader_start_handle(reader, config, "error", err, err_bytes);
    if (status == KAFKA_CLIENT_OK) {
        reader->positions = calloc(1, sizeof *reader->positions);
        reader->ends = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(reader->ends, topic, partition)->offset = offset + 1;
        reader->open_count = 1;
        status = reader->positions ? KAFKA_CLIENT_OK : KAFKA_CLIENT_REFUSED;
    }
    if (status == KAFKA_CLIENT_OK) {
        reader->positions[0] = offset;
        status = kafka_reader_assign(reader, err, err_bytes);
    }
    return kafka_reader_finish_open(reader, status, out);
}

void kafka_reader_close(struct kafka_reader *reader) {
    if (!reader) {
        return;
    }
    if (reader->message) {
        rd_kafka_message_destroy(reader->message);
    }
    if (reader->ends) {
        rd_kafka_topic_partition_list_destroy(reader->ends);
    }
    if (reader->handle) {
        rd_kafka_consumer_close(reader->handle);
        rd_kafka_destroy(reader->handle);
    }
    free(reader->positions);
    free(reader);
}

void kafka_reader_be_patient(struct kafka_reader *reader) {
    reader->is_patient = true;
}

/* Notes that partition's records up to `next` have been seen. */
static void kafka_reader_advance(struct kafka_reader *reader, int32_t partition, int64_t next) {
    for (int i = 0; i < reader->ends->cnt; i++) {
        if (reader->ends->elems[i].partition != partition) {
            continue;
        }
        int64_t end = reader->ends->elems[i].offset;
        reader->open_count -= reader->positions[i] < end && next >= end;
        reader->positions[i] = next;
    }
}

static void kafka_reader_lend(struct kafka_reader *reader, rd_kafka_message_t *message,
                              struct kafka_reader_record *out) {
    reader->message = message;
    rd_kafka_timestamp_type_t type;
    *out = (struct kafka_reader_record){
        .key = message->key,
        .key_bytes = message->key_len,
        .value = message->payload,
        .value_bytes = message->len,
        .timestamp_unix_ms = rd_kafka_message_timestamp(message, &type),
        .partition = message->partition,
        .offset = message->offset,
    };
}

/* True when a record came after opening, while another partition is still being read. */
static bool kafka_reader_is_beyond(const struct kafka_reader *reader,
                                   const rd_kafka_message_t *message) {
    for (int i = 0; i < reader->ends->cnt; i++) {
        if (reader->ends->elems[i].partition == message->partition) {
            return message->offset >= reader->ends->elems[i].offset;
        }
    }
    return true;
}

size_t kafka_reader_headers(const struct kafka_reader *reader, struct record_header *headers,
                            size_t max) {
    return kafka_headers_read(reader->message, headers, max);
}

/* True when no broker has been there for the whole time-out. librdkafka tells when the last one
 * goes, but not when one is back: that is asked for. */
static bool kafka_reader_is_down(struct kafka_reader *reader) {
    int64_t now_ns = clock_monotonic_ns(NULL);
    if (!reader->down_since_ns || reader->is_patient ||
        now_ns - reader->down_since_ns <= reader->timeout_ms * CLOCK_NS_PER_MS) {
        return false;
    }
    const struct rd_kafka_metadata *found = NULL;
    if (rd_kafka_metadata(reader->handle, 0, NULL, &found, KAFKA_CLIENT_SETTLE_MS) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        return true;
    }
    rd_kafka_metadata_destroy(found);
    reader->down_since_ns = 0;
    return false;
}

enum kafka_client_status kafka_reader_read(struct kafka_reader *reader, int wait_ms, bool follow,
                                           struct kafka_reader_record *out, char *err,
                                           size_t err_bytes) {
    if (reader->message) {
        rd_kafka_message_destroy(reader->message);
        reader->message = NULL;
    }
    if (!follow && reader->open_count == 0) {
        return KAFKA_CLIENT_END;
    }
    rd_kafka_message_t *message = rd_kafka_consumer_poll(reader->handle, wait_ms);
    if (!message && kafka_reader_is_down(reader)) {
        snprintf(err, err_bytes, "no broker answers: %s", reader->last_error);
        return KAFKA_CLIENT_UNREACHABLE;
    }
    if (!message) {
        return KAFKA_CLIENT_NONE;
    }
    reader->down_since_ns = 0;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        bool beyond = !follow && kafka_reader_is_beyond(reader, message);
        kafka_reader_advance(reader, message->partition, message->offset + 1);
        if (beyond) {
            rd_kafka_message_destroy(message);
            return KAFKA_CLIENT_NONE;
        }
        kafka_reader_lend(reader, message, out);
        return KAFKA_CLIENT_OK;
    }
    int error = message->err;
    if (error == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        /* The last offsets before the end may be control records, which are never delivered. */
        kafka_reader_advance(reader, message->partition, message->offset);
        rd_kafka_message_destroy(message);
        return KAFKA_CLIENT_NONE;
    }
    snprintf(err, err_bytes, "%s", rd_kafka_message_errstr(message));
    rd_kafka_message_destroy(message);
    return kafka_client_status_of(error) == KAFKA_CLIENT_UNREACHABLE ? KAFKA_CLIENT_NONE
                                                                     : KAFKA_CLIENT_REFUSED;
}
