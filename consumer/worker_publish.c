#include "consumer/worker_publish.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker_life.h"
#include "consumer/worker_outcome.h"
#include "consumer/worker_state.h"
#include "engine/crash_point.h"
#include "schemas/dead_letter.h"

#define SEND_AGAIN_MS 500
#define HEADERS_MAX (RECORD_HEADERS_MAX + DEAD_LETTER_HEADERS_MAX)

/* A tag at the sink is the ticket and which of its two records it is. */
static uint64_t worker_publish_tag(const struct inflight_job *job, bool is_letter) {
    return job->ticket << 1 | is_letter;
}

/* ---- what is to be sent ---- */

#define RESULT_HEADERS_MAX (CARRIED_HEADERS_MAX + 2)

static const char *worker_publish_topic(const struct worker *worker,
                                        const struct inflight_job *job) {
    return job->reply_topic != NULL ? job->reply_topic : worker->config->results_topic;
}

static struct record_header worker_publish_header(const char *name, const char *value) {
    return (struct record_header){.name = name, .value = value, .value_bytes = strlen(value)};
}

/* The record of the result as it is now; borrows the headers. */
static struct kafka_sink_message
worker_publish_message(const struct worker *worker, const struct inflight_job *job,
                       struct record_header headers[RESULT_HEADERS_MAX]) {
    const struct inflight_outcome *outcome = &job->outcome;
    size_t carried = outcome->result_cuts < WORKER_OUTCOME_CUTS_MAX ? job->headers.count : 0;
    headers[0] = worker_publish_header("status", status_state_name(outcome->state));
    headers[1] = worker_publish_header("fingerprint", job->fingerprint);
    memcpy(&headers[2], job->headers.list, carried * sizeof headers[0]);
    return (struct kafka_sink_message){.topic = worker_publish_topic(worker, job),
                                       .key = job->request_id,
                                       .key_bytes = strlen(job->request_id),
                                       .value = outcome->result,
                                       .value_bytes = outcome->result_bytes,
                                       .headers = headers,
                                       .header_count = 2 + carried,
                                       .tag = worker_publish_tag(job, false)};
}

size_t worker_publish_room(const struct worker *worker, const struct inflight_job *job) {
    struct record_header headers[RESULT_HEADERS_MAX];
    struct kafka_sink_message message = worker_publish_message(worker, job, headers);
    return kafka_sink_room(worker->sink, &message);
}

void worker_publish_result(struct worker *worker, struct inflight_job *job) {
    snprintf(job->outcome.result_topic, sizeof job->outcome.result_topic, "%s",
             worker_publish_topic(worker, job));
    job->outcome.result_unsent = true;
    inflight_list_append(&worker->unsent, job);
}

void worker_publish_letter(struct worker *worker, struct inflight_job *job) {
    job->outcome.letter_unsent = true;
    inflight_list_append(&worker->unsent, job);
}

/* ---- send ---- */

/* Sends the result, made smaller where it has to be: its topic takes less since it was sealed. */
static enum kafka_sink_status worker_publish_send_result(struct worker *worker,
                                                         struct inflight_job *job, char *err,
                                                         size_t err_bytes) {
    for (;;) {
        struct record_header headers[RESULT_HEADERS_MAX];
        struct kafka_sink_message message = worker_publish_message(worker, job, headers);
        enum kafka_sink_status sent = kafka_sink_send(worker->sink, &message, err, err_bytes);
        if (sent != KAFKA_SINK_TOO_LARGE || job->outcome.result_cuts == WORKER_OUTCOME_CUTS_MAX) {
            return sent;
        }
        worker_outcome_cut(worker, job, kafka_sink_room(worker->sink, &message));
    }
}

/* The record's headers with ours behind them. `cuts` leaves out the value, then the record's own
 * headers. False when memory ran out. */
static bool worker_publish_letter_headers(const struct worker *worker,
                                          const struct inflight_job *job,
                                          struct dead_letter_headers *ours,
                                          struct record_header headers[HEADERS_MAX],
                                          size_t *header_count) {
    int32_t partition;
    const char *topic = kafka_source_place(worker->source, &job->source.ref, &partition);
    struct dead_letter letter = {.error = &job->error,
                                 .topic = topic,
                                 .partition = partition,
                                 .offset = job->source.ref.offset,
                                 .attempt = job->attempt,
                                 .value = job->record.value,
                                 .value_bytes = job->record.value_bytes,
                                 .value_left_out = job->outcome.letter_cuts > 0};
    size_t count = job->outcome.letter_cuts > 1
                       ? 0
                       : kafka_source_headers(&job->record, headers, RECORD_HEADERS_MAX);
    if (!dead_letter_write_headers(&letter, ours)) {
        return false;
    }
    for (uint32_t i = 0; i < ours->count; i++) {
        headers[count++] = (struct record_header){.name = ours->list[i].name,
                                                  .value = ours->list[i].value,
                                                  .value_bytes = strlen(ours->list[i].value)};
    }
    *header_count = count;
    return true;
}

static enum kafka_sink_status worker_publish_send_letter(struct worker *worker,
                                                         struct inflight_job *job, char *err,
                                                         size_t err_bytes) {
    struct dead_letter_headers ours;
    struct record_header headers[HEADERS_MAX];
    uint32_t cuts = job->outcome.letter_cuts;
    bool has_key = cuts < 3 && job->record.key != NULL;
    struct kafka_sink_message message = {.topic = worker->config->dead_letter_topic,
                                         .key = has_key ? job->record.key : NULL,
                                         .key_bytes = has_key ? job->record.key_bytes : 0,
                                         .value = cuts > 0 ? "" : job->record.value,
                                         .value_bytes = cuts > 0 ? 0 : job->record.value_bytes,
                                         .headers = headers,
                                         .tag = worker_publish_tag(job, true)};
    if (!worker_publish_letter_headers(worker, job, &ours, headers, &message.header_count)) {
        snprintf(err, err_bytes, "out of memory");
        return KAFKA_SINK_REFUSED; /* send again later */
    }
    enum kafka_sink_status sent = kafka_sink_send(worker->sink, &message, err, err_bytes);
    if (sent == KAFKA_SINK_TOO_LARGE && cuts < 3) {
        job->outcome.letter_cuts++;
        return worker_publish_send_letter(worker, job, err, err_bytes);
    }
    return sent;
}

/* False when the sink takes nothing more for now. */
static bool worker_publish_sent(struct worker *worker, enum kafka_sink_status status,
                                const struct inflight_job *job, const char *err) {
    if (status == KAFKA_SINK_OK) {
        return true;
    }
    if (status != KAFKA_SINK_BUSY && worker->send_again_ns == 0) { /* the first of this round */
        worker->send_again_ns =
            clock_monotonic_ns(worker->options.clock) + SEND_AGAIN_MS * CLOCK_NS_PER_MS;
        log_write(worker->options.log, LOG_LEVEL_ERROR, "publish.refused",
                  LOG_FIELDS(log_text("request_id", job->request_id), log_text("error", err),
                             log_text("effect", "trying again")));
    }
    return false;
}

static bool worker_publish_send(struct worker *worker, struct inflight_job *job) {
    struct inflight_outcome *outcome = &job->outcome;
    char err[128];
    if (outcome->letter_unsent) {
        enum kafka_sink_status status = worker_publish_send_letter(worker, job, err, sizeof err);
        outcome->letter_sent = status == KAFKA_SINK_OK;
        outcome->letter_unsent = !outcome->letter_sent;
        if (!worker_publish_sent(worker, status, job, err)) {
            return false;
        }
    }
    if (outcome->result_unsent) {
        enum kafka_sink_status status = worker_publish_send_result(worker, job, err, sizeof err);
        outcome->result_sent = status == KAFKA_SINK_OK;
        outcome->result_unsent = !outcome->result_sent;
        return worker_publish_sent(worker, status, job, err);
    }
    return true;
}

/* One that its topic does not take stands in nobody's way. */
static void worker_publish_send_all(struct worker *worker) {
    if (worker->send_again_ns > clock_monotonic_ns(worker->options.clock)) {
        return;
    }
    worker->send_again_ns = 0;
    for (uint32_t left = worker->unsent.count; left > 0; left--) {
        bool sent = worker_publish_send(worker, worker->unsent.head);
        if (!sent && worker->send_again_ns == 0) {
            return; /* the sink is full */
        }
        struct inflight_job *job = inflight_list_take(&worker->unsent);
        if (!sent) {
            inflight_list_append(&worker->unsent, job);
        }
    }
}

/* ---- reports ---- */

/* A record was not taken: it goes back among the unsent. Where its size was the reason its topic's
 * room is less now, so that it will be made smaller. */
static void worker_publish_refused(struct worker *worker, struct inflight_job *job, bool is_letter,
                                   const struct kafka_sink_report *report) {
    struct inflight_outcome *outcome = &job->outcome;
    bool was_idle = !outcome->letter_unsent && !outcome->result_unsent;
    if (report->status != KAFKA_SINK_TOO_LARGE) {
        worker_publish_sent(worker, report->status, job, report->error);
    }
    *(is_letter ? &outcome->letter_unsent : &outcome->result_unsent) = true;
    if (was_idle) {
        inflight_list_append(&worker->unsent, job);
    }
}

/* The brokers have it. */
static void worker_publish_acknowledged(struct worker *worker, struct inflight_job *job,
                                        bool is_letter, const struct kafka_sink_report *report) {
    struct inflight_outcome *outcome = &job->outcome;
    if (is_letter) {
        worker->stats.dead_letters++;
    } else {
        outcome->result_partition = report->partition;
        outcome->result_offset = report->offset;
        crash_point("published");
    }
    if (!outcome->letter_unsent && !outcome->result_unsent && !outcome->letter_sent &&
        !outcome->result_sent) {
        /* A dead letter alone changes no status. */
        worker_life(worker, job,
                    outcome->result != NULL ? JOB_LIFE_ACKNOWLEDGE : JOB_LIFE_ACKNOWLEDGE_LETTER);
    }
}

static void worker_publish_take_report(struct worker *worker,
                                       const struct kafka_sink_report *report) {
    bool is_letter = (report->tag & 1) != 0;
    struct inflight_job *job = inflight_find(&worker->inflight, report->tag >> 1);
    assert(job != NULL && job->life.state == JOB_LIFE_PUBLISHING); /* it waits for this report */
    *(is_letter ? &job->outcome.letter_sent : &job->outcome.result_sent) = false;
    if (report->status == KAFKA_SINK_OK) {
        worker_publish_acknowledged(worker, job, is_letter, report);
    } else {
        worker_publish_refused(worker, job, is_letter, report);
    }
}

void worker_publish_step(struct worker *worker) {
    struct kafka_sink_report report;
    kafka_sink_clear_fd(worker->sink);
    while (kafka_sink_take(worker->sink, &report)) {
        worker_publish_take_report(worker, &report);
    }
    worker_publish_send_all(worker);
}
