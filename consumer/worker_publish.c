#include "consumer/worker_publish.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/result_limits.h"
#include "consumer/worker_result.h"
#include "consumer/worker_state.h"
#include "schemas/dead_letter.h"

#define SEND_AGAIN_MS 500
#define RESULT_CUTS_MAX 3 /* a failure in its place; a brief one; without the job's headers */
#define HEADERS_MAX (RECORD_HEADERS_MAX + DEAD_LETTER_HEADERS_MAX)

/* A tag at the sink is the ticket and which of its two records it is. */
static uint64_t worker_publish_tag(const struct inflight_job *job, bool is_letter) {
    return job->ticket << 1 | is_letter;
}

static struct worker_result_context worker_publish_context(const struct worker *worker) {
    return (struct worker_result_context){.model = &worker->engine_info,
                                          .worker = worker->options.name,
                                          .now_ns = clock_monotonic_ns(worker->options.clock),
                                          .now_unix_ms = clock_unix_ms(worker->options.clock)};
}

/* ---- what is to be sent ---- */

static void worker_publish_enlist(struct worker *worker, struct inflight_job *job) {
    if (job->state != INFLIGHT_PUBLISHING) {
        job->state = INFLIGHT_PUBLISHING;
        inflight_list_append(&worker->unsent, job);
    }
}

static void worker_publish_result(struct worker *worker, struct inflight_job *job,
                                  enum status_state state) {
    struct inflight_outcome *outcome = &job->outcome;
    const char *topic = job->reply_topic != NULL ? job->reply_topic : worker->config->results_topic;
    outcome->state = state;
    outcome->finished_unix_ms = clock_unix_ms(worker->options.clock);
    outcome->result_unsent = true;
    snprintf(outcome->result_topic, sizeof outcome->result_topic, "%s", topic);
    worker_publish_enlist(worker, job);
}

void worker_publish_answer(struct worker *worker, struct inflight_job *job,
                           struct engine_event *event) {
    struct worker_result_context context = worker_publish_context(worker);
    struct inflight_outcome *outcome = &job->outcome;
    outcome->result = worker_result_finished(&context, job, event, &outcome->result_bytes);
    outcome->prompt_tokens = event->usage.prompt_tokens;
    outcome->completion_tokens = event->usage.completion_tokens;
    if (job->progress == JOB_PROGRESS_TEXT) {
        outcome->text = event->text;
        event->text = NULL;
    }
    job->error = event->error;
    worker_publish_result(worker, job, worker_result_state(event->finish_reason));
}

static void worker_publish_make_failure(struct worker *worker, struct inflight_job *job,
                                        bool brief) {
    struct worker_result_context context = worker_publish_context(worker);
    free(job->outcome.result);
    job->outcome.result = worker_result_failed(&context, job, brief, &job->outcome.result_bytes);
}

void worker_publish_failure(struct worker *worker, struct inflight_job *job) {
    job->outcome.prompt_tokens = job->outcome.completion_tokens = -1;
    worker_publish_make_failure(worker, job, false);
    worker_publish_result(worker, job, STATUS_FAILED);
}

void worker_publish_dead_letter(struct worker *worker, struct inflight_job *job) {
    job->outcome.letter_unsent = true;
    worker_publish_enlist(worker, job);
}

/* ---- send ---- */

/* The result as its topic takes it, while there is something to leave out. */
static bool worker_publish_shorten(struct inflight_outcome *outcome, size_t room) {
    size_t bytes;
    char *shorter = result_limits_shorten(outcome->result, outcome->result_bytes, room, &bytes);
    if (shorter == NULL) {
        return false;
    }
    free(outcome->result);
    outcome->result = shorter;
    outcome->result_bytes = bytes;
    return true;
}

/* The topic does not take so large a result: a shorter one, then an error in its place, then one
 * without what the client sent. A result that says no more than its id is not made smaller. */
static void worker_publish_cut_result(struct worker *worker, struct inflight_job *job,
                                      size_t room) {
    struct inflight_outcome *outcome = &job->outcome;
    if (outcome->result_cuts == 0 && worker_publish_shorten(outcome, room)) {
        return;
    }
    if (outcome->state != STATUS_FAILED) {
        error_set(&job->error, ERROR_RESULT_TOO_LARGE, NULL,
                  "the result has %zu bytes, and its topic takes %zu", outcome->result_bytes, room);
        outcome->state = STATUS_FAILED;
    }
    outcome->result_cuts++;
    worker_publish_make_failure(worker, job, outcome->result_cuts > 1);
}

/* Sends the result, made smaller where it has to be. */
static enum kafka_sink_status worker_publish_send_result(struct worker *worker,
                                                         struct inflight_job *job, char *err,
                                                         size_t err_bytes) {
    struct inflight_outcome *outcome = &job->outcome;
    for (;;) {
        struct record_header headers[CARRIED_HEADERS_MAX + 1];
        const char *status = status_state_name(outcome->state);
        size_t carried = outcome->result_cuts < RESULT_CUTS_MAX ? job->headers.count : 0;
        headers[0] = (struct record_header){
            .name = "status", .value = status, .value_bytes = strlen(status)};
        memcpy(&headers[1], job->headers.list, carried * sizeof headers[0]);
        struct kafka_sink_message message = {.topic = outcome->result_topic,
                                             .key = job->request_id,
                                             .key_bytes = strlen(job->request_id),
                                             .value = outcome->result,
                                             .value_bytes = outcome->result_bytes,
                                             .headers = headers,
                                             .header_count = 1 + carried,
                                             .tag = worker_publish_tag(job, false)};
        enum kafka_sink_status sent = kafka_sink_send(worker->sink, &message, err, err_bytes);
        if (sent != KAFKA_SINK_TOO_LARGE || outcome->result_cuts == RESULT_CUTS_MAX) {
            return sent;
        }
        worker_publish_cut_result(worker, job, kafka_sink_room(worker->sink, &message));
    }
}

/* The record's headers with ours behind them. `cuts` leaves out the value, then the record's own
 * headers. False when memory ran out. */
static bool worker_publish_letter_headers(const struct worker *worker,
                                          const struct inflight_job *job,
                                          struct dead_letter_headers *ours,
                                          struct record_header headers[HEADERS_MAX],
                                          size_t *header_count) {
    struct dead_letter letter = {.error = &job->error,
                                 .topic = worker->config->jobs_topic,
                                 .partition = job->source.ref.partition,
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

static void worker_publish_count(struct worker *worker, const struct inflight_job *job) {
    switch (job->outcome.state) {
    case STATUS_DONE: worker->stats.done++; break;
    case STATUS_EXPIRED: worker->stats.expired++; break;
    case STATUS_CANCELLED: worker->stats.cancelled++; break;
    default: worker->stats.failed++; break;
    }
}

static void worker_publish_finish(struct worker *worker, struct inflight_job *job) {
    const struct inflight_outcome *outcome = &job->outcome;
    bool has_error = job->error.code != ERROR_NONE;
    struct status_store_finish finish = {.request_id = job->request_id,
                                         .fingerprint = job->fingerprint,
                                         .state = outcome->state,
                                         .attempt = job->attempt,
                                         .finished_unix_ms = outcome->finished_unix_ms,
                                         .prompt_tokens = outcome->prompt_tokens,
                                         .completion_tokens = outcome->completion_tokens,
                                         .error_code =
                                             has_error ? error_code_name(job->error.code) : NULL,
                                         .error_message = has_error ? job->error.message : NULL,
                                         .result_topic = outcome->result_topic,
                                         .result_partition = outcome->result_partition,
                                         .result_offset = outcome->result_offset,
                                         .text = outcome->text,
                                         .result = outcome->result,
                                         .result_bytes = outcome->result_bytes};
    job->state = INFLIGHT_FINISHING;
    worker_publish_count(worker, job);
    status_store_finish(worker->store, job->ticket, &finish);
}

/* Everything of this job is acknowledged. */
static void worker_publish_acknowledged(struct worker *worker, struct inflight_job *job) {
    if (job->outcome.result != NULL) {
        worker_publish_finish(worker, job);
    } else {
        worker_settle(worker, job); /* a dead letter alone changes no status */
    }
}

/* A record was not taken: it goes back among the unsent. Where its size was the reason its topic's
 * room is less now, so that it will be made smaller. */
static void worker_publish_refused(struct worker *worker, struct inflight_job *job, bool is_letter,
                                   const struct kafka_sink_report *report) {
    struct inflight_outcome *outcome = &job->outcome;
    bool was_idle = !outcome->letter_unsent && !outcome->result_unsent;
    if (report->status != KAFKA_SINK_TOO_LARGE) {
        worker_publish_sent(worker, report->status, job, report->error);
    }
    if (is_letter) {
        outcome->letter_unsent = true;
    } else {
        outcome->result_unsent = true;
    }
    if (was_idle) {
        inflight_list_append(&worker->unsent, job);
    }
}

static void worker_publish_take_report(struct worker *worker,
                                       const struct kafka_sink_report *report) {
    bool is_letter = (report->tag & 1) != 0;
    struct inflight_job *job = inflight_find(&worker->inflight, report->tag >> 1);
    assert(job != NULL && job->state == INFLIGHT_PUBLISHING); /* it waits for this report */
    struct inflight_outcome *outcome = &job->outcome;
    *(is_letter ? &outcome->letter_sent : &outcome->result_sent) = false;
    if (report->status != KAFKA_SINK_OK) {
        worker_publish_refused(worker, job, is_letter, report);
        return;
    }
    if (is_letter) {
        worker->stats.dead_letters++;
    } else {
        outcome->result_partition = report->partition;
        outcome->result_offset = report->offset;
    }
    if (!outcome->letter_unsent && !outcome->result_unsent && !outcome->letter_sent &&
        !outcome->result_sent) {
        worker_publish_acknowledged(worker, job);
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
