/* An engine's base: what every kind of engine shares, and the few methods in which kinds differ.
 *
 * DESIGN. engine.c owns the threads' meeting point: two single-producer single-consumer rings
 * (commands to the engine thread, events to the worker thread), an eventfd to wake each side, the
 * ticket count that reserves event slots, the failure flag and the published statistics. A kind
 * (engine_real.c, engine_null.c) turns a job into its own `work` on the worker thread and advances
 * all work by one step on the engine thread.
 *
 *     worker thread                               engine thread
 *     engine_submit -> methods.admit -> work --command ring--> methods.step
 *     engine_take_events               <------ event ring <--- engine_emit
 *
 * Slots: a ticket has at most one STARTED, one untaken PROGRESS and one FINISHED event, and at most
 * `tickets_max` tickets are not finished as the worker sees it, so an event ring of three times
 * that many can never be full. Private to engine/. */
#ifndef SOLFLEET_ENGINE_ENGINE_METHODS_H
#define SOLFLEET_ENGINE_ENGINE_METHODS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/ring.h"

#define ENGINE_EVENTS_PER_TICKET 3
#define ENGINE_COMMANDS_PER_TICKET 2 /* submit and cancel; further cancels find the ring full */
#define ENGINE_COMMANDS_SPARE 16
#define ENGINE_ERR_BYTES 512
#define ENGINE_WAKE_NEVER INT64_MAX

enum engine_command_kind { ENGINE_COMMAND_SUBMIT, ENGINE_COMMAND_CANCEL, ENGINE_COMMAND_DRAIN };

struct engine_command {
    enum engine_command_kind kind;
    uint64_t ticket;           /* SUBMIT, CANCEL */
    void *work;                /* SUBMIT: moves to the engine thread */
    enum finish_reason reason; /* CANCEL */
};

struct engine_methods {
    /* Worker thread. ENGINE_OK moves *job into *work; otherwise the job stays as it was. */
    enum engine_status (*admit)(struct engine *engine, uint64_t ticket, struct job *job,
                                int64_t admitted_ns, void **work, struct job_error *rejected);
    /* Frees work that no step has taken. */
    void (*drop)(struct engine *engine, void *work);
    /* Engine thread, once before its first step; may be NULL. */
    void (*enter_thread)(struct engine *engine);
    /* Engine thread: takes commands, does one step. *wake_ns: when to step again at the latest
     * though no command comes, ENGINE_WAKE_NEVER for not at all. */
    enum engine_status (*step)(struct engine *engine, bool *worked, int64_t *wake_ns, char *err,
                               size_t err_bytes);
    void (*info)(const struct engine *engine, struct engine_info *out);
    /* After the thread has ended: engine_base_deinit, then frees all of the kind's own. */
    void (*close)(struct engine *engine);
};

/* First member of every kind. */
struct engine {
    const struct engine_methods *methods;
    struct clock *clock; /* borrowed; NULL = the real one */
    struct log *log;     /* borrowed; NULL = silent */

    struct ring commands;
    struct ring events;
    int wake_fd;              /* the engine thread sleeps on it */
    int event_fd;             /* the worker thread sleeps on it */
    _Atomic bool is_sleeping; /* the engine thread has found nothing to do */
    _Atomic bool is_stopping;
    _Atomic bool has_failed; /* failure_text is written before */
    char failure_text[ENGINE_ERR_BYTES];

    pthread_t thread;
    bool is_started;
    bool has_entered; /* without a thread: enter_thread has been called */
    uint32_t tickets_max;
    uint32_t tickets_count; /* worker thread only */
    bool has_emitted;       /* engine thread only: events since event_fd was written */

    pthread_mutex_t stats_lock; /* held for a copy, never while computing */
    struct engine_stats stats;
};

/* Makes the base of a kind's zeroed memory. On failure nothing is left to free. */
enum engine_status engine_base_init(struct engine *engine, const struct engine_methods *methods,
                                    uint32_t tickets_max, struct clock *clock, struct log *log,
                                    char *err, size_t err_bytes)
    __attribute__((warn_unused_result));
/* Frees what engine_base_init made, with commands and events nobody took. */
void engine_base_deinit(struct engine *engine);

/* For methods.step, on the engine thread. */
bool engine_next_command(struct engine *engine, struct engine_command *command);
/* Moves *event to the worker; returns its number in the event ring (see ring_has_taken). */
uint64_t engine_emit(struct engine *engine, struct engine_event *event);
/* Says why a ticket ended early where nobody has said it yet, and counts how it ended. */
void engine_explain_end(struct engine_event *event, struct engine_stats *stats);
/* Wakes the worker if there are events that it has not been woken for: before a step computes, and
 * by itself after each step. */
void engine_flush_events(struct engine *engine);
void engine_publish_stats(struct engine *engine, const struct engine_stats *stats);

#endif
