#include "consumer/worker_intake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker_publish.h"
#include "consumer/worker_state.h"

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

static void worker_intake_claim(struct worker *worker, struct inflight_job *job,
                                bool only_if_queued) {
    struct status_store_claim claim = {.request_id = job->request_id,
                                       .source = job->source.ref,
                                       .fingerprint = job->fingerprint,
                                       .queued_unix_ms = job->timestamp_unix_ms,
                                       .only_if_queued = only_if_queued};
    job->state = INFLIGHT_CLAIMING;
    status_store_claim(worker->store, job->ticket, &claim);
}

static void worker_intake_take_record(struct worker *worker, const struct record *record) {
    struct inflight_job *job =
        inflight_add(&worker->inflight, &record->source, record->value_bytes);
    assert(job != NULL); /* the table has room for a full step above the high mark */
    job->record = *record;
    job->timestamp_unix_ms = record->timestamp_unix_ms >= 0 ? record->timestamp_unix_ms
                                                            : clock_unix_ms(worker->options.clock);
    if (!worker_intake_take_fingerprint(job)) { /* nothing can be claimed without */
        job->is_malformed = true;
        worker_publish_dead_letter(worker, job);
        return;
    }
    if (worker_intake_decode(worker, job)) {
        memcpy(job->request_id, job->job.request_id, sizeof job->request_id);
        worker_intake_claim(worker, job, false);
        return;
    }
    job->is_malformed = true;
    worker_intake_read_id(worker, job);
    if (job->request_id[0] != '\0') {
        worker_intake_claim(worker, job, false);
    } else if (worker_intake_take_key(job)) {
        worker_intake_claim(worker, job, true);
    } else {
        worker_publish_dead_letter(worker, job);
    }
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

/* ---- claim ---- */

/* What is no job can be told to its client only where the id is surely its own. */
static void worker_intake_claimed_malformed(struct worker *worker, struct inflight_job *job,
                                            const struct status_store_answer *answer) {
    if (answer->claimed == STATUS_STORE_DONE) {
        worker->stats.duplicates++;
        worker_settle(worker, job);
        return;
    }
    if (answer->claimed == STATUS_STORE_NEW && answer->reached) {
        worker_publish_failure(worker, job);
    }
    worker_publish_dead_letter(worker, job);
}

/* Keeps what the result will need; the engine needs none of it. */
static void worker_intake_remember(struct worker *worker, struct inflight_job *job) {
    (void)worker;
    struct record_header headers[RECORD_HEADERS_MAX];
    size_t count = kafka_source_headers(&job->record, headers, RECORD_HEADERS_MAX);
    carried_headers_copy(&job->headers, headers, count);
    inflight_copy_params(job, &job->job.params);
    job->is_problem = job->job.kind == JOB_PROBLEM;
    memcpy(job->code_language, job->job.problem.code_language, sizeof job->code_language);
    job->progress = job->job.progress;
    job->metadata = job->job.metadata;
    job->reply_topic = job->job.reply_topic;
    job->job.metadata = job->job.reply_topic = NULL;
}

void worker_intake_claimed(struct worker *worker, struct inflight_job *job,
                           const struct status_store_answer *answer) {
    job->attempt = answer->attempt;
    if (job->is_malformed) {
        worker_intake_claimed_malformed(worker, job, answer);
        return;
    }
    switch (answer->claimed) {
    case STATUS_STORE_DONE:
        worker->stats.duplicates++;
        worker_settle(worker, job);
        return;
    case STATUS_STORE_CONFLICT:
        worker->stats.conflicts++;
        error_set(&job->error, ERROR_CONFLICT, "request_id",
                  "belongs to another job with other content");
        worker_publish_dead_letter(worker, job);
        return;
    case STATUS_STORE_NEW:
    case STATUS_STORE_SEALED:
    case STATUS_STORE_RUNNING_HERE:
    case STATUS_STORE_RUNNING_ELSEWHERE:
    case STATUS_STORE_POISON:
    case STATUS_STORE_NONE: /* the key is unusable: there will be a result, but no status */ break;
    }
    worker_intake_remember(worker, job);
    job->state = INFLIGHT_WAITING;
    inflight_list_append(&worker->waiting, job);
}

/* ---- submit ---- */

void worker_intake_submit(struct worker *worker) {
    while (worker->waiting.head != NULL) {
        struct inflight_job *job = worker->waiting.head;
        enum engine_status status =
            engine_submit(worker->engine, job->ticket, &job->job, &job->error);
        if (status == ENGINE_BUSY || status == ENGINE_FAILED) {
            return;
        }
        inflight_list_take(&worker->waiting);
        if (status == ENGINE_OK) {
            job->state = INFLIGHT_RUNNING;
            job->has_job = false;
            kafka_source_release(&job->record);
        } else {
            assert(status == ENGINE_REJECTED);
            worker_publish_failure(worker, job);
        }
    }
}
