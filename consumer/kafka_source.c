#include "consumer/kafka_source.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/kafka_assignment.h"
#include "consumer/kafka_commit.h"
#include "consumer/kafka_consumer_settings.h"
#include "consumer/kafka_headers.h"
#include "consumer/kafka_lookup.h"
#include "consumer/kafka_source_state.h"
#include "consumer/kafka_topic.h"

#define ERROR_LOG_MS_MIN 5000

/* ---- errors ---- */

void kafka_source_fail(struct kafka_source *source, const char *why) {
    if (!source->has_failed) {
        source->has_failed = true;
        snprintf(source->failure, sizeof source->failure, "%s", why);
    }
}

static bool kafka_source_may_log_error(struct kafka_source *source) {
    int64_t now_ns = clock_monotonic_ns(source->clock);
    bool may = source->error_logged_ns == 0 ||
               now_ns - source->error_logged_ns >= ERROR_LOG_MS_MIN * CLOCK_NS_PER_MS;
    source->error_logged_ns = may ? now_ns : source->error_logged_ns;
    return may;
}

static bool kafka_source_is_unknown(rd_kafka_resp_err_t error) {
    return error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
           error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

static void kafka_source_on_error(rd_kafka_t *handle, int code, const char *reason, void *opaque) {
    struct kafka_source *source = opaque;
    rd_kafka_resp_err_t error = (rd_kafka_resp_err_t)code;
    char why[256];
    source->has_unknown |= kafka_source_is_unknown(error);
    if (error == RD_KAFKA_RESP_ERR__FATAL) {
        rd_kafka_fatal_error(handle, why, sizeof why);
        kafka_source_fail(source, why);
    } else if (kafka_source_may_log_error(source)) {
        log_write(
            source->log, LOG_LEVEL_WARN, "kafka.error",
            LOG_FIELDS(log_text("error", rd_kafka_err2str(error)), log_text("reason", reason)));
    }
}

/* On librdkafka's own threads. */
static void kafka_source_on_log(const rd_kafka_t *handle, int level, const char *facility,
                                const char *text) {
    (void)level;
    const struct kafka_source *source = rd_kafka_opaque(handle);
    log_write(source->log, LOG_LEVEL_DEBUG, "kafka.client",
              LOG_FIELDS(log_text("facility", facility), log_text("text", text)));
}

/* ---- names and numbers ---- */

int32_t kafka_source_number(const struct kafka_source *source, const char *topic,
                            int32_t partition) {
    int32_t index = topic_list_find(&source->topics, topic);
    return index < 0 ? -1 : topic_list_number(&source->topics, index, partition);
}

rd_kafka_topic_partition_t *kafka_source_list(const struct kafka_source *source,
                                              rd_kafka_topic_partition_list_t *list,
                                              int32_t number) {
    return rd_kafka_topic_partition_list_add(list, topic_list_name(&source->topics, number),
                                             topic_list_partition(&source->topics, number));
}

bool kafka_source_is_shared(const struct kafka_source *source) {
    return source->topics.count > 1;
}

const char *kafka_source_place(const struct kafka_source *source, const struct source_ref *ref,
                               int32_t *partition) {
    *partition = topic_list_partition(&source->topics, ref->partition);
    return topic_list_name(&source->topics, ref->partition);
}

/* ---- records ---- */

/* How many of the offsets in a range are known to be settled. */
static int64_t kafka_source_settled_in(struct kafka_source *source, int32_t number, int64_t begin,
                                       int64_t end) {
    int64_t sum = 0;
    size_t count = partition_table_settled(&source->partitions, number, source->ranges,
                                           OFFSET_METADATA_RANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        int64_t from = source->ranges[i].begin > begin ? source->ranges[i].begin : begin;
        int64_t to = source->ranges[i].end < end ? source->ranges[i].end : end;
        sum += to > from ? to - from : 0;
    }
    return sum;
}

/* Offsets were passed over. Those below the log's beginning, as the last fetch told it, were
 * deleted before anybody worked on them; others were control, aborted or compacted records. */
static void kafka_source_count_lost(struct kafka_source *source, int32_t number, int64_t next,
                                    int64_t offset) {
    int64_t low, high;
    const char *topic = topic_list_name(&source->topics, number);
    int32_t partition = topic_list_partition(&source->topics, number);
    if (rd_kafka_get_watermark_offsets(source->handle, topic, partition, &low, &high) !=
            RD_KAFKA_RESP_ERR_NO_ERROR ||
        low <= next) {
        return;
    }
    int64_t end = low < offset ? low : offset;
    int64_t lost = end - next - kafka_source_settled_in(source, number, next, end);
    if (lost > 0) {
        source->stats.lost_records_total += (uint64_t)lost;
        log_write(source->log, LOG_LEVEL_ERROR, "kafka.records_lost",
                  LOG_FIELDS(log_text("topic", topic), log_int("partition", partition),
                             log_int("records", lost), log_int("first_offset", next),
                             log_int("log_start", low),
                             log_text("cause", "the topic's retention deleted them unread")));
    }
}

/* The log has been made anew or cut: what comes now has another record's offset. What is in flight
 * belongs to the log that was. */
static void kafka_source_restart(struct kafka_source *source, int32_t number, int64_t next,
                                 int64_t offset) {
    source->stats.restarts_total++;
    source->has_revoked = true;
    source->is_dirty = true;
    partition_table_restart(&source->partitions, number, offset);
    log_write(source->log, LOG_LEVEL_ERROR, "kafka.log_restarted",
              LOG_FIELDS(log_text("topic", topic_list_name(&source->topics, number)),
                         log_int("partition", topic_list_partition(&source->topics, number)),
                         log_int("expected_offset", next), log_int("offset", offset),
                         log_text("cause", "the topic was made anew, or its log was cut")));
}

/* Compares what comes, a record or the partition's end, with what was to come. */
static void kafka_source_compare(struct kafka_source *source, int32_t number, int64_t offset) {
    int64_t next = partition_table_next(&source->partitions, number);
    if (next >= 0 && offset < next) {
        kafka_source_restart(source, number, next, offset);
    } else if (next >= 0 && offset > next) {
        kafka_source_count_lost(source, number, next, offset);
    }
}

/* Enters a message in the table; false when it is not to be worked on. */
static bool kafka_source_enter(struct kafka_source *source, const rd_kafka_message_t *message,
                               struct source_ref *ref) {
    int32_t number =
        kafka_source_number(source, rd_kafka_topic_name(message->rkt), message->partition);
    kafka_source_compare(source, number, message->offset);
    enum partition_entry entry =
        partition_table_enter(&source->partitions, number, message->offset, ref);
    source->is_dirty |= partition_table_is_due(&source->partitions, number);
    source->stats.known_total += entry == PARTITION_ENTRY_KNOWN;
    if (entry != PARTITION_ENTRY_NEW) {
        return false;
    }
    if (partition_table_is_held(&source->partitions, number)) {
        kafka_assignment_hold(source, number, true); /* drops what is fetched behind */
    }
    source->stats.received_total++;
    kafka_assignment_share(source);
    return true;
}

static void kafka_source_reach(struct kafka_source *source, const rd_kafka_message_t *message) {
    int32_t number =
        kafka_source_number(source, rd_kafka_topic_name(message->rkt), message->partition);
    kafka_source_compare(source, number, message->offset);
    partition_table_reach(&source->partitions, number, message->offset);
    source->is_dirty |= partition_table_is_due(&source->partitions, number);
}

static void kafka_source_fill(rd_kafka_message_t *message, const struct source_ref *ref,
                              struct record *record) {
    rd_kafka_timestamp_type_t type;
    int64_t timestamp = rd_kafka_message_timestamp(message, &type);
    *record = (struct record){.value = message->payload,
                              .value_bytes = message->len,
                              .key = message->key,
                              .key_bytes = message->key_len,
                              .timestamp_unix_ms =
                                  type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp,
                              .source = *ref,
                              .handle = message};
}

/* A topic of ours was deleted, and may be there again under its name: the library, which does not
 * know topics by their ids, would read the new one from where the old one was. Nothing settled in
 * the old one may be committed for the new one, so all is forgotten first; then the group says
 * where to begin. */
static void kafka_source_join_anew(struct kafka_source *source) {
    char why[128];
    if (!source->has_unknown || source->partitions.assigned_count == 0 || source->is_leaving) {
        return;
    }
    source->has_unknown = false;
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        partition_table_revoke(&source->partitions, i);
    }
    source->has_revoked = true;
    log_write(source->log, LOG_LEVEL_ERROR, "kafka.topic_gone",
              LOG_FIELDS(log_text("effect", "joining the group anew")));
    if (kafka_source_subscribe(source, why, sizeof why) != KAFKA_SOURCE_OK) {
        kafka_source_fail(source, why);
    }
}

/* True when it is a record to be worked on. */
static bool kafka_source_handle(struct kafka_source *source, const rd_kafka_message_t *message,
                                struct source_ref *ref) {
    if (source->is_leaving || source->has_failed) {
        return false;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        kafka_source_reach(source, message);
        return false;
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_source_on_error(source->handle, (int)message->err, rd_kafka_message_errstr(message),
                              source);
        return false;
    }
    return kafka_source_enter(source, message, ref);
}

bool kafka_source_receive(struct kafka_source *source, struct record *record) {
    rd_kafka_message_t *message;
    struct source_ref ref;
    kafka_source_join_anew(source);
    kafka_lookup_step(source);
    while ((message = rd_kafka_consumer_poll(source->handle, 0)) != NULL) {
        if (kafka_source_handle(source, message, &ref)) {
            kafka_source_fill(message, &ref, record);
            return true;
        }
        rd_kafka_message_destroy(message);
    }
    return false;
}

void kafka_source_release(struct record *record) {
    if (record->handle != NULL) {
        rd_kafka_message_destroy(record->handle);
        *record = (struct record){.source = record->source,
                                  .timestamp_unix_ms = record->timestamp_unix_ms};
    }
}

size_t kafka_source_headers(const struct record *record, struct record_header *headers,
                            size_t max) {
    return kafka_headers_read(record->handle, headers, max);
}

/* ---- settle, commit, leave ---- */

void kafka_source_pause(struct kafka_source *source, bool paused) {
    if (source->is_paused != paused) {
        kafka_assignment_pause(source, paused);
    }
}

void kafka_source_share(struct kafka_source *source, uint32_t slots) {
    source->share_slots = slots;
    kafka_assignment_share(source);
}

void kafka_source_settle(struct kafka_source *source, const struct source_ref *ref) {
    bool released;
    if (!partition_table_settle(&source->partitions, ref, &released)) {
        source->stats.stale_total++;
        return;
    }
    source->stats.settled_total++;
    source->settled_since_commit++;
    source->is_dirty = true;
    if (released) {
        kafka_assignment_hold(source, ref->partition, false);
    }
}

void kafka_source_commit(struct kafka_source *source, bool all) {
    kafka_commit_due(source, all);
}

bool kafka_source_is_committed(const struct kafka_source *source) {
    return source->commits_under_way == 0 && partition_table_is_committed(&source->partitions);
}

int64_t kafka_source_deadline_ns(const struct kafka_source *source) {
    int64_t commit_ns = kafka_commit_deadline_ns(source);
    return commit_ns < source->ask_again_ns ? commit_ns : source->ask_again_ns;
}

bool kafka_source_owns(const struct kafka_source *source, const struct source_ref *ref) {
    return partition_table_owns(&source->partitions, ref);
}

bool kafka_source_take_revoked(struct kafka_source *source) {
    bool revoked = source->has_revoked;
    source->has_revoked = false;
    return revoked;
}

void kafka_source_leave(struct kafka_source *source) {
    if (!source->is_leaving) {
        source->is_leaving = true;
        rd_kafka_unsubscribe(source->handle);
    }
}

bool kafka_source_has_left(const struct kafka_source *source) {
    return source->is_leaving && source->partitions.assigned_count == 0 &&
           source->commits_under_way == 0;
}

/* ---- the rest ---- */

int64_t kafka_source_session_ms(const struct config *config) {
    return kafka_consumer_settings_session_ms(config);
}

int kafka_source_fd(const struct kafka_source *source) {
    return source->events.fd;
}

void kafka_source_clear_fd(struct kafka_source *source) {
    kafka_queue_clear(&source->events);
}

bool kafka_source_is_assigned(const struct kafka_source *source) {
    return source->is_assigned;
}

bool kafka_source_has_failed(const struct kafka_source *source, char *err, size_t err_bytes) {
    if (source->has_failed) {
        snprintf(err, err_bytes, "%s", source->failure);
    }
    return source->has_failed;
}

void kafka_source_stats(const struct kafka_source *source, struct kafka_source_stats *out) {
    *out = source->stats;
    out->partition_count = source->partitions.assigned_count;
}

enum kafka_source_status kafka_source_open(const struct config *config, struct clock *clock,
                                           struct log *log, struct kafka_source **out, char *err,
                                           size_t err_bytes) {
    struct kafka_source *source = calloc(1, sizeof *source);
    assert(source != NULL);
    source->config = config;
    source->clock = clock;
    source->log = log;
    source->ask_again_ns = INT64_MAX;
    source->metadata_bytes_max = OFFSET_METADATA_BYTES_MAX;
    bool has_topics = config->topics != NULL && config->topics[0] != '\0';
    if (!topic_list_read(&source->topics, has_topics ? config->topics : config->jobs_topic, err,
                         err_bytes)) {
        free(source);
        return KAFKA_SOURCE_BAD_SETTING;
    }
    kafka_queue_open(&source->events);
    rd_kafka_conf_t *conf = kafka_consumer_settings_make(config, err, err_bytes);
    if (conf != NULL) {
        rd_kafka_conf_set_opaque(conf, source);
        rd_kafka_conf_set_rebalance_cb(conf, kafka_assignment_change);
        rd_kafka_conf_set_error_cb(conf, kafka_source_on_error);
        rd_kafka_conf_set_log_cb(conf, kafka_source_on_log);
    }
    source->handle = conf != NULL ? rd_kafka_new(RD_KAFKA_CONSUMER, conf, err, err_bytes) : NULL;
    if (source->handle == NULL) {
        if (conf != NULL) {
            rd_kafka_conf_destroy(conf);
        }
        kafka_source_close(source);
        return KAFKA_SOURCE_BAD_SETTING;
    }
    rd_kafka_poll_set_consumer(source->handle);
    source->queue = rd_kafka_queue_get_consumer(source->handle);
    source->answers = rd_kafka_queue_new(source->handle);
    kafka_queue_add(&source->events, source->queue);
    kafka_queue_add(&source->events, source->answers);
    source->last_commit_ns = clock_monotonic_ns(clock);
    *out = source;
    return KAFKA_SOURCE_OK;
}

static enum kafka_source_status kafka_source_find(struct kafka_source *source, const char *name,
                                                  int timeout_ms, char *err, size_t err_bytes) {
    switch (kafka_topic_find(source->handle, name, timeout_ms, err, err_bytes)) {
    case KAFKA_TOPIC_OK: return KAFKA_SOURCE_OK;
    case KAFKA_TOPIC_MISSING: return KAFKA_SOURCE_MISSING;
    case KAFKA_TOPIC_UNREACHABLE: return KAFKA_SOURCE_UNREACHABLE;
    case KAFKA_TOPIC_REFUSED: break;
    }
    return KAFKA_SOURCE_REFUSED;
}

enum kafka_source_status kafka_source_find_topics(struct kafka_source *source, int timeout_ms,
                                                  const char **name, char *err, size_t err_bytes) {
    enum kafka_source_status found = KAFKA_SOURCE_OK;
    for (int32_t i = 0; i < source->topics.count && found == KAFKA_SOURCE_OK; i++) {
        *name = source->topics.names[i];
        found = kafka_source_find(source, *name, timeout_ms, err, err_bytes);
    }
    return found;
}

enum kafka_source_status kafka_source_subscribe(struct kafka_source *source, char *err,
                                                size_t err_bytes) {
    rd_kafka_topic_partition_list_t *topics =
        rd_kafka_topic_partition_list_new(source->topics.count);
    for (int32_t i = 0; i < source->topics.count; i++) {
        rd_kafka_topic_partition_list_add(topics, source->topics.names[i], RD_KAFKA_PARTITION_UA);
    }
    rd_kafka_resp_err_t error = rd_kafka_subscribe(source->handle, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
        return KAFKA_SOURCE_REFUSED;
    }
    return KAFKA_SOURCE_OK;
}

/* A member that was fenced must not wait for a group that has another in its place. */
static void kafka_source_close_handle(struct kafka_source *source) {
    if (!source->has_failed) {
        rd_kafka_consumer_close(source->handle);
    }
    kafka_queue_empty(&source->events); /* the last commits have needed it */
    rd_kafka_destroy_flags(source->handle,
                           source->has_failed ? RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE : 0);
}

void kafka_source_close(struct kafka_source *source) {
    if (source == NULL) {
        return;
    }
    if (source->handle != NULL) {
        kafka_source_close_handle(source);
    }
    partition_table_deinit(&source->partitions);
    free(source->shares);
    kafka_queue_close(&source->events);
    free(source);
}
