#include "engine/engine_step.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/sampler.h"

/* ---------------------------------------------------------------- a sequence's way out */

static void engine_step_release(struct engine_real *real, uint32_t handle) {
    struct sequence *sequence = real->sequences[handle];
    scheduler_remove(&real->scheduler, handle);
    if (sequence->slot != SEQUENCE_NO_SLOT) {
        for (uint32_t i = 0; i < sequence->page_count; i++) {
            kv_pages_release(&real->pages, sequence->pages[i]);
        }
        real->slots.free[real->slots.free_count++] = sequence->slot;
    }
    real->sequences[handle] = NULL;
    real->handles.free[real->handles.free_count++] = handle;
    sequence_close(sequence);
}

/* Ends a ticket. `error` may be NULL but for FINISH_ERROR. */
static void engine_step_finish(struct engine_real *real, uint32_t handle, enum finish_reason reason,
                               const struct job_error *error) {
    struct engine_event event;
    sequence_fill_finished(real->sequences[handle], reason, &event);
    event.finished_ns = clock_monotonic_ns(real->base.clock);
    if (error != NULL) {
        event.error = *error;
    }
    real->stats.failed_total += event.error.code != ERROR_NONE;
    engine_emit(&real->base, &event);
    engine_step_release(real, handle);
}

/* ---------------------------------------------------------------- intake */

static void engine_step_add(struct engine_real *real, struct sequence *sequence) {
    assert(real->handles.free_count > 0); /* as many as there may be tickets */
    uint32_t handle = real->handles.free[--real->handles.free_count];
    real->sequences[handle] = sequence;
    real->stats.requests_total++;
    scheduler_add(&real->scheduler, handle, sequence->prompt_tokens, sequence->page_count,
                  INTAKE_PRIORITY, sequence->admitted_ns);
}

static void engine_step_cancel(struct engine_real *real, const struct engine_command *command) {
    for (uint32_t handle = 0; handle < real->base.tickets_max; handle++) {
        const struct sequence *sequence = real->sequences[handle];
        if (sequence != NULL && sequence->ticket == command->ticket) {
            engine_step_finish(real, handle, command->reason, NULL);
            return;
        }
    }
}

static bool engine_step_intake(struct engine_real *real) {
    struct engine_command command;
    bool worked = false;
    while (engine_next_command(&real->base, &command)) {
        worked = true;
        switch (command.kind) {
        case ENGINE_COMMAND_SUBMIT: engine_step_add(real, command.work); break;
        case ENGINE_COMMAND_CANCEL: engine_step_cancel(real, &command); break;
        case ENGINE_COMMAND_DRAIN: scheduler_drain(&real->scheduler); break;
        }
    }
    return worked;
}

/* ---------------------------------------------------------------- begin */

static void engine_step_begin(struct engine_real *real, uint32_t handle, int64_t now_ns) {
    struct sequence *sequence = real->sequences[handle];
    struct engine_event event;
    assert(real->slots.free_count > 0);
    sequence->slot = real->slots.free[--real->slots.free_count];
    for (uint32_t i = 0; i < sequence->page_count; i++) {
        sequence->pages[i] = kv_pages_take(&real->pages);
        assert(sequence->pages[i] != KV_PAGES_NONE); /* the scheduler has counted them */
    }
    batch_set_pages(&real->batch, sequence->slot, sequence->pages, sequence->page_count);
    sequence->started_ns = now_ns;
    sequence->progress_ns = now_ns;
    real->stats.wait_ns_total += (uint64_t)(now_ns - sequence->admitted_ns);
    sequence_fill_started(sequence, &event);
    engine_emit(&real->base, &event);
}

static void engine_step_count_late(struct engine_stats *stats, int64_t late_ns) {
    uint32_t index = 0;
    while (late_ns > engine_late_class_ns(index)) {
        index++;
    }
    stats->delay_cuts_late[index]++;
}

static void engine_step_count_batch(struct engine_stats *stats, const struct schedule *schedule) {
    if (schedule->admitted_count == 0) {
        return;
    }
    stats->batches_total++;
    stats->batch_sizes_total += schedule->batch_size;
    stats->batches_single += schedule->batch_size == 1;
    stats->cuts[schedule->cut]++;
    if (schedule->cut == ENGINE_CUT_DELAY) {
        engine_step_count_late(stats, schedule->late_ns);
    }
    if (schedule->batch_size > stats->batch_size_max) {
        stats->batch_size_max = schedule->batch_size;
    }
}

/* ---------------------------------------------------------------- build */

/* Segment i and, if it is sampled, the next sampled row belong to pick i. */
static void engine_step_build(struct engine_real *real, const struct schedule *schedule) {
    batch_clear(&real->batch);
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        const struct sequence *sequence = real->sequences[pick->handle];
        uint32_t first_row =
            batch_add_segment(&real->batch, sequence->slot, pick->first_position,
                              sequence->tokens + pick->first_position, pick->row_count);
        if (pick->is_sampled) {
            sampler_add(&real->batch, sequence, first_row + pick->row_count - 1);
        }
        if (pick->first_position == 0 && !pick->is_sampled) {
            real->stats.prefill_chunks_split++;
        }
    }
    real->stats.steps_total++;
    real->stats.prefill_tokens_total += schedule->prefill_rows;
    real->stats.decode_tokens_total += real->batch.sampled_count;
}

/* ---------------------------------------------------------------- retire */

static bool engine_step_is_bad(const struct batch *batch, uint32_t segment) {
    bool is_bad = false;
    for (int32_t row = batch->segment_begin[segment]; row < batch->segment_begin[segment + 1];
         row++) {
        is_bad |= batch->row_bad[row] != 0;
    }
    return is_bad;
}

static void engine_step_fail(struct engine_real *real, uint32_t handle, enum error_code code,
                             const char *message) {
    struct job_error error;
    error_set(&error, code, NULL, "%s", message);
    engine_step_finish(real, handle, FINISH_ERROR, &error);
}

/* At most one untaken progress event a ticket: its slot in the event ring is reserved. */
static void engine_step_tell_progress(struct engine_real *real, struct sequence *sequence,
                                      int64_t now_ns) {
    int64_t interval_ns = real->options.progress_interval_ms * CLOCK_NS_PER_MS;
    struct engine_event event;
    if (sequence->job.progress == JOB_PROGRESS_OFF ||
        now_ns - sequence->progress_ns < interval_ns ||
        (sequence->has_progress &&
         !ring_has_taken(&real->base.events, sequence->progress_number)) ||
        !sequence_fill_progress(sequence, &event)) {
        return;
    }
    sequence->progress_ns = now_ns;
    sequence->has_progress = true;
    sequence->progress_number = engine_emit(&real->base, &event);
}

static void engine_step_take_token(struct engine_real *real, uint32_t handle, int32_t token,
                                   int64_t now_ns) {
    struct sequence *sequence = real->sequences[handle];
    enum finish_reason reason = FINISH_STOP;
    assert(token >= 0 && (uint32_t)token < real->model->config.vocabulary);
    if (sequence->answer_tokens == 0) {
        sequence->first_token_ns = now_ns;
    }
    switch (sequence_push(sequence, token, &reason)) {
    case SEQUENCE_GOES_ON: engine_step_tell_progress(real, sequence, now_ns); break;
    case SEQUENCE_IS_FINISHED: engine_step_finish(real, handle, reason, NULL); break;
    case SEQUENCE_HAS_NO_MEMORY:
        engine_step_fail(real, handle, ERROR_INTERNAL, "memory for the answer's text ran out");
        break;
    }
}

static void engine_step_retire(struct engine_real *real, const struct schedule *schedule) {
    const struct batch *batch = &real->batch;
    int64_t now_ns = clock_monotonic_ns(real->base.clock);
    uint32_t sampled = 0;
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        bool is_bad = engine_step_is_bad(batch, i);
        uint32_t index = sampled;
        sampled += pick->is_sampled;
        if (is_bad || (pick->is_sampled && batch->sampled_bad[index] != 0)) {
            engine_step_fail(real, pick->handle, ERROR_NUMERIC,
                             "the model computed a value that is not a finite number");
        } else if (pick->is_sampled) {
            engine_step_take_token(real, pick->handle, batch->sampled_token[index], now_ns);
        }
    }
}

/* ---------------------------------------------------------------- the step */

static void engine_step_publish(struct engine_real *real) {
    real->stats.queued_count = scheduler_waiting_count(&real->scheduler);
    real->stats.running_count = scheduler_running_count(&real->scheduler);
    real->stats.pages_used = kv_pages_used_count(&real->pages);
    real->stats.pages_total = real->pages.page_count - 1;
    engine_publish_stats(&real->base, &real->stats);
}

enum engine_status engine_step_run(struct engine_real *real, bool *worked, int64_t *wake_ns,
                                   char *err, size_t err_bytes) {
    struct schedule schedule;
    *worked = engine_step_intake(real);
    int64_t now_ns = clock_monotonic_ns(real->base.clock);
    scheduler_next(&real->scheduler, now_ns, &schedule);
    *wake_ns = schedule.wake_ns;
    if (schedule.pick_count > 0) {
        *worked = true;
        for (uint32_t i = 0; i < schedule.admitted_count; i++) {
            engine_step_begin(real, schedule.admitted[i], now_ns);
        }
        engine_flush_events(&real->base); /* a pass takes long: tell of the starts before it */
        engine_step_count_batch(&real->stats, &schedule);
        engine_step_build(real, &schedule);
        if (forward_run(real->forward, &real->batch, err, err_bytes) != FORWARD_OK) {
            return ENGINE_FAILED;
        }
        engine_step_retire(real, &schedule);
        real->stats.busy_ns_total += (uint64_t)(clock_monotonic_ns(real->base.clock) - now_ns);
    }
    if (*worked) {
        engine_step_publish(real);
    }
    return ENGINE_OK;
}
