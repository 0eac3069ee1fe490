/* One round: fill the window → look at what is new in it → send that → take deliveries → look at
 * what waits → show. A slot of the window goes NEW → SENDING → WAITING → free; back to NEW when its
 * status has been gone for a while. */
#include "consumer/batch_run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/answer.h"
#include "consumer/batch_file.h"
#include "consumer/batch_journal.h"
#include "consumer/batch_progress.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/kafka_producer.h"
#include "consumer/status_client.h"
#include "engine/clock.h"
#include "schemas/sha256.h"

#define BATCH_RUN_POLL_MS_MIN 25
#define BATCH_RUN_POLL_MS_MAX 250
#define BATCH_RUN_SETTLE_MS 2000                   /* for deliveries under way, when interrupted */
#define BATCH_RUN_MISSING_NS (10 * CLOCK_NS_PER_S) /* a sent job without a status is sent again */

enum slot_state { SLOT_FREE, SLOT_NEW, SLOT_SENDING, SLOT_WAITING };

struct slot {
    struct kafka_producer_delivery delivery; /* first: a delivery is its slot */
    enum slot_state state;
    size_t index;
    struct batch_line line;
    int64_t missing_since_ns; /* 0 = there is a status */
};

struct run {
    const struct batch_run_options *options;
    struct slot *slots; /* options->window of them */
    size_t used_count, sending_count;
    size_t next; /* line to be looked at */
    /* scratch, as long as the window */
    const char **ids;
    struct slot **picked;
    struct status *statuses;
    bool *created;
    int64_t away_since_ns; /* 0 while Redis answers */
    int poll_ms;
    char *err;
    size_t err_bytes;
};

/* ---- slots ----------------------------------------------------------------------------------- */

static void run_free_slot(struct run *run, struct slot *slot) {
    batch_line_deinit(&slot->line);
    *slot = (struct slot){0};
    run->used_count--;
}

/* Gathers the slots of a state; their ids and themselves stand in the scratch arrays. */
static size_t run_pick(struct run *run, enum slot_state state) {
    size_t count = 0;
    for (size_t i = 0; i < run->options->window; i++) {
        if (run->slots[i].state == state) {
            run->picked[count] = &run->slots[i];
            run->ids[count++] = run->slots[i].line.request_id;
        }
    }
    return count;
}

static bool run_fill(struct run *run) {
    const struct batch_run_options *options = run->options;
    size_t at = 0;
    while (run->used_count < options->window && run->next < options->file->count) {
        if (batch_journal_has_ended(options->journal, run->next)) {
            run->next++;
            continue;
        }
        while (run->slots[at].state != SLOT_FREE) {
            at++;
        }
        struct slot *slot = &run->slots[at];
        if (!batch_file_read(options->file, run->next, &slot->line, run->err, run->err_bytes)) {
            return false;
        }
        slot->state = SLOT_NEW;
        slot->index = run->next++;
        run->used_count++;
    }
    return true;
}

/* ---- outcomes -------------------------------------------------------------------------------- */

/* Notes how a line ended; takes over `text`, NULL of which means that memory ran out. */
static enum batch_run_status run_end(struct run *run, struct slot *slot, bool failed, char *text) {
    if (!text) {
        snprintf(run->err, run->err_bytes, "out of memory");
        return BATCH_RUN_FAILED;
    }
    bool noted = batch_journal_note_end(run->options->journal, slot->index, failed, text, run->err,
                                        run->err_bytes);
    free(text);
    run_free_slot(run, slot);
    run->poll_ms = BATCH_RUN_POLL_MS_MIN;
    return noted ? BATCH_RUN_OK : BATCH_RUN_FAILED;
}

static enum batch_run_status run_end_without_result(struct run *run, struct slot *slot,
                                                    const struct job_error *error) {
    return run_end(run, slot, true,
                   batch_line_failure(run->options->file->kind, &slot->line, error));
}

/* True when the status is of another job that has this one's id. */
static bool run_is_foreign(const struct slot *slot, const struct status *status) {
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];
    if (!status->fingerprint[0] || !sha256_of(slot->line.value, slot->line.value_bytes, digest)) {
        return false;
    }
    sha256_hex(digest, hex);
    return strcmp(hex, status->fingerprint) != 0;
}

/* What stands in a status without a result. */
static void run_tell_error(const struct status *status, const char *why, struct job_error *error) {
    enum error_code code = ERROR_INTERNAL;
    if (status->error_code && error_code_parse(status->error_code, &code)) {
        error_set(error, code, NULL, "%s", status->error_message ? status->error_message : "");
    } else {
        error_set(error, ERROR_INTERNAL, NULL, "ended %s, but %s", status_state_name(status->state),
                  why);
    }
}

static enum batch_run_status run_take_ended(struct run *run, struct slot *slot,
                                            const struct status *status) {
    const struct batch_run_options *options = run->options;
    struct result result;
    struct job_error error;
    char why[512];
    if (run_is_foreign(slot, status)) {
        error_set(&error, ERROR_CONFLICT, "request_id",
                  "belongs to another job with other content");
        return run_end_without_result(run, slot, &error);
    }
    switch (answer_fetch(options->config, status, options->timeout_ms, &result, why, sizeof why)) {
    case ANSWER_OK: break;
    case ANSWER_UNREACHABLE:
        snprintf(run->err, run->err_bytes, "Kafka: %s", why);
        return BATCH_RUN_UNREACHABLE;
    case ANSWER_ABSENT:
        run_tell_error(status, why, &error);
        return run_end_without_result(run, slot, &error);
    }
    int64_t ended_ms = status->finished_at >= 0 ? status->finished_at : clock_unix_ms(NULL);
    bool failed = result.status != RESULT_DONE;
    char *text = batch_line_answer(options->file->kind, &slot->line, &result, status->result,
                                   ended_ms / 1000);
    result_deinit(&result);
    return run_end(run, slot, failed, text);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Says whether Redis was there. BATCH_RUN_UNREACHABLE when it has been away for too long. */
static enum batch_run_status run_judge(struct run *run, enum status_client_status status) {
    int64_t now_ns = clock_monotonic_ns(NULL);
    if (status == STATUS_CLIENT_OK) {
        run->away_since_ns = 0;
        return BATCH_RUN_OK;
    }
    if (status != STATUS_CLIENT_UNREACHABLE) {
        return BATCH_RUN_UNREACHABLE;
    }
    run->away_since_ns = run->away_since_ns ? run->away_since_ns : now_ns;
    run->poll_ms = BATCH_RUN_POLL_MS_MAX;
    return now_ns - run->away_since_ns < run->options->timeout_ms * CLOCK_NS_PER_MS
               ? BATCH_RUN_OK
               : BATCH_RUN_UNREACHABLE;
}

/* What a status says about a line that may have to be sent: it stays NEW only if so. */
static enum batch_run_status run_take_new(struct run *run, struct slot *slot,
                                          const struct status *status) {
    bool was_sent = run->options->journal->marks[slot->index].kind == BATCH_MARK_SENT;
    if (status_state_is_terminal(status->state)) {
        slot->state = SLOT_WAITING; /* whatever comes of it: not to be sent */
        return run_take_ended(run, slot, status);
    }
    if (status->state == STATUS_RUNNING || (status->state == STATUS_QUEUED && was_sent)) {
        slot->state = SLOT_WAITING;
    }
    return BATCH_RUN_OK;
}

static enum batch_run_status run_take_waiting(struct run *run, struct slot *slot,
                                              const struct status *status) {
    int64_t now_ns = clock_monotonic_ns(NULL);
    if (status_state_is_terminal(status->state)) {
        return run_take_ended(run, slot, status);
    }
    if (status->state != STATUS_UNKNOWN) {
        slot->missing_since_ns = 0;
    } else if (slot->missing_since_ns == 0) {
        slot->missing_since_ns = now_ns;
    } else if (now_ns - slot->missing_since_ns > BATCH_RUN_MISSING_NS) {
        slot->missing_since_ns = 0;
        slot->state = SLOT_NEW;
    }
    return BATCH_RUN_OK;
}

/* Reads the statuses of all slots in a state and acts on them. */
static enum batch_run_status run_look(struct run *run, enum slot_state state, bool *answered) {
    size_t count = run_pick(run, state);
    *answered = count > 0;
    if (count == 0) {
        return BATCH_RUN_OK;
    }
    enum status_client_status got = status_client_read(run->options->client, run->ids, count,
                                                       run->statuses, run->err, run->err_bytes);
    *answered = got == STATUS_CLIENT_OK;
    if (got != STATUS_CLIENT_OK) {
        return run_judge(run, got);
    }
    enum batch_run_status status = BATCH_RUN_OK;
    for (size_t i = 0; i < count; i++) {
        if (status == BATCH_RUN_OK) {
            status = state == SLOT_NEW ? run_take_new(run, run->picked[i], &run->statuses[i])
                                       : run_take_waiting(run, run->picked[i], &run->statuses[i]);
        }
        status_deinit(&run->statuses[i]);
    }
    run->away_since_ns = 0;
    return status;
}

/* ---- sending --------------------------------------------------------------------------------- */

static enum batch_run_status run_produce(struct run *run, struct slot *slot) {
    const struct batch_run_options *options = run->options;
    struct job_error error;
    switch (kafka_producer_send(options->producer, options->config->jobs_topic,
                                slot->line.request_id, slot->line.value, slot->line.value_bytes,
                                &slot->delivery, run->err, run->err_bytes)) {
    case KAFKA_CLIENT_OK:
        slot->state = SLOT_SENDING;
        run->sending_count++;
        return BATCH_RUN_OK;
    case KAFKA_CLIENT_NONE: return BATCH_RUN_OK; /* the queue is full: in the next round */
    default: break;
    }
    error_set(&error, ERROR_INTERNAL, NULL, "could not be sent: %s", run->err);
    return run_end_without_result(run, slot, &error);
}

static enum batch_run_status run_send(struct run *run) {
    bool answered;
    enum batch_run_status status = run_look(run, SLOT_NEW, &answered);
    size_t count = answered && status == BATCH_RUN_OK ? run_pick(run, SLOT_NEW) : 0;
    if (count == 0) {
        return status;
    }
    const struct batch_run_options *options = run->options;
    enum status_client_status queued =
        status_client_queue(options->client, run->ids, count, clock_unix_ms(NULL),
                            options->config->status_ttl_s, run->created, run->err, run->err_bytes);
    status = run_judge(run, queued);
    for (size_t i = 0; queued == STATUS_CLIENT_OK && status == BATCH_RUN_OK && i < count; i++) {
        status = run_produce(run, run->picked[i]);
    }
    return status;
}

static enum batch_run_status run_take_delivery(struct run *run, struct slot *slot) {
    struct job_error error;
    run->sending_count--;
    if (slot->delivery.status == KAFKA_CLIENT_OK) {
        slot->state = SLOT_WAITING;
        return batch_journal_note_sent(run->options->journal, slot->index, run->err, run->err_bytes)
                   ? BATCH_RUN_OK
                   : BATCH_RUN_FAILED;
    }
    if (slot->delivery.status == KAFKA_CLIENT_UNREACHABLE) {
        snprintf(run->err, run->err_bytes, "Kafka: %s", slot->delivery.error);
        slot->state = SLOT_NEW;
        return BATCH_RUN_UNREACHABLE;
    }
    error_set(&error, ERROR_INTERNAL, NULL, "the broker refused it: %s", slot->delivery.error);
    return run_end_without_result(run, slot, &error);
}

static enum batch_run_status run_take_deliveries(struct run *run, int wait_ms) {
    enum batch_run_status status = BATCH_RUN_OK;
    struct kafka_producer_delivery *delivery;
    while (run->sending_count && kafka_producer_take_delivery(run->options->producer, wait_ms,
                                                              &delivery) == KAFKA_CLIENT_OK) {
        enum batch_run_status took = run_take_delivery(run, (struct slot *)delivery);
        status = status == BATCH_RUN_OK ? took : status;
    }
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void run_show(struct run *run) {
    const struct batch_journal *journal = run->options->journal;
    batch_progress_show(run->options->progress, journal->done_count + journal->failed_count,
                        journal->failed_count, false);
}

/* Sleeps a little longer each time nothing happens. False when interrupted. */
static bool run_rest(struct run *run) {
    struct pollfd signal = {.fd = run->options->interrupt->fd, .events = POLLIN};
    poll(&signal, 1, run->sending_count ? 1 : run->poll_ms);
    run->poll_ms = run->poll_ms * 3 / 2 + 1;
    run->poll_ms = run->poll_ms < BATCH_RUN_POLL_MS_MAX ? run->poll_ms : BATCH_RUN_POLL_MS_MAX;
    return !interrupt_take(run->options->interrupt);
}

static enum batch_run_status run_round(struct run *run) {
    bool answered;
    if (!run_fill(run)) {
        return BATCH_RUN_FAILED;
    }
    enum batch_run_status status = run_send(run);
    if (status == BATCH_RUN_OK) {
        status = run_take_deliveries(run, 0);
    }
    return status == BATCH_RUN_OK ? run_look(run, SLOT_WAITING, &answered) : status;
}

static enum batch_run_status run_loop(struct run *run) {
    const struct batch_run_options *options = run->options;
    for (;;) {
        enum batch_run_status status = run_round(run);
        run_show(run);
        if (status != BATCH_RUN_OK) {
            return status;
        }
        if (run->used_count == 0 && run->next == options->file->count) {
            return BATCH_RUN_OK;
        }
        if (!run_rest(run)) {
            return BATCH_RUN_INTERRUPTED;
        }
    }
}

/* Learns of what is under way to the broker, so that the next run need not send it again. */
static void run_settle(struct run *run) {
    int64_t until_ns = clock_monotonic_ns(NULL) + BATCH_RUN_SETTLE_MS * CLOCK_NS_PER_MS;
    while (run->sending_count && clock_monotonic_ns(NULL) < until_ns) {
        (void)run_take_deliveries(run, 50);
    }
}

static bool run_init(struct run *run) {
    size_t window = run->options->window;
    run->slots = calloc(window, sizeof *run->slots);
    run->ids = calloc(window, sizeof *run->ids);
    run->picked = calloc(window, sizeof *run->picked);
    run->statuses = calloc(window, sizeof *run->statuses);
    run->created = calloc(window, sizeof *run->created);
    run->poll_ms = BATCH_RUN_POLL_MS_MIN;
    return run->slots && run->ids && run->picked && run->statuses && run->created;
}

static void run_deinit(struct run *run) {
    for (size_t i = 0; run->slots && i < run->options->window; i++) {
        batch_line_deinit(&run->slots[i].line);
    }
    free(run->slots);
    free(run->ids);
    free(run->picked);
    free(run->statuses);
    free(run->created);
}

enum batch_run_status batch_run(const struct batch_run_options *options, char *err,
                                size_t err_bytes) {
    struct run run = {.options = options, .err = err, .err_bytes = err_bytes};
    enum batch_run_status status = BATCH_RUN_FAILED;
    if (run_init(&run)) {
        status = run_loop(&run);
    } else {
        snprintf(err, err_bytes, "out of memory");
    }
    if (status == BATCH_RUN_INTERRUPTED) {
        run_settle(&run);
    }
    kafka_producer_close(options->producer); /* it still borrows what the slots own */
    run_deinit(&run);
    return status;
}
