/* The engine without a model: each job is answered by a fixed text, a fixed time after it was
 * admitted. Work waits in a list in the order of admission, which is the order of its ends. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/crash_point.h"
#include "engine/deadline_heap.h"
#include "engine/engine.h"
#include "engine/engine_methods.h"
#include "engine/prompt.h"
#include "engine/ticket_index.h"

#define ENGINE_NULL_QUEUE_DEFAULT 1024
#define ENGINE_NULL_TOKENS_DEFAULT 128
#define ENGINE_NULL_BYTES_DEFAULT 512

#define ENGINE_NULL_NONE UINT32_MAX

struct engine_null_work {
    uint64_t ticket;
    int64_t admitted_ns, deadline_ns;
    uint32_t previous, next; /* in the list, by place */
    uint32_t prompt_tokens;
    bool is_marked; /* for crash points, in builds that have them */
    char *text;     /* owned: made beforehand, so that an end cannot fail */
};

struct engine_null {
    struct engine base;
    struct engine_null_options options;
    char *answer; /* [answer_bytes + 1] */
    char answer_sha256[SHA256_HEX_BYTES];
    char empty_sha256[FINISH_ERROR + 1][SHA256_HEX_BYTES]; /* no tokens, no text, by reason */
    struct engine_null_work **places;                      /* [tickets_max] */
    uint32_t *free_places;                                 /* [tickets_max] */
    uint32_t first, last, waiting_count;
    struct ticket_index tickets;    /* to places */
    struct deadline_heap deadlines; /* of places */
    uint64_t finished_count;
    struct engine_stats stats;
};

static struct engine_null *engine_null_of(struct engine *engine) {
    return (struct engine_null *)engine;
}

/* ---------------------------------------------------------------- worker thread */

static size_t engine_null_prompt_bytes(const struct job *job) {
    size_t bytes = 0;
    switch (job->kind) {
    case JOB_PROBLEM: return strlen(job->problem.statement);
    case JOB_PROMPT: return strlen(job->prompt);
    case JOB_MESSAGES:
        for (uint32_t i = 0; i < job->message_count; i++) {
            bytes += strlen(job->messages[i].content);
        }
        return bytes;
    }
    return bytes;
}

static enum engine_status engine_null_admit(struct engine *engine, uint64_t ticket, struct job *job,
                                            int64_t admitted_ns, void **work,
                                            struct job_error *rejected) {
    size_t bytes = engine_null_prompt_bytes(job);
    size_t bytes_max = engine_null_of(engine)->options.prompt_bytes_max;
    if (bytes == 0) {
        error_set(rejected, ERROR_EMPTY_PROMPT, NULL, "the prompt has no tokens");
        return ENGINE_REJECTED;
    }
    if (bytes_max > 0 && bytes > bytes_max) {
        error_set(rejected, ERROR_PROMPT_TOO_LONG, NULL,
                  "the prompt has %zu bytes, %zu are allowed", bytes, bytes_max);
        return ENGINE_REJECTED;
    }
    struct engine_null_work *made = malloc(sizeof *made);
    char *text = strdup(engine_null_of(engine)->answer);
    if (made == NULL || text == NULL) {
        free(made);
        free(text);
        return ENGINE_BUSY;
    }
    *made = (struct engine_null_work){.ticket = ticket,
                                      .admitted_ns = admitted_ns,
                                      .deadline_ns = job->deadline_ns,
                                      .prompt_tokens = (uint32_t)(bytes / 4 + 1),
                                      .is_marked = crash_point_marks(job),
                                      .text = text};
    job_deinit(job);
    *work = made;
    return ENGINE_OK;
}

static void engine_null_free_work(struct engine_null_work *work) {
    free(work->text);
    free(work);
}

static void engine_null_drop(struct engine *engine, void *work) {
    (void)engine;
    engine_null_free_work(work);
}

/* ---------------------------------------------------------------- engine thread */

/* Puts work at the end of the list. */
static void engine_null_link(struct engine_null *null, struct engine_null_work *work) {
    assert(null->waiting_count < null->base.tickets_max);
    uint32_t place = null->free_places[null->base.tickets_max - ++null->waiting_count];
    null->places[place] = work;
    work->previous = null->last;
    work->next = ENGINE_NULL_NONE;
    if (null->last == ENGINE_NULL_NONE) {
        null->first = place;
    } else {
        null->places[null->last]->next = place;
    }
    null->last = place;
    ticket_index_add(&null->tickets, work->ticket, place);
    if (work->deadline_ns != 0) {
        deadline_heap_set(&null->deadlines, place, work->deadline_ns);
    }
}

static void engine_null_remove(struct engine_null *null, uint32_t place) {
    struct engine_null_work *work = null->places[place];
    if (work->previous == ENGINE_NULL_NONE) {
        null->first = work->next;
    } else {
        null->places[work->previous]->next = work->next;
    }
    if (work->next == ENGINE_NULL_NONE) {
        null->last = work->previous;
    } else {
        null->places[work->next]->previous = work->previous;
    }
    ticket_index_remove(&null->tickets, work->ticket);
    deadline_heap_remove(&null->deadlines, place);
    engine_null_free_work(work);
    null->places[place] = NULL;
    null->free_places[null->base.tickets_max - null->waiting_count--] = place;
}

static void engine_null_begin(struct engine_null *null, struct engine_null_work *work) {
    engine_null_link(null, work);
    struct engine_event started = {.ticket = work->ticket,
                                   .kind = ENGINE_EVENT_STARTED,
                                   .usage.prompt_tokens = work->prompt_tokens,
                                   .admitted_ns = work->admitted_ns,
                                   .started_ns = clock_monotonic_ns(null->base.clock)};
    engine_emit(&null->base, &started);
    crash_point_of("batched", work->is_marked);
    null->stats.requests_total++;
}

/* Ends a ticket; an end without an answer has an empty text. */
static void engine_null_end(struct engine_null *null, struct engine_null_work *work,
                            enum finish_reason reason) {
    bool has_answer = reason == FINISH_STOP;
    struct engine_event event = {.ticket = work->ticket,
                                 .kind = ENGINE_EVENT_FINISHED,
                                 .finish_reason = reason,
                                 .prompt_version = PROMPT_VERSION_NONE,
                                 .usage.prompt_tokens = work->prompt_tokens,
                                 .text = work->text,
                                 .admitted_ns = work->admitted_ns,
                                 .started_ns = work->admitted_ns};
    work->text = NULL;
    event.text[has_answer ? null->options.answer_bytes : 0] = '\0';
    event.finished_ns = clock_monotonic_ns(null->base.clock);
    if (has_answer) {
        event.usage.completion_tokens = null->options.completion_tokens;
        event.first_token_ns = event.finished_ns;
        null->stats.decode_tokens_total += null->options.completion_tokens;
    }
    if (reason == FINISH_ERROR) {
        bool is_engine = null->finished_count < null->options.break_first;
        error_set(&event.error, is_engine ? ERROR_ENGINE_FAILED : ERROR_NUMERIC, NULL,
                  "a fault asked for by %s", is_engine ? "break_first" : "error_every");
    }
    engine_explain_end(&event, &null->stats);
    memcpy(event.answer_sha256, has_answer ? null->answer_sha256 : null->empty_sha256[reason],
           SHA256_HEX_BYTES);
    engine_emit(&null->base, &event);
    null->finished_count++;
}

static void engine_null_cancel(struct engine_null *null, const struct engine_command *command) {
    uint32_t place = ticket_index_find(&null->tickets, command->ticket);
    if (place != TICKET_INDEX_NONE) {
        engine_null_end(null, null->places[place], command->reason);
        engine_null_remove(null, place);
    }
}

static void engine_null_take_commands(struct engine_null *null, bool *worked) {
    struct engine_command command;
    while (engine_next_command(&null->base, &command)) {
        *worked = true;
        switch (command.kind) {
        case ENGINE_COMMAND_SUBMIT: engine_null_begin(null, command.work); break;
        case ENGINE_COMMAND_CANCEL: engine_null_cancel(null, &command); break;
        case ENGINE_COMMAND_DRAIN: break; /* nothing ever waits for a batch here */
        }
    }
}

static void engine_null_count_batch(struct engine_null *null, uint32_t size) {
    struct engine_stats *stats = &null->stats;
    stats->batches_total++;
    stats->batch_sizes_total += size;
    stats->batches_single += size == 1;
    stats->batch_size_max = size > stats->batch_size_max ? size : stats->batch_size_max;
    stats->cuts[ENGINE_CUT_DELAY]++;
}

/* Ends what is due; gives the time of the next end. */
static int64_t engine_null_finish_due(struct engine_null *null, bool *worked) {
    int64_t now_ns = clock_monotonic_ns(null->base.clock);
    int64_t wake_ns = ENGINE_WAKE_NEVER;
    uint32_t ended = 0, place;
    while (deadline_heap_take(&null->deadlines, now_ns, &place)) {
        engine_null_end(null, null->places[place], FINISH_DEADLINE);
        engine_null_remove(null, place);
        *worked = true;
    }
    while (null->waiting_count > 0 && wake_ns == ENGINE_WAKE_NEVER) {
        struct engine_null_work *work = null->places[null->first];
        int64_t due_ns = work->admitted_ns + null->options.delay_us * CLOCK_NS_PER_US;
        if (due_ns > now_ns) {
            wake_ns = due_ns;
            continue;
        }
        crash_point_of("in_decode", work->is_marked);
        uint64_t number = null->finished_count + 1;
        bool fails = number <= null->options.break_first ||
                     (null->options.error_every > 0 && number % null->options.error_every == 0);
        engine_null_end(null, work, fails ? FINISH_ERROR : FINISH_STOP);
        engine_null_remove(null, null->first);
        ended++;
    }
    if (deadline_heap_first_ns(&null->deadlines) < wake_ns) {
        wake_ns = deadline_heap_first_ns(&null->deadlines);
    }
    if (ended > 0) {
        engine_null_count_batch(null, ended);
        *worked = true;
    }
    return wake_ns;
}

static enum engine_status engine_null_step(struct engine *engine, bool *worked, int64_t *wake_ns,
                                           char *err, size_t err_bytes) {
    struct engine_null *null = engine_null_of(engine);
    engine_null_take_commands(null, worked);
    *wake_ns = engine_null_finish_due(null, worked);
    if (*worked) {
        null->stats.steps_total++;
        null->stats.running_count = null->waiting_count;
        engine_publish_stats(engine, &null->stats);
    }
    if (null->options.fail_after > 0 && null->finished_count >= null->options.fail_after) {
        snprintf(err, err_bytes, "a fault asked for by fail_after");
        return ENGINE_FAILED;
    }
    return ENGINE_OK;
}

/* ---------------------------------------------------------------- open and close */

static void engine_null_info(const struct engine *engine, struct engine_info *out) {
    out->model_name = "null";
    out->model_sha256 = "";
    out->policy = "none";
    out->numerics = "none";
    out->device_name = "none";
    out->tier = "none";
    out->max_model_len = UINT32_MAX;
    out->max_queue_size = engine->tickets_max;
}

static void engine_null_close(struct engine *engine) {
    struct engine_null *null = engine_null_of(engine);
    engine_base_deinit(engine);
    while (null->waiting_count > 0) {
        engine_null_remove(null, null->first);
    }
    free(null->places);
    free(null->free_places);
    ticket_index_deinit(&null->tickets);
    deadline_heap_deinit(&null->deadlines);
    free(null->answer);
    free(null);
}

static const struct engine_methods engine_null_methods = {.admit = engine_null_admit,
                                                          .drop = engine_null_drop,
                                                          .step = engine_null_step,
                                                          .info = engine_null_info,
                                                          .close = engine_null_close};

static bool engine_null_make_answer(struct engine_null *null) {
    static const char pattern[] = "The answer of an engine without a model.\n";
    uint32_t bytes = null->options.answer_bytes;
    int32_t *tokens = calloc(null->options.completion_tokens, sizeof *tokens);
    null->answer = malloc((size_t)bytes + 1);
    if (tokens == NULL || null->answer == NULL) {
        free(tokens);
        return false;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        null->answer[i] = pattern[i % (sizeof pattern - 1)];
    }
    null->answer[bytes] = '\0';
    bool hashed = result_answer_sha256(tokens, null->options.completion_tokens, null->answer,
                                       FINISH_STOP, null->answer_sha256);
    for (int reason = 0; hashed && reason <= FINISH_ERROR; reason++) {
        hashed = result_answer_sha256(tokens, 0, "", (enum finish_reason)reason,
                                      null->empty_sha256[reason]);
    }
    free(tokens);
    return hashed;
}

static bool engine_null_init_tables(struct engine_null *null) {
    uint32_t count = null->base.tickets_max;
    null->first = null->last = ENGINE_NULL_NONE;
    null->places = calloc(count, sizeof(struct engine_null_work *));
    null->free_places = calloc(count, sizeof *null->free_places);
    for (uint32_t i = 0; i < count && null->free_places != NULL; i++) {
        null->free_places[i] = i;
    }
    return null->places != NULL && null->free_places != NULL &&
           ticket_index_init(&null->tickets, count) && deadline_heap_init(&null->deadlines, count);
}

static uint32_t engine_null_or(uint32_t value, uint32_t otherwise) {
    return value != 0 ? value : otherwise;
}

enum engine_status engine_null_open(const struct engine_null_options *options, struct engine **out,
                                    char *err, size_t err_bytes) {
    struct engine_null *null = calloc(1, sizeof *null);
    if (null == NULL) {
        snprintf(err, err_bytes, "no memory for an engine");
        return ENGINE_FAILED;
    }
    null->options = *options;
    null->options.max_queue_size =
        engine_null_or(options->max_queue_size, ENGINE_NULL_QUEUE_DEFAULT);
    null->options.completion_tokens =
        engine_null_or(options->completion_tokens, ENGINE_NULL_TOKENS_DEFAULT);
    null->options.answer_bytes = engine_null_or(options->answer_bytes, ENGINE_NULL_BYTES_DEFAULT);
    enum engine_status status =
        engine_base_init(&null->base, &engine_null_methods, null->options.max_queue_size,
                         options->clock, options->log, err, err_bytes);
    if (status != ENGINE_OK) {
        free(null);
        return status;
    }
    if (!engine_null_init_tables(null) || !engine_null_make_answer(null)) {
        snprintf(err, err_bytes, "no memory for an engine of %u tickets",
                 null->options.max_queue_size);
        engine_null_close(&null->base);
        return ENGINE_FAILED;
    }
    *out = &null->base;
    return ENGINE_OK;
}
