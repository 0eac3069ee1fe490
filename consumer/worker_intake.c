#include "consumer/worker_intake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker_claim.h"
#include "consumer/worker_deadline.h"
#include "consumer/worker_life.h"
#include "consumer/worker_state.h"
#include "engine/crash_point.h"

/* ---- receive ---- */

static void worker_intake_read_id(struct worker *worker, struct inflight_job *job) {
    const struct record *record = &job->record;
    job_read_request_id(record->value, record->value_bytes, worker->limits.value_bytes_max,
                        job->request_id);
}

/* A record without a readable id may still be somebody's: of a client that keyed it by the id and
 * queued that. False when the key cannot be an id. */
static bool worker_intake_take_key(struct inflight_job *job) {
    const struct record *record = &job->record;
    if (record->key == NULL || !job_request_id_is_valid(record->key, record->key_bytes)) {
        return false;
    }
    memcpy(job->request_id, record->key, record->key_bytes);
    job->request_id[record->key_bytes] = '\0';
    return true;
}

static bool worker_intake_take_fingerprint(struct inflight_job *job) {
    uint8_t digest[SHA256_BYTES];
    if (!sha256_of(job->record.value, job->record.value_bytes, digest)) {
        error_set(&job->error, ERROR_INTERNAL, NULL, "out of memory");
        return false;
    }
    sha256_hex(digest, job->fingerprint);
    return true;
}

static bool worker_intake_decode(struct worker *worker, struct inflight_job *job) {
    const struct record *record = &job->record;
    if (job_decode(record->value, record->value_bytes, &worker->limits, &job->job, &job->error) !=
        ERROR_NONE) {
        return false;
    }
    job->has_job = true;
    const char *topic = job->job.reply_topic;
    if (topic != NULL && !config_list_has(worker->config->reply_topics, topic)) {
        error_set(&job->error, ERROR_INVALID_FIELD, "reply_topic",
                  "is not among the topics that this worker may reply to");
        return false;
    }
    return true;
}

/* Keeps what the result will need; the engine needs none of it. */
static void worker_intake_remember(struct inflight_job *job) {
    struct record_header headers[RECORD_HEADERS_MAX];
    size_t count = kafka_source_headers(&job->record, headers, RECORD_HEADERS_MAX);
    carried_headers_copy(&job->headers, headers, count);
    inflight_copy_params(job, &job->job.params);
    job->is_problem = job->job.kind == JOB_PROBLEM;
    memcpy(job->code_language, job->job.problem.code_language, sizeof job->code_language);
    memcpy(job->request_id, job->job.request_id, sizeof job->request_id);
    job->progress = job->job.progress;
    job->metadata = job->job.metadata;
    job->reply_topic = job->job.reply_topic;
    job->job.metadata = job->job.reply_topic = NULL;
}

/* Whose record it is that is no job. False when nobody can be asked about it. */
static bool worker_intake_take_malformed(struct worker *worker, struct inflight_job *job) {
    job->is_malformed = true;
    if (job->fingerprint[0] == '\0') {
        return false; /* nothing can be claimed without */
    }
    worker_intake_read_id(worker, job);
    job->id_is_key = job->request_id[0] == '\0' && worker_intake_take_key(job);
    return job->request_id[0] != '\0';
}

static void worker_intake_take_record(struct worker *worker, const struct record *record) {
    struct inflight_job *job =
        inflight_add(&worker->inflight, &record->source, record->value_bytes);
    assert(job != NULL); /* the table has room for a full step above the high mark */
    job->record = *record;
    job->timestamp_unix_ms = record->timestamp_unix_ms >= 0 ? record->timestamp_unix_ms
                                                            : clock_unix_ms(worker->options.clock);
    job->started_unix_ms = -1;
    crash_point("received");
    if (worker_intake_take_fingerprint(job) && worker_intake_decode(worker, job)) {
        worker_intake_remember(job);
        worker_deadline_note(worker, job);
    } else if (!worker_intake_take_malformed(worker, job)) {
        worker_life(worker, job, JOB_LIFE_IS_CONFLICT); /* nobody's: a dead letter only */
        return;
    }
    worker_claim_ask(worker, job);
}

bool worker_intake_holds(const struct worker *worker) {
    return worker->backpressure.advice == BACKPRESSURE_HOLD && !worker->is_draining;
}

void worker_intake_receive(struct worker *worker) {
    uint32_t count = 0;
    struct record record;
    worker->has_more = false;
    if (worker_intake_holds(worker)) {
        return;
    }
    kafka_source_clear_fd(worker->source);
    while (count < WORKER_RECEIVE_MAX && kafka_source_receive(worker->source, &record)) {
        worker_intake_take_record(worker, &record);
        count++;
    }
    worker->has_more = count == WORKER_RECEIVE_MAX;
}
