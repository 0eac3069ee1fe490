#include "engine/engine_step.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crash_point.h"
#include "engine/engine_ahead.h"
#include "engine/sampler.h"

/* ---------------------------------------------------------------- pages for the scheduler */

static bool engine_step_begin_pages(void *context, uint32_t handle, uint32_t page_count,
                                    uint32_t *computed_tokens) {
    struct engine_real *real = context;
    struct sequence *sequence = real->sequences[handle];
    const struct kv_prompt prompt = sequence_kv_prompt(sequence);
    if (!kv_cache_begin(&real->cache, &sequence->hold, &prompt, page_count)) {
        return false;
    }
    *computed_tokens = sequence->hold.reused_count * KV_PAGE_TOKENS;
    sequence->computed_tokens = *computed_tokens;
    return true;
}

static bool engine_step_grow_pages(void *context, uint32_t handle) {
    struct engine_real *real = context;
    struct kv_hold *hold = &real->sequences[handle]->hold;
    return kv_cache_grow(&real->cache, hold, hold->page_count + 1);
}

static void engine_step_release_pages(void *context, uint32_t handle) {
    struct engine_real *real = context;
    struct sequence *sequence = real->sequences[handle];
    kv_cache_release(&real->cache, &sequence->hold);
    sequence->lost_tokens = sequence->computed_tokens;
}

struct scheduler_pages engine_step_pages(struct engine_real *real) {
    return (struct scheduler_pages){.context = real,
                                    .begin = engine_step_begin_pages,
                                    .grow = engine_step_grow_pages,
                                    .release = engine_step_release_pages};
}

/* ---------------------------------------------------------------- a sequence's way out */

static void engine_step_leave_slot(struct engine_real *real, struct sequence *sequence) {
    if (sequence->slot != SEQUENCE_NO_SLOT) {
        real->slots.free[real->slots.free_count++] = sequence->slot;
    }
    sequence->slot = SEQUENCE_NO_SLOT;
}

static void engine_step_release(struct engine_real *real, uint32_t handle) {
    struct sequence *sequence = real->sequences[handle];
    scheduler_remove(&real->scheduler, handle);
    ticket_index_remove(&real->tickets, sequence->ticket);
    deadline_heap_remove(&real->deadlines, handle);
    engine_step_leave_slot(real, sequence);
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
    engine_explain_end(&event, &real->stats);
    engine_emit(&real->base, &event);
    engine_step_release(real, handle);
}

/* ---------------------------------------------------------------- intake */

/* Ends a job that cannot have a token in time; one that is late already is none of these. */
static void engine_step_refuse_infeasible(struct engine_real *real, uint32_t handle,
                                          const struct wait_queue_before *before) {
    const struct sequence *sequence = real->sequences[handle];
    const struct cost_model_arrival arrival = {.prompt_tokens = sequence->prompt_tokens,
                                               .prompt_tokens_before = before->prompt_tokens,
                                               .sequences_before =
                                                   before->count + real->scheduler.preempted.count,
                                               .running = scheduler_running_count(&real->scheduler),
                                               .places_count = real->options.max_running};
    int64_t left_ns = sequence->job.deadline_ns - clock_monotonic_ns(real->base.clock);
    int64_t least_ns = cost_model_least_ns(&real->costs, &arrival);
    struct job_error error;
    if (left_ns > 0 && least_ns > left_ns) {
        error_set(&error, ERROR_INFEASIBLE, "timeout_ms",
                  "%lld ms are left, and half of what a first token takes now is %lld ms",
                  (long long)(left_ns / CLOCK_NS_PER_MS), (long long)(least_ns / CLOCK_NS_PER_MS));
        engine_step_finish(real, handle, FINISH_DEADLINE, &error);
    }
}

static void engine_step_add(struct engine_real *real, struct sequence *sequence) {
    assert(real->handles.free_count > 0); /* as many as there may be tickets */
    uint32_t handle = real->handles.free[--real->handles.free_count];
    real->sequences[handle] = sequence;
    real->stats.requests_total++;
    const struct scheduler_item item = {.prompt_tokens = sequence->prompt_tokens,
                                        .pages_max = sequence->pages_max,
                                        .priority = sequence->job.priority,
                                        .tenant = sequence->tenant_number,
                                        .arrival_ns = sequence->admitted_ns};
    const struct wait_queue_before before =
        wait_queue_before(&real->scheduler.waiting, item.priority, item.tenant);
    scheduler_add(&real->scheduler, handle, &item);
    ticket_index_add(&real->tickets, sequence->ticket, handle);
    if (sequence->job.deadline_ns != 0) {
        deadline_heap_set(&real->deadlines, handle, sequence->job.deadline_ns);
        engine_step_refuse_infeasible(real, handle, &before);
    }
}

static void engine_step_cancel(struct engine_real *real, const struct engine_command *command) {
    uint32_t handle = ticket_index_find(&real->tickets, command->ticket);
    if (handle != TICKET_INDEX_NONE) {
        engine_step_finish(real, handle, command->reason, NULL);
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

/* Ends all that is past its deadline, waiting or running. */
static bool engine_step_expire(struct engine_real *real, int64_t now_ns) {
    uint32_t handle;
    bool worked = false;
    while (deadline_heap_take(&real->deadlines, now_ns, &handle)) {
        engine_step_finish(real, handle, FINISH_DEADLINE, NULL);
        worked = true;
    }
    return worked;
}

/* ---------------------------------------------------------------- begin */

static void engine_step_take_slot(struct engine_real *real, struct sequence *sequence) {
    assert(real->slots.free_count > 0);
    sequence->slot = real->slots.free[--real->slots.free_count];
    sequence->hold.is_changed = true; /* whatever the slot's pages were */
    sequence->placed_pages = sequence->hold.reused_count;
}

static void engine_step_begin(struct engine_real *real, uint32_t handle, int64_t now_ns) {
    struct sequence *sequence = real->sequences[handle];
    struct engine_event event;
    engine_step_take_slot(real, sequence);
    sequence->started_ns = now_ns;
    sequence->cached_tokens = sequence->computed_tokens;
    real->stats.prefix_hits_total += sequence->cached_tokens > 0;
    real->stats.cached_tokens_total += sequence->cached_tokens;
    sequence->progress_ns = now_ns;
    real->stats.wait_ns_total += (uint64_t)(now_ns - sequence->admitted_ns);
    sequence_fill_started(sequence, &event);
    engine_emit(&real->base, &event);
    crash_point_of("batched", crash_point_marks(&sequence->job));
}

/* Its pages are gone already: the scheduler has given them up. */
static void engine_step_preempt(struct engine_real *real, uint32_t handle) {
    struct sequence *sequence = real->sequences[handle];
    engine_step_leave_slot(real, sequence);
    real->stats.preemptions_total++;
}

static void engine_step_resume(struct engine_real *real, uint32_t handle) {
    struct sequence *sequence = real->sequences[handle];
    engine_step_take_slot(real, sequence);
    if (sequence->lost_tokens > sequence->computed_tokens) {
        real->stats.recomputed_tokens_total += sequence->lost_tokens - sequence->computed_tokens;
    }
}

/* In this order: the slots that are left are those that are taken. */
static void engine_step_place(struct engine_real *real, const struct schedule *schedule,
                              int64_t now_ns) {
    for (uint32_t i = 0; i < schedule->preempted_count; i++) {
        engine_step_preempt(real, schedule->preempted[i]);
    }
    for (uint32_t i = 0; i < schedule->resumed_count; i++) {
        engine_step_resume(real, schedule->resumed[i]);
    }
    for (uint32_t i = 0; i < schedule->admitted_count; i++) {
        engine_step_begin(real, schedule->admitted[i], now_ns);
    }
    engine_flush_events(&real->base); /* a pass takes long: tell of the starts before it */
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

/* Names a sequence's pages in its slot; the new ones of them hold others' leftovers, or NaN where
 * reading those is to show. */
static bool engine_step_set_pages(struct engine_real *real, struct sequence *sequence, char *err,
                                  size_t err_bytes) {
    struct kv_hold *hold = &sequence->hold;
    batch_set_pages(&real->batch, sequence->slot, hold->pages, hold->page_count);
    hold->is_changed = false;
    for (; sequence->placed_pages < hold->page_count; sequence->placed_pages++) {
        if (real->options.poison_pages &&
            forward_poison_page(real->forward, (uint32_t)hold->pages[sequence->placed_pages], err,
                                err_bytes) != FORWARD_OK) {
            return false;
        }
    }
    return true;
}

/* Guesses what follows the token of this pick, in the sequence's tokens behind it, within the pages
 * that it holds: up to `most` tokens. */
static uint32_t engine_step_draft(struct engine_real *real, const struct pick *pick,
                                  uint32_t most) {
    struct sequence *sequence = real->sequences[pick->handle];
    uint32_t known = sequence->prompt_tokens + sequence->answer_tokens;
    uint32_t answer_left = sequence->answer_max - sequence->answer_tokens - 1;
    uint32_t spare = scheduler_spare_positions(&real->scheduler, pick->handle);
    most = answer_left < most ? answer_left : most;
    most = spare < most ? spare : most;
    if (!pick->is_sampled || pick->row_count > 1 || sequence->seen != NULL || most == 0) {
        return 0;
    }
    most = speculation_next_length(&sequence->speculation, most);
    return most == 0 ? 0
                     : speculation_find(sequence->tokens, known, most, sequence->tokens + known);
}

/* Drafts for the sequences of a step of few rows: they pay while a pass waits for memory rather
 * than for arithmetic, which the device tells. */
static void engine_step_draft_all(struct engine_real *real, const struct schedule *schedule) {
    uint32_t rows = schedule->pick_count + schedule->prefill_rows;
    uint32_t few = real->device_info.few_rows;
    few = few < ENGINE_PLAN_DRAFT_ROWS_MAX ? few : ENGINE_PLAN_DRAFT_ROWS_MAX;
    uint32_t left = rows < few ? few - rows : 0;
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        struct sequence *sequence = real->sequences[schedule->picks[i].handle];
        uint32_t most = (uint32_t)real->options.max_speculative_tokens;
        most = left < most ? left : most;
        sequence->draft_tokens = engine_step_draft(real, &schedule->picks[i], most);
        left -= sequence->draft_tokens;
        real->stats.drafted_tokens_total += sequence->draft_tokens;
    }
}

/* Segment i and, if it is sampled, the next sampled row, with one more for each token of a draft,
 * belong to pick i. */
static bool engine_step_build(struct engine_real *real, const struct schedule *schedule, char *err,
                              size_t err_bytes) {
    batch_clear(&real->batch);
    engine_step_draft_all(real, schedule);
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        struct sequence *sequence = real->sequences[pick->handle];
        if (sequence->hold.is_changed && !engine_step_set_pages(real, sequence, err, err_bytes)) {
            return false;
        }
        uint32_t first_row = batch_add_segment(&real->batch, sequence->slot, pick->first_position,
                                               sequence->tokens + pick->first_position,
                                               pick->row_count + sequence->draft_tokens);
        assert(sequence->draft_tokens == 0 || sequence->seen == NULL);
        for (uint32_t ahead = 0; pick->is_sampled && ahead <= sequence->draft_tokens; ahead++) {
            sampler_add(&real->batch, sequence, first_row + pick->row_count - 1 + ahead, ahead);
        }
        crash_point_of(sequence->answer_tokens == 0 ? "in_prefill" : "in_decode",
                       crash_point_marks(&sequence->job));
        real->stats.prefill_chunks_split +=
            !pick->is_sampled &&
            pick->first_position == sequence->hold.reused_count * KV_PAGE_TOKENS;
    }
    real->stats.steps_total++;
    real->stats.prefill_tokens_total += schedule->prefill_rows;
    return true;
}

/* ---------------------------------------------------------------- retire */

static bool engine_step_is_bad(const struct batch *batch, uint32_t first_row, uint32_t count) {
    bool is_bad = false;
    for (uint32_t row = first_row; row < first_row + count; row++) {
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

/* True while the sequence goes on. */
static bool engine_step_take_token(struct engine_real *real, uint32_t handle, int32_t token,
                                   int64_t now_ns) {
    struct sequence *sequence = real->sequences[handle];
    enum finish_reason reason = FINISH_STOP;
    assert(token >= 0 && (uint32_t)token < real->model->config.vocabulary);
    if (sequence->answer_tokens == 0) {
        sequence->first_token_ns = now_ns;
    }
    enum sequence_state state = sequence_push(sequence, token, &reason);
    int64_t deadline_ns = sequence->job.deadline_ns;
    if (state != SEQUENCE_HAS_NO_MEMORY && deadline_ns != 0 && deadline_ns <= now_ns) {
        engine_step_finish(real, handle, FINISH_DEADLINE, NULL);
        return false;
    }
    if (state == SEQUENCE_IS_FINISHED) {
        cost_model_note_answer(&real->costs, sequence->answer_tokens);
    }
    switch (state) {
    case SEQUENCE_GOES_ON: engine_step_tell_progress(real, sequence, now_ns); break;
    case SEQUENCE_IS_FINISHED: engine_step_finish(real, handle, reason, NULL); break;
    case SEQUENCE_HAS_NO_MEMORY:
        engine_step_fail(real, handle, ERROR_INTERNAL, "memory for the answer's text ran out");
        break;
    }
    return state == SEQUENCE_GOES_ON;
}

/* What was computed and is good may be shared from now on. */
static void engine_step_note_computed(struct engine_real *real, const struct pick *pick) {
    struct sequence *sequence = real->sequences[pick->handle];
    const struct kv_prompt prompt = sequence_kv_prompt(sequence);
    sequence->computed_tokens = pick->first_position + pick->row_count;
    kv_cache_offer(&real->cache, &sequence->hold, &prompt, sequence->computed_tokens);
}

static void engine_step_fail_numeric(struct engine_real *real, uint32_t handle) {
    engine_step_fail(real, handle, ERROR_NUMERIC,
                     "the model computed a value that is not a finite number");
}

/* Takes what was drawn for a pick, sampled rows `sampled` and on: the first token always, the next
 * one while the token before it is the one that was guessed. `row` is the first's. */
static void engine_step_take_tokens(struct engine_real *real, const struct pick *pick, uint32_t row,
                                    uint32_t sampled, int64_t now_ns) {
    const struct batch *batch = &real->batch;
    struct sequence *sequence = real->sequences[pick->handle];
    uint32_t drafted = sequence->draft_tokens, kept = 0;
    for (;; kept++) {
        int32_t token = batch->sampled_token[sampled + kept];
        uint32_t known = sequence->prompt_tokens + sequence->answer_tokens;
        bool is_guessed = kept < drafted && sequence->tokens[known] == token;
        if (batch->row_bad[row + kept] != 0 || batch->sampled_bad[sampled + kept] != 0) {
            engine_step_fail_numeric(real, pick->handle);
            return;
        }
        real->stats.decode_tokens_total++;
        if (!engine_step_take_token(real, pick->handle, token, now_ns)) {
            return;
        }
        if (!is_guessed) {
            break;
        }
        sequence->computed_tokens++;
        real->stats.kept_tokens_total++;
    }
    if (drafted > 0) {
        speculation_learn(&sequence->speculation, drafted, kept);
        scheduler_advance(&real->scheduler, pick->handle, kept);
    }
}

static void engine_step_retire(struct engine_real *real, const struct schedule *schedule) {
    const struct batch *batch = &real->batch;
    int64_t now_ns = clock_monotonic_ns(real->base.clock);
    uint32_t sampled = 0;
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        uint32_t first_row = (uint32_t)batch->segment_begin[i];
        uint32_t index = sampled;
        sampled += pick->is_sampled ? 1 + real->sequences[pick->handle]->draft_tokens : 0;
        if (engine_step_is_bad(batch, first_row, pick->row_count)) {
            engine_step_fail_numeric(real, pick->handle);
            continue;
        }
        engine_step_note_computed(real, pick);
        if (pick->is_sampled) {
            engine_step_take_tokens(real, pick, first_row + pick->row_count - 1, index, now_ns);
        }
    }
}

/* ---------------------------------------------------------------- the step */

static void engine_step_publish(struct engine_real *real) {
    real->stats.queued_count = scheduler_waiting_count(&real->scheduler);
    real->stats.running_count = scheduler_running_count(&real->scheduler);
    real->stats.pages_used = kv_pages_used_count(&real->cache.pages);
    real->stats.pages_cached = real->cache.pages.idle_count;
    real->stats.pages_total = real->cache.pages.page_count - 1;
    engine_publish_stats(&real->base, &real->stats);
}

static void engine_step_note_cost(struct engine_real *real, const struct schedule *schedule,
                                  uint64_t cached_before, uint64_t decoded_before,
                                  int64_t took_ns) {
    const struct cost_model_step step = {
        .ns = took_ns,
        .prefill_rows = schedule->prefill_rows,
        .decode_rows = (uint32_t)(real->stats.decode_tokens_total - decoded_before),
        .cached_tokens = (uint32_t)(real->stats.cached_tokens_total - cached_before)};
    cost_model_note_step(&real->costs, &step);
    real->stats.busy_ns_total += (uint64_t)took_ns;
}

enum engine_status engine_step_run(struct engine_real *real, bool *worked, int64_t *wake_ns,
                                   char *err, size_t err_bytes) {
    struct schedule schedule;
    *worked = engine_step_intake(real);
    int64_t now_ns = clock_monotonic_ns(real->base.clock);
    uint64_t cached_before = real->stats.cached_tokens_total;
    uint64_t decoded_before = real->stats.decode_tokens_total;
    *worked |= engine_step_expire(real, now_ns);
    scheduler_next(&real->scheduler, now_ns, &schedule);
    *wake_ns = schedule.wake_ns;
    if (deadline_heap_first_ns(&real->deadlines) < *wake_ns) {
        *wake_ns = deadline_heap_first_ns(&real->deadlines);
    }
    if (schedule.pick_count > 0) {
        *worked = true;
        engine_step_place(real, &schedule, now_ns);
        engine_step_count_batch(&real->stats, &schedule);
        if (!engine_step_build(real, &schedule, err, err_bytes) ||
            forward_start(real->forward, &real->batch, err, err_bytes) != FORWARD_OK ||
            engine_ahead_send(real, err, err_bytes) != FORWARD_OK ||
            forward_finish(real->forward, &real->batch, err, err_bytes) != FORWARD_OK) {
            return ENGINE_FAILED;
        }
        engine_step_retire(real, &schedule);
        engine_step_note_cost(real, &schedule, cached_before, decoded_before,
                              clock_monotonic_ns(real->base.clock) - now_ns);
    }
    if (*worked) {
        engine_step_publish(real);
    }
    return ENGINE_OK;
}
