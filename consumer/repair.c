#include "consumer/repair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_reader.h"
#include "consumer/status_store.h"
#include "engine/clock.h"
#include "engine/log.h"
#include "schemas/result.h"

#define REPAIR_TOPICS_MAX 64
#define REPAIR_HEADERS_MAX 64 /* the fingerprint is among the first */
#define REPAIR_WAIT_MS 10     /* for records that are on their way */
#define REPAIR_LEASE_MS 1000  /* unused: a repair claims nothing */

struct repair {
    struct repair_options options;
    struct status_store *store;
    struct kafka_reader *readers[REPAIR_TOPICS_MAX]; /* the results topic's, then the others' */
    char topics[REPAIR_TOPICS_MAX][JOB_TOPIC_BYTES_MAX + 1];
    size_t reader_count, current;
    bool has_more; /* the last slice ended before the records did */
    uint64_t sent, answered;
    struct repair_stats stats;
};

/* ---- open ---- */

static bool repair_open_store(struct repair *repair, char *err, size_t err_bytes) {
    const struct config *config = repair->options.config;
    struct status_store_options options = {
        .address = config->redis,
        .prefix = config->key_prefix,
        .worker = repair->options.worker,
        .incarnation = "repair",
        .lease_ms = REPAIR_LEASE_MS,
        .ttl_s = config->status_ttl_s,
        .claim_timeout_ms = REPAIR_LEASE_MS,
        .link_timeout_ms = config->redis_timeout_ms,
        .backlog_max = REPAIR_UNANSWERED_MAX + REPAIR_STEP_RECORDS_MAX,
        .result_bytes_max = (size_t)config->result_max_bytes_in_status,
        .clock = repair->options.clock,
        .log = repair->options.log};
    return status_store_open(&options, &repair->store, err, err_bytes);
}

static enum kafka_client_status repair_open_topic(struct repair *repair, const char *name,
                                                  size_t name_bytes, char *err, size_t err_bytes) {
    char *topic = repair->topics[repair->reader_count];
    struct kafka_reader **reader = &repair->readers[repair->reader_count];
    snprintf(topic, sizeof repair->topics[0], "%.*s", (int)name_bytes, name);
    for (size_t i = 0; i < repair->reader_count; i++) {
        if (strcmp(repair->topics[i], topic) == 0) {
            return KAFKA_CLIENT_OK;
        }
    }
    enum kafka_client_status status = kafka_reader_open(
        repair->options.config, topic, KAFKA_READER_SINCE, repair->options.since_unix_ms,
        repair->options.timeout_ms, reader, err, err_bytes);
    if (status == KAFKA_CLIENT_OK) {
        repair->reader_count++;
        if (repair->options.is_patient) {
            kafka_reader_be_patient(*reader);
        }
    }
    return status;
}

/* The results topic, and each reply topic; one of those that does not exist has no results. */
static enum kafka_client_status repair_open_topics(struct repair *repair, char *err,
                                                   size_t err_bytes) {
    const struct config *config = repair->options.config;
    enum kafka_client_status status = repair_open_topic(
        repair, config->results_topic, strlen(config->results_topic), err, err_bytes);
    for (const char *at = config->reply_topics;
         status == KAFKA_CLIENT_OK && *at != '\0' && repair->reader_count < REPAIR_TOPICS_MAX;) {
        size_t bytes = strcspn(at, ",");
        enum kafka_client_status opened =
            bytes > 0 ? repair_open_topic(repair, at, bytes, err, err_bytes) : KAFKA_CLIENT_OK;
        if (opened == KAFKA_CLIENT_REFUSED) {
            log_write(repair->options.log, LOG_LEVEL_WARN, "repair.topic_left_out",
                      LOG_FIELDS(log_text("error", err)));
        } else {
            status = opened;
        }
        at += bytes + (at[bytes] == ',');
    }
    return status;
}

enum kafka_client_status repair_open(const struct repair_options *options, struct repair **out,
                                     char *err, size_t err_bytes) {
    *out = NULL;
    struct repair *repair = calloc(1, sizeof *repair);
    if (repair == NULL) {
        snprintf(err, err_bytes, "out of memory");
        return KAFKA_CLIENT_REFUSED;
    }
    repair->options = *options;
    enum kafka_client_status status = KAFKA_CLIENT_BAD_SETTING;
    if (repair_open_store(repair, err, err_bytes)) {
        status = repair_open_topics(repair, err, err_bytes);
    }
    if (status != KAFKA_CLIENT_OK) {
        repair_close(repair);
        return status;
    }
    *out = repair;
    return KAFKA_CLIENT_OK;
}

void repair_close(struct repair *repair) {
    if (repair == NULL) {
        return;
    }
    for (size_t i = 0; i < repair->reader_count; i++) {
        kafka_reader_close(repair->readers[i]);
    }
    status_store_close(repair->store);
    free(repair);
}

/* ---- a record ---- */

static enum status_state repair_state_of(enum result_status status) {
    switch (status) {
    case RESULT_DONE: return STATUS_DONE;
    case RESULT_EXPIRED: return STATUS_EXPIRED;
    case RESULT_CANCELLED: return STATUS_CANCELLED;
    case RESULT_FAILED: break;
    }
    return STATUS_FAILED;
}

/* That of the job's record, which its result carries; "" where it does not: then any job of this id
 * counts as answered. */
static void repair_read_fingerprint(const struct kafka_reader *reader,
                                    char fingerprint[SHA256_HEX_BYTES]) {
    struct record_header headers[REPAIR_HEADERS_MAX];
    size_t count = kafka_reader_headers(reader, headers, REPAIR_HEADERS_MAX);
    fingerprint[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (strcmp(headers[i].name, "fingerprint") == 0 &&
            headers[i].value_bytes == SHA256_HEX_BYTES - 1) {
            memcpy(fingerprint, headers[i].value, SHA256_HEX_BYTES - 1);
            fingerprint[SHA256_HEX_BYTES - 1] = '\0';
        }
    }
}

static void repair_apply(struct repair *repair, const struct kafka_reader_record *record,
                         const struct result *result) {
    char fingerprint[SHA256_HEX_BYTES];
    bool has_error = result->error.code != ERROR_NONE;
    bool has_text = result->text != NULL;
    repair_read_fingerprint(repair->readers[repair->current], fingerprint);
    struct status_store_finish finish = {
        .request_id = result->request_id,
        .fingerprint = fingerprint,
        .state = repair_state_of(result->status),
        .attempt = result->attempt,
        .started_unix_ms = -1,
        .finished_unix_ms = record->timestamp_unix_ms >= 0 ? record->timestamp_unix_ms
                                                           : clock_unix_ms(repair->options.clock),
        .prompt_tokens = has_text ? (int64_t)result->usage.prompt_tokens : -1,
        .completion_tokens = has_text ? (int64_t)result->usage.completion_tokens : -1,
        .error_code = has_error ? error_code_name(result->error.code) : NULL,
        .error_message = has_error ? result->error.message : NULL,
        .result = record->value,
        .result_bytes = record->value_bytes,
        .result_topic = repair->topics[repair->current],
        .result_partition = record->partition,
        .result_offset = record->offset};
    status_store_repair(repair->store, 0, &finish);
    repair->sent++;
}

static void repair_take(struct repair *repair, const struct kafka_reader_record *record) {
    struct result result;
    struct job_error error;
    repair->stats.read++;
    if (record->value == NULL ||
        result_decode(record->value, record->value_bytes, &result, &error) != ERROR_NONE) {
        repair->stats.unreadable++;
        return;
    }
    repair_apply(repair, record, &result);
    result_deinit(&result);
}

/* ---- a step ---- */

static void repair_take_answers(struct repair *repair) {
    struct status_store_answer answer;
    while (status_store_take(repair->store, &answer)) {
        repair->answered++;
        if (!answer.reached) {
            repair->stats.unanswered++;
        } else if (answer.applied) {
            repair->stats.applied++;
        } else {
            repair->stats.there++;
        }
    }
}

static bool repair_may_read(const struct repair *repair, const struct status_store_stats *store) {
    return store->is_up && store->backlog_count == 0 &&
           repair->sent - repair->answered < REPAIR_UNANSWERED_MAX &&
           repair->current < repair->reader_count;
}

/* Reads a slice of the topic at hand. */
static enum kafka_client_status repair_read(struct repair *repair, char *err, size_t err_bytes) {
    int64_t end_ns =
        clock_monotonic_ns(repair->options.clock) + REPAIR_STEP_MS_MAX * CLOCK_NS_PER_MS;
    struct kafka_reader_record record;
    for (int count = 0; count < REPAIR_STEP_RECORDS_MAX; count++) {
        enum kafka_client_status status =
            kafka_reader_read(repair->readers[repair->current], 0, false, &record, err, err_bytes);
        if (status == KAFKA_CLIENT_END) {
            repair->current++;
            repair->has_more = true; /* perhaps another topic's */
            return KAFKA_CLIENT_NONE;
        }
        if (status != KAFKA_CLIENT_OK) {
            return status;
        }
        repair_take(repair, &record);
        if (clock_monotonic_ns(repair->options.clock) >= end_ns) {
            break;
        }
    }
    repair->has_more = true;
    return KAFKA_CLIENT_NONE;
}

enum kafka_client_status repair_step(struct repair *repair, char *err, size_t err_bytes) {
    struct status_store_stats store;
    struct pollfd watched = status_store_pollfd(repair->store);
    enum kafka_client_status status = KAFKA_CLIENT_NONE;
    poll(&watched, 1, 0);
    status_store_handle(repair->store, watched.revents);
    repair_take_answers(repair);
    status_store_stats(repair->store, &store);
    repair->stats.redis_is_up = store.is_up;
    repair->has_more = false;
    if (repair_may_read(repair, &store)) {
        status = repair_read(repair, err, err_bytes);
    }
    status_store_flush(repair->store);
    repair_take_answers(repair);
    bool is_done = repair->current == repair->reader_count && repair->sent == repair->answered &&
                   store.backlog_count == 0 && repair->stats.redis_is_up;
    return status == KAFKA_CLIENT_NONE && is_done ? KAFKA_CLIENT_END : status;
}

struct pollfd repair_pollfd(const struct repair *repair) {
    return status_store_pollfd(repair->store);
}

int repair_wait_ms(const struct repair *repair) {
    return repair->has_more ? 0 : REPAIR_WAIT_MS;
}

void repair_stats(const struct repair *repair, struct repair_stats *out) {
    *out = repair->stats;
}
