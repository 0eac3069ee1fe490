#include "consumer/answer.h"

#include <stdio.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_reader.h"
#include "engine/clock.h"

static enum answer_status answer_decode(const void *bytes, size_t size, const char *where,
                                        struct result *out, char *err, size_t err_bytes) {
    struct job_error error;
    if (result_decode(bytes, size, out, &error) == ERROR_NONE) {
        return ANSWER_OK;
    }
    snprintf(err, err_bytes, "the result in %s cannot be read: %s", where, error.message);
    return ANSWER_ABSENT;
}

/* Reads the one record at the place that the status names. */
static enum kafka_client_status answer_read(struct kafka_reader *reader,
                                            const struct status *status, int64_t timeout_ms,
                                            struct kafka_reader_record *record, char *err,
                                            size_t err_bytes) {
    int64_t until_ns = clock_monotonic_ns(NULL) + timeout_ms * CLOCK_NS_PER_MS;
    enum kafka_client_status got = KAFKA_CLIENT_NONE;
    while (got == KAFKA_CLIENT_NONE && clock_monotonic_ns(NULL) < until_ns) {
        got = kafka_reader_read(reader, 100, false, record, err, err_bytes);
    }
    if (got == KAFKA_CLIENT_NONE) {
        snprintf(err, err_bytes, "the broker did not answer in time");
        return KAFKA_CLIENT_UNREACHABLE;
    }
    if (got == KAFKA_CLIENT_END ||
        (got == KAFKA_CLIENT_OK && record->offset != status->result_offset)) {
        snprintf(err, err_bytes, "%s no longer holds the record", status->result_topic);
        return KAFKA_CLIENT_REFUSED;
    }
    return got;
}

static enum answer_status answer_fetch_record(const struct config *config,
                                              const struct status *status, int64_t timeout_ms,
                                              struct result *out, char *err, size_t err_bytes) {
    struct kafka_reader *reader = NULL;
    struct kafka_reader_record record;
    enum kafka_client_status got =
        kafka_reader_open_at(config, status->result_topic, (int32_t)status->result_partition,
                             status->result_offset, timeout_ms, &reader, err, err_bytes);
    if (got == KAFKA_CLIENT_OK) {
        got = answer_read(reader, status, timeout_ms, &record, err, err_bytes);
    }
    enum answer_status answer =
        got == KAFKA_CLIENT_UNREACHABLE ? ANSWER_UNREACHABLE : ANSWER_ABSENT;
    if (got == KAFKA_CLIENT_OK) {
        answer = answer_decode(record.value, record.value_bytes, status->result_topic, out, err,
                               err_bytes);
    }
    kafka_reader_close(reader);
    return answer;
}

enum answer_status answer_fetch(const struct config *config, const struct status *status,
                                int64_t timeout_ms, struct result *out, char *err,
                                size_t err_bytes) {
    if (status->result) {
        return answer_decode(status->result, strlen(status->result), "the status", out, err,
                             err_bytes);
    }
    if (status->result_topic && status->result_partition >= 0 && status->result_offset >= 0) {
        return answer_fetch_record(config, status, timeout_ms, out, err, err_bytes);
    }
    snprintf(err, err_bytes, "its status names no result");
    return ANSWER_ABSENT;
}
