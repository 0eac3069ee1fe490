#include "consumer/kafka_source.h"

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
#include "consumer/partition_table.h"
#include "engine/clock.h"
#include "engine/log.h"

#define ERROR_LOG_MS_MIN 5000
#define COOPERATIVE_VERSION_MIN 0x020a0000 /* before, a commit could drop the whole assignment */

struct kafka_source {
    const struct config *config;
    struct clock *clock;
    struct log *log;
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    int fd;
    struct partition_table partitions;
    bool is_paused, is_assigned;
    bool is_leaving;
    bool has_revoked;           /* not taken yet */
    uint32_t commits_under_way; /* one; another only when partitions go */
    int64_t last_commit_ns;
    uint64_t settled_since_commit;
    bool has_failed;
    char failure[256];
    int64_t error_logged_ns; /* an outage brings the same few errors over and over */
    struct kafka_source_stats stats;
};

/* ---- partitions ---- */

static rd_kafka_topic_partition_list_t *kafka_source_list(const struct kafka_source *source,
                                                          int32_t number) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, source->config->jobs_topic, number);
    return list;
}

/* Pauses or resumes one list at librdkafka. A partition that is already gone is no matter. */
static void kafka_source_switch(struct kafka_source *source, rd_kafka_topic_partition_list_t *list,
                                bool paused) {
    rd_kafka_resp_err_t error = paused ? rd_kafka_pause_partitions(source->handle, list)
                                       : rd_kafka_resume_partitions(source->handle, list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        log_write(source->log, LOG_LEVEL_WARN, "kafka.pause",
                  LOG_FIELDS(log_text("error", rd_kafka_err2str(error))));
    }
}

/* librdkafka cannot be asked what is paused, and a pause survives a reassignment: say it each
 * time. */
static void kafka_source_hold(struct kafka_source *source, int32_t number, bool held) {
    rd_kafka_topic_partition_list_t *list = kafka_source_list(source, number);
    kafka_source_switch(source, list, held || source->is_paused);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_source_pause(struct kafka_source *source, bool paused) {
    if (source->is_paused == paused) {
        return;
    }
    source->is_paused = paused;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        if (partition_table_is_assigned(&source->partitions, i) &&
            !partition_table_is_held(&source->partitions, i)) {
            rd_kafka_topic_partition_list_add(list, source->config->jobs_topic, i);
        }
    }
    kafka_source_switch(source, list, paused);
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- commit ---- */

/* The marks that are not committed, of all partitions or of those in `among`. */
static rd_kafka_topic_partition_list_t *
kafka_source_marks(const struct kafka_source *source,
                   const rd_kafka_topic_partition_list_t *among) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    const char *topic = source->config->jobs_topic;
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        bool asked = among == NULL || rd_kafka_topic_partition_list_find(among, topic, i) != NULL;
        int64_t due = partition_table_due(&source->partitions, i);
        if (asked && due >= 0) {
            rd_kafka_topic_partition_list_add(list, topic, i)->offset = due;
        }
    }
    return list;
}

static void kafka_source_send_commit(struct kafka_source *source,
                                     const rd_kafka_topic_partition_list_t *marks) {
    rd_kafka_resp_err_t error = rd_kafka_commit(source->handle, marks, 1);
    source->last_commit_ns = clock_monotonic_ns(source->clock);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        source->commits_under_way++;
        source->settled_since_commit = 0;
    }
}

static void kafka_source_on_commit(rd_kafka_t *handle, rd_kafka_resp_err_t error,
                                   rd_kafka_topic_partition_list_t *marks, void *opaque) {
    (void)handle;
    struct kafka_source *source = opaque;
    bool failed = error != RD_KAFKA_RESP_ERR_NO_ERROR;
    source->commits_under_way--;
    source->stats.commits_total++;
    for (int i = 0; marks != NULL && i < marks->cnt; i++) {
        const rd_kafka_topic_partition_t *mark = &marks->elems[i];
        rd_kafka_resp_err_t refused = failed ? error : mark->err;
        if (refused == RD_KAFKA_RESP_ERR_NO_ERROR) {
            partition_table_committed(&source->partitions, mark->partition, mark->offset);
        }
        failed |= refused != RD_KAFKA_RESP_ERR_NO_ERROR;
        error = error == RD_KAFKA_RESP_ERR_NO_ERROR ? mark->err : error;
    }
    if (failed && error != RD_KAFKA_RESP_ERR__NO_OFFSET) {
        source->stats.commits_failed_total++;
        log_write(source->log, LOG_LEVEL_WARN, "kafka.commit_failed",
                  LOG_FIELDS(log_text("error", rd_kafka_err2str(error)),
                             log_text("effect", "settled records may be delivered again")));
    }
}

bool kafka_source_is_committed(const struct kafka_source *source) {
    return source->commits_under_way == 0 && partition_table_is_committed(&source->partitions);
}

static int64_t kafka_source_commit_due_ns(const struct kafka_source *source) {
    bool many = source->settled_since_commit >= (uint64_t)source->config->commit_records;
    int64_t interval_ms = source->config->commit_interval_ms;
    return many ? 0 : source->last_commit_ns + interval_ms * CLOCK_NS_PER_MS;
}

int64_t kafka_source_deadline_ns(const struct kafka_source *source) {
    bool nothing = source->commits_under_way > 0 || source->settled_since_commit == 0;
    return nothing ? INT64_MAX : kafka_source_commit_due_ns(source);
}

void kafka_source_commit(struct kafka_source *source, bool all) {
    if (source->commits_under_way > 0 ||
        (!all && clock_monotonic_ns(source->clock) < kafka_source_deadline_ns(source))) {
        return;
    }
    rd_kafka_topic_partition_list_t *marks = kafka_source_marks(source, NULL);
    if (marks->cnt > 0) {
        kafka_source_send_commit(source, marks);
    } else {
        source->settled_since_commit = 0;
        source->last_commit_ns = clock_monotonic_ns(source->clock);
    }
    rd_kafka_topic_partition_list_destroy(marks);
}

void kafka_source_settle(struct kafka_source *source, const struct source_ref *ref) {
    bool released;
    if (!partition_table_settle(&source->partitions, ref, &released)) {
        source->stats.stale_total++;
        return;
    }
    source->stats.settled_total++;
    source->settled_since_commit++;
    if (released) {
        kafka_source_hold(source, ref->partition, false);
    }
}

/* ---- assignments ---- */

static void kafka_source_fail(struct kafka_source *source, const char *why) {
    if (!source->has_failed) {
        source->has_failed = true;
        snprintf(source->failure, sizeof source->failure, "%s", why);
    }
}

static void kafka_source_check(struct kafka_source *source, rd_kafka_error_t *error) {
    if (error != NULL) {
        kafka_source_fail(source, rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
}

static bool kafka_source_is_cooperative(const struct kafka_source *source) {
    return strcmp(rd_kafka_rebalance_protocol(source->handle), "COOPERATIVE") == 0;
}

static void kafka_source_on_assign(struct kafka_source *source,
                                   rd_kafka_topic_partition_list_t *list) {
    source->stats.assignments_total++;
    partition_table_begin(&source->partitions);
    for (int i = 0; i < list->cnt; i++) {
        partition_table_assign(&source->partitions, list->elems[i].partition);
    }
    if (kafka_source_is_cooperative(source)) {
        kafka_source_check(source, rd_kafka_incremental_assign(source->handle, list));
    } else if (rd_kafka_assign(source->handle, list) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_source_fail(source, rd_kafka_err2str(rd_kafka_last_error()));
    }
    kafka_source_switch(source, list, source->is_paused);
    source->is_assigned = true;
}

static void kafka_source_on_revoke(struct kafka_source *source,
                                   rd_kafka_topic_partition_list_t *list) {
    rd_kafka_topic_partition_list_t *marks = kafka_source_marks(source, list);
    if (rd_kafka_assignment_lost(source->handle)) {
        source->stats.lost_total++; /* can be wrong: the commit's result tells */
    }
    if (marks->cnt > 0) {
        kafka_source_send_commit(source, marks);
    }
    rd_kafka_topic_partition_list_destroy(marks);
    for (int i = 0; i < list->cnt; i++) {
        partition_table_revoke(&source->partitions, list->elems[i].partition);
    }
    source->has_revoked |= list->cnt > 0;
    if (kafka_source_is_cooperative(source)) {
        kafka_source_check(source, rd_kafka_incremental_unassign(source->handle, list));
    } else {
        rd_kafka_assign(source->handle, NULL);
    }
}

static void kafka_source_on_rebalance(rd_kafka_t *handle, rd_kafka_resp_err_t what,
                                      rd_kafka_topic_partition_list_t *list, void *opaque) {
    (void)handle;
    struct kafka_source *source = opaque;
    bool assign = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    log_write(source->log, LOG_LEVEL_INFO, assign ? "kafka.assigned" : "kafka.revoked",
              LOG_FIELDS(log_int("partitions", list->cnt)));
    if (assign) {
        kafka_source_on_assign(source, list);
    } else {
        kafka_source_on_revoke(source, list);
    }
}

/* ---- records ---- */

static bool kafka_source_may_log_error(struct kafka_source *source) {
    int64_t now_ns = clock_monotonic_ns(source->clock);
    bool may = source->error_logged_ns == 0 ||
               now_ns - source->error_logged_ns >= ERROR_LOG_MS_MIN * CLOCK_NS_PER_MS;
    source->error_logged_ns = may ? now_ns : source->error_logged_ns;
    return may;
}

static void kafka_source_on_error(rd_kafka_t *handle, int code, const char *reason, void *opaque) {
    struct kafka_source *source = opaque;
    rd_kafka_resp_err_t error = (rd_kafka_resp_err_t)code;
    char why[256];
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

/* Enters a message in the table; false when it is not to be worked on. */
static bool kafka_source_enter(struct kafka_source *source, const rd_kafka_message_t *message,
                               struct source_ref *ref) {
    if (source->is_leaving || source->has_failed ||
        !partition_table_enter(&source->partitions, message->partition, message->offset, ref)) {
        return false;
    }
    if (partition_table_is_held(&source->partitions, message->partition)) {
        kafka_source_hold(source, message->partition, true); /* drops what was fetched behind it */
    }
    source->stats.received_total++;
    return true;
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

bool kafka_source_receive(struct kafka_source *source, struct record *record) {
    rd_kafka_message_t *message;
    struct source_ref ref;
    while ((message = rd_kafka_consumer_poll(source->handle, 0)) != NULL) {
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            kafka_source_on_error(source->handle, (int)message->err,
                                  rd_kafka_message_errstr(message), source);
        } else if (kafka_source_enter(source, message, &ref)) {
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
    rd_kafka_headers_t *list = NULL;
    size_t count = 0;
    if (rd_kafka_message_headers(record->handle, &list) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return 0;
    }
    while (count < max &&
           rd_kafka_header_get_all(list, count, &headers[count].name, &headers[count].value,
                                   &headers[count].value_bytes) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        count++;
    }
    return count;
}

/* ---- the rest ---- */

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

int kafka_source_fd(const struct kafka_source *source) {
    return source->fd;
}

void kafka_source_clear_fd(struct kafka_source *source) {
    uint64_t count;
    ssize_t size = read(source->fd, &count, sizeof count);
    (void)size; /* nothing to read is as good */
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

static bool kafka_source_refuses_assignor(const struct config *config, char *err,
                                          size_t err_bytes) {
    for (size_t i = 0; i < config->kafka_count; i++) {
        if (strcmp(config->kafka[i].name, "partition.assignment.strategy") == 0 &&
            strstr(config->kafka[i].value, "cooperative") != NULL &&
            rd_kafka_version() < COOPERATIVE_VERSION_MIN) {
            snprintf(err, err_bytes,
                     "kafka.partition.assignment.strategy: cooperative-sticky needs librdkafka "
                     "2.10, this is %s; use range or roundrobin",
                     rd_kafka_version_str());
            return true;
        }
    }
    return false;
}

/* A third of the session time-out at most: with a short session alone, librdkafka's own three
 * seconds would lose the session between two heartbeats, without a word. */
static void kafka_source_heartbeat(const struct config *config, char *out, size_t out_bytes) {
    long interval_ms = 3000;
    for (size_t i = 0; i < config->kafka_count; i++) {
        if (strcmp(config->kafka[i].name, "session.timeout.ms") == 0) {
            long third_ms = strtol(config->kafka[i].value, NULL, 10) / 3;
            interval_ms = third_ms > 0 && third_ms < interval_ms ? third_ms : interval_ms;
        }
    }
    snprintf(out, out_bytes, "%ld", interval_ms);
}

static rd_kafka_conf_t *kafka_source_conf(struct kafka_source *source, char *err,
                                          size_t err_bytes) {
    const struct config *config = source->config;
    const struct config_pass fixed[] = {
        {"group.id", config->group},           {"auto.offset.reset", "earliest"},
        {"enable.auto.commit", "false"},       {"enable.auto.offset.store", "false"},
        {"allow.auto.create.topics", "false"}, {"topic.metadata.refresh.interval.ms", "10000"}};
    /* Eager assignment: members of both kinds cannot share a group, so the one that every
     * librdkafka does well. Small fetches: the bound on prefetched bytes is loose and grows with
     * partitions. */
    char heartbeat[24];
    kafka_source_heartbeat(config, heartbeat, sizeof heartbeat);
    const struct config_pass soft[] = {{"partition.assignment.strategy", "range"},
                                       {"fetch.message.max.bytes", "262144"},
                                       {"queued.max.messages.kbytes", "16384"},
                                       {"fetch.wait.max.ms", "100"},
                                       {"heartbeat.interval.ms", heartbeat}};
    if (kafka_source_refuses_assignor(config, err, err_bytes)) {
        return NULL;
    }
    rd_kafka_conf_t *conf =
        kafka_settings_make(config, fixed, sizeof fixed / sizeof fixed[0], err, err_bytes);
    for (size_t i = 0; conf != NULL && i < sizeof soft / sizeof soft[0]; i++) {
        if (!kafka_settings_default(conf, config, soft[i].name, soft[i].value, err, err_bytes)) {
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
    }
    if (conf != NULL) {
        rd_kafka_conf_set_opaque(conf, source);
        rd_kafka_conf_set_rebalance_cb(conf, kafka_source_on_rebalance);
        rd_kafka_conf_set_offset_commit_cb(conf, kafka_source_on_commit);
        rd_kafka_conf_set_error_cb(conf, kafka_source_on_error);
        rd_kafka_conf_set_log_cb(conf, kafka_source_on_log);
    }
    return conf;
}

enum kafka_source_status kafka_source_open(const struct config *config, struct clock *clock,
                                           struct log *log, struct kafka_source **out, char *err,
                                           size_t err_bytes) {
    struct kafka_source *source = calloc(1, sizeof *source);
    assert(source != NULL);
    source->config = config;
    source->clock = clock;
    source->log = log;
    source->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(source->fd >= 0);
    rd_kafka_conf_t *conf = kafka_source_conf(source, err, err_bytes);
    source->handle = conf != NULL ? rd_kafka_new(RD_KAFKA_CONSUMER, conf, err, err_bytes) : NULL;
    if (source->handle == NULL) {
        if (conf != NULL) {
            rd_kafka_conf_destroy(conf);
        }
        kafka_source_close(source);
        return KAFKA_SOURCE_BAD_SETTING;
    }
    static const uint64_t one = 1;
    rd_kafka_poll_set_consumer(source->handle);
    source->queue = rd_kafka_queue_get_consumer(source->handle);
    rd_kafka_queue_io_event_enable(source->queue, source->fd, &one, sizeof one);
    source->last_commit_ns = clock_monotonic_ns(clock);
    *out = source;
    return KAFKA_SOURCE_OK;
}

enum kafka_source_status kafka_source_find_topic(struct kafka_source *source, int timeout_ms,
                                                 char *err, size_t err_bytes) {
    switch (
        kafka_topic_find(source->handle, source->config->jobs_topic, timeout_ms, err, err_bytes)) {
    case KAFKA_TOPIC_OK: return KAFKA_SOURCE_OK;
    case KAFKA_TOPIC_MISSING: return KAFKA_SOURCE_MISSING;
    case KAFKA_TOPIC_UNREACHABLE: return KAFKA_SOURCE_UNREACHABLE;
    case KAFKA_TOPIC_REFUSED: break;
    }
    return KAFKA_SOURCE_REFUSED;
}

enum kafka_source_status kafka_source_subscribe(struct kafka_source *source, char *err,
                                                size_t err_bytes) {
    rd_kafka_topic_partition_list_t *topics = kafka_source_list(source, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t error = rd_kafka_subscribe(source->handle, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(err, err_bytes, "%s", rd_kafka_err2str(error));
        return KAFKA_SOURCE_REFUSED;
    }
    return KAFKA_SOURCE_OK;
}

void kafka_source_close(struct kafka_source *source) {
    if (source == NULL) {
        return;
    }
    if (source->handle != NULL) {
        rd_kafka_queue_io_event_enable(source->queue, -1, NULL, 0);
        rd_kafka_queue_destroy(source->queue);
        rd_kafka_consumer_close(source->handle);
        rd_kafka_destroy(source->handle);
    }
    partition_table_deinit(&source->partitions);
    close(source->fd);
    free(source);
}
