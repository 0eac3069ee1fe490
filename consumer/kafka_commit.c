#include "consumer/kafka_commit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/kafka_source_state.h"

#define RETRY_MS_MIN 250      /* after a commit that failed */
#define REBALANCE_MS_MAX 2000 /* without commits while the group rebalances */
#define WARN_MS_MIN 5000

/* ---- what is due ---- */

/* What is settled beyond the mark goes beside it. */
static void kafka_commit_describe(struct kafka_source *source, rd_kafka_topic_partition_t *mark) {
    int32_t number = kafka_source_number(source, mark->topic, mark->partition);
    char text[OFFSET_METADATA_BYTES_MAX + 1];
    size_t count = partition_table_settled(&source->partitions, number, source->ranges,
                                           OFFSET_METADATA_RANGES_MAX);
    size_t size = offset_metadata_encode(mark->offset, source->ranges, count, text,
                                         source->metadata_bytes_max);
    if (size > 0) {
        mark->metadata = malloc(size); /* the list frees it */
        assert(mark->metadata != NULL);
        memcpy(mark->metadata, text, size);
        mark->metadata_size = size;
    }
}

/* The marks that the group does not know, of all partitions or of those in `among`. */
static rd_kafka_topic_partition_list_t *
kafka_commit_marks(struct kafka_source *source, const rd_kafka_topic_partition_list_t *among) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < source->partitions.capacity; i++) {
        bool asked = among == NULL ||
                     rd_kafka_topic_partition_list_find(among, topic_list_name(&source->topics, i),
                                                        topic_list_partition(&source->topics, i));
        if (asked && partition_table_is_due(&source->partitions, i)) {
            rd_kafka_topic_partition_t *mark = kafka_source_list(source, list, i);
            mark->offset = partition_table_mark(&source->partitions, i);
            kafka_commit_describe(source, mark);
        }
    }
    return list;
}

/* ---- the answer ---- */

/* The group says that we are not, or no longer, a member who may commit this. The client library
 * joins anew after it, and gives the partitions to us once more, or not. With cooperative members a
 * generation passes while partitions stay: there its own error is no loss. */
static bool kafka_commit_says_gone(const struct kafka_source *source, rd_kafka_resp_err_t error) {
    switch (error) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID: return true;
    case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
        return strcmp(rd_kafka_rebalance_protocol(source->handle), "EAGER") == 0;
    default: return false;
    }
}

static void kafka_commit_refused(struct kafka_source *source,
                                 const rd_kafka_topic_partition_t *mark, rd_kafka_resp_err_t error,
                                 uint64_t epoch) {
    int32_t number = kafka_source_number(source, mark->topic, mark->partition);
    if (error == RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE &&
        mark->metadata_size <= source->metadata_bytes_max) {
        source->metadata_bytes_max = mark->metadata_size / 2; /* the broker takes less than usual */
    } else if (kafka_commit_says_gone(source, error) &&
               partition_table_is_of(&source->partitions, number, epoch)) {
        partition_table_revoke(&source->partitions, number);
        source->has_revoked = true;
    }
}

/* A rebalance refuses every commit but the last one before the partitions go, and that one will
 * come; a commit that meets its end can cost the whole assignment. Nothing is sent until then. */
static void kafka_commit_failed(struct kafka_source *source, rd_kafka_resp_err_t error) {
    bool rebalances = error == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    int64_t now_ns = clock_monotonic_ns(source->clock);
    source->stats.commits_failed_total++;
    source->is_dirty = true;
    source->commit_again_ns =
        now_ns + (rebalances ? REBALANCE_MS_MAX : RETRY_MS_MIN) * CLOCK_NS_PER_MS;
    if (!rebalances && (source->commit_warned_ns == 0 ||
                        now_ns - source->commit_warned_ns >= WARN_MS_MIN * CLOCK_NS_PER_MS)) {
        source->commit_warned_ns = now_ns;
        log_write(source->log, LOG_LEVEL_WARN, "kafka.commit_failed",
                  LOG_FIELDS(log_text("error", rd_kafka_err2str(error)),
                             log_text("effect", "settled records may be delivered again")));
    }
}

/* `opaque` is the epoch of the table when it was sent: a partition that has come anew since then
 * has nothing to do with it. */
static void kafka_commit_answered(rd_kafka_t *handle, rd_kafka_resp_err_t error,
                                  rd_kafka_topic_partition_list_t *marks, void *opaque) {
    struct kafka_source *source = rd_kafka_opaque(handle);
    uint64_t epoch = (uintptr_t)opaque;
    rd_kafka_resp_err_t first = error;
    source->commits_under_way--;
    source->stats.commits_total++;
    for (int i = 0; marks != NULL && i < marks->cnt; i++) {
        const rd_kafka_topic_partition_t *mark = &marks->elems[i];
        rd_kafka_resp_err_t refused = error != RD_KAFKA_RESP_ERR_NO_ERROR ? error : mark->err;
        if (refused == RD_KAFKA_RESP_ERR_NO_ERROR) {
            partition_table_committed(&source->partitions,
                                      kafka_source_number(source, mark->topic, mark->partition),
                                      epoch);
        } else {
            kafka_commit_refused(source, mark, refused, epoch);
        }
        first = first == RD_KAFKA_RESP_ERR_NO_ERROR ? refused : first;
    }
    if (first != RD_KAFKA_RESP_ERR_NO_ERROR && first != RD_KAFKA_RESP_ERR__NO_OFFSET) {
        kafka_commit_failed(source, first);
    }
}

/* ---- sending ---- */

static void kafka_commit_send(struct kafka_source *source,
                              const rd_kafka_topic_partition_list_t *marks) {
    void *epoch = (void *)(uintptr_t)source->partitions.epoch;
    source->last_commit_ns = clock_monotonic_ns(source->clock);
    if (marks->cnt == 0) {
        return;
    }
    if (rd_kafka_commit_queue(source->handle, marks, source->queue, kafka_commit_answered, epoch) !=
        RD_KAFKA_RESP_ERR_NO_ERROR) {
        source->is_dirty = true;
        return;
    }
    source->commits_under_way++;
    for (int i = 0; i < marks->cnt; i++) {
        partition_table_sent(&source->partitions, kafka_source_number(source, marks->elems[i].topic,
                                                                      marks->elems[i].partition));
    }
}

void kafka_commit_last(struct kafka_source *source, const rd_kafka_topic_partition_list_t *going) {
    rd_kafka_topic_partition_list_t *marks = kafka_commit_marks(source, going);
    kafka_commit_send(source, marks);
    source->commit_again_ns = source->last_commit_ns + REBALANCE_MS_MAX * CLOCK_NS_PER_MS;
    rd_kafka_topic_partition_list_destroy(marks);
}

static int64_t kafka_commit_due_ns(const struct kafka_source *source) {
    bool many = source->settled_since_commit >= (uint64_t)source->config->commit_records;
    int64_t interval_ns = source->config->commit_interval_ms * CLOCK_NS_PER_MS;
    int64_t due_ns = many ? 0 : source->last_commit_ns + interval_ns;
    return due_ns > source->commit_again_ns ? due_ns : source->commit_again_ns;
}

int64_t kafka_commit_deadline_ns(const struct kafka_source *source) {
    bool nothing = source->commits_under_way > 0 || !source->is_dirty;
    return nothing ? INT64_MAX : kafka_commit_due_ns(source);
}

void kafka_commit_due(struct kafka_source *source, bool all) {
    int64_t due_ns = all ? source->commit_again_ns : kafka_commit_due_ns(source);
    if (source->commits_under_way > 0 || !source->is_dirty ||
        clock_monotonic_ns(source->clock) < due_ns) {
        return;
    }
    source->is_dirty = false;
    source->settled_since_commit = 0;
    rd_kafka_topic_partition_list_t *marks = kafka_commit_marks(source, NULL);
    kafka_commit_send(source, marks);
    rd_kafka_topic_partition_list_destroy(marks);
}
