#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/engine_methods.h"
#include "engine/engine_real.h"
#include "engine/log.h"

/* ---------------------------------------------------------------- the base */

enum engine_status engine_base_init(struct engine *engine, const struct engine_methods *methods,
                                    uint32_t tickets_max, struct clock *clock, struct log *log,
                                    char *err, size_t err_bytes) {
    assert(tickets_max > 0);
    engine->methods = methods;
    engine->clock = clock;
    engine->log = log;
    engine->tickets_max = tickets_max;
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int lock_status = pthread_mutex_init(&engine->stats_lock, NULL);
    assert(lock_status == 0);
    size_t commands = (size_t)tickets_max * ENGINE_COMMANDS_PER_TICKET + ENGINE_COMMANDS_SPARE;
    size_t events = (size_t)tickets_max * ENGINE_EVENTS_PER_TICKET;
    if (engine->wake_fd < 0 || engine->event_fd < 0 ||
        !ring_init(&engine->commands, commands, sizeof(struct engine_command)) ||
        !ring_init(&engine->events, events, sizeof(struct engine_event))) {
        snprintf(err, err_bytes, "no memory or descriptors for an engine of %u tickets: %s",
                 tickets_max, strerror(errno));
        engine_base_deinit(engine);
        return ENGINE_FAILED;
    }
    return ENGINE_OK;
}

void engine_base_deinit(struct engine *engine) {
    struct engine_command command;
    struct engine_event event;
    while (engine->commands.items != NULL && ring_pop(&engine->commands, &command)) {
        if (command.kind == ENGINE_COMMAND_SUBMIT) {
            engine->methods->drop(engine, command.work);
        }
    }
    while (engine->events.items != NULL && ring_pop(&engine->events, &event)) {
        engine_event_deinit(&event);
    }
    ring_deinit(&engine->commands);
    ring_deinit(&engine->events);
    if (engine->wake_fd >= 0) {
        close(engine->wake_fd);
    }
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    pthread_mutex_destroy(&engine->stats_lock);
}

static void engine_signal(int fd) {
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    assert(written == (ssize_t)sizeof one || errno == EAGAIN); /* EAGAIN: it is readable anyway */
}

static void engine_unsignal(int fd) {
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    assert(got == (ssize_t)sizeof count || errno == EAGAIN);
}

bool engine_next_command(struct engine *engine, struct engine_command *command) {
    return ring_pop(&engine->commands, command);
}

uint64_t engine_emit(struct engine *engine, struct engine_event *event) {
    uint64_t number = ring_pushed_count(&engine->events);
    bool pushed = ring_push(&engine->events, event);
    assert(pushed); /* slots are reserved per ticket */
    engine->has_emitted = true;
    memset(event, 0, sizeof *event);
    return number;
}

void engine_explain_end(struct engine_event *event, struct engine_stats *stats) {
    bool has_begun = event->started_ns != 0;
    if (event->finish_reason == FINISH_DEADLINE && event->error.code == ERROR_NONE) {
        error_set(&event->error, ERROR_EXPIRED, NULL, "the deadline passed %s",
                  has_begun ? "while the answer was computed" : "before it was begun");
    }
    if (event->finish_reason == FINISH_CANCELLED) {
        error_set(&event->error, ERROR_CANCELLED, NULL, "cancelled %s",
                  has_begun ? "while the answer was computed" : "before it was begun");
    }
    bool is_infeasible = event->error.code == ERROR_INFEASIBLE;
    stats->failed_total += event->finish_reason == FINISH_ERROR;
    stats->expired_total += event->finish_reason == FINISH_DEADLINE && !is_infeasible;
    stats->infeasible_total += is_infeasible;
    stats->cancelled_total += event->finish_reason == FINISH_CANCELLED;
}

void engine_flush_events(struct engine *engine) {
    if (engine->has_emitted) {
        engine_signal(engine->event_fd);
    }
    engine->has_emitted = false;
}

void engine_publish_stats(struct engine *engine, const struct engine_stats *stats) {
    pthread_mutex_lock(&engine->stats_lock);
    engine->stats = *stats;
    pthread_mutex_unlock(&engine->stats_lock);
}

/* ---------------------------------------------------------------- the engine thread */

/* Both sides exchange is_sleeping, so their exchanges have an order: either the submitter sees that
 * the thread sleeps and wakes it, or the thread sees the command pushed before. */
static void engine_sleep(struct engine *engine, int64_t wake_ns) {
    atomic_exchange(&engine->is_sleeping, true);
    if (ring_is_empty(&engine->commands) && !atomic_load(&engine->is_stopping)) {
        struct pollfd wake = {.fd = engine->wake_fd, .events = POLLIN};
        struct timespec timeout;
        int64_t left_ns = wake_ns - clock_monotonic_ns(engine->clock);
        left_ns = left_ns > 0 ? left_ns : 0;
        timeout.tv_sec = left_ns / CLOCK_NS_PER_S;
        timeout.tv_nsec = left_ns % CLOCK_NS_PER_S;
        ppoll(&wake, 1, wake_ns == ENGINE_WAKE_NEVER ? NULL : &timeout, NULL);
    }
    atomic_exchange(&engine->is_sleeping, false);
    engine_unsignal(engine->wake_fd);
}

static void engine_wake(struct engine *engine) {
    if (atomic_exchange(&engine->is_sleeping, false)) {
        engine_signal(engine->wake_fd);
    }
}

static void engine_fail(struct engine *engine, const char *err) {
    snprintf(engine->failure_text, sizeof engine->failure_text, "%s", err);
    log_write(engine->log, LOG_LEVEL_ERROR, "engine.failed", LOG_FIELDS(log_text("error", err)));
    atomic_store(&engine->has_failed, true);
    engine_signal(engine->event_fd);
}

/* One step on whichever thread is the engine's. */
static enum engine_status engine_advance(struct engine *engine, bool *worked, int64_t *wake_ns,
                                         char *err, size_t err_bytes) {
    enum engine_status status = engine->methods->step(engine, worked, wake_ns, err, err_bytes);
    if (status != ENGINE_OK) {
        engine_fail(engine, err);
    }
    engine_flush_events(engine);
    return status;
}

static void *engine_run(void *argument) {
    struct engine *engine = argument;
    char err[ENGINE_ERR_BYTES] = "";
    if (engine->methods->enter_thread != NULL) {
        engine->methods->enter_thread(engine);
    }
    while (!atomic_load(&engine->is_stopping)) {
        bool worked = false;
        int64_t wake_ns = ENGINE_WAKE_NEVER;
        if (engine_advance(engine, &worked, &wake_ns, err, sizeof err) != ENGINE_OK) {
            break;
        }
        if (!worked) {
            engine_sleep(engine, wake_ns);
        }
    }
    return NULL;
}

enum engine_status engine_start(struct engine *engine, char *err, size_t err_bytes) {
    assert(!engine->is_started && !engine->has_entered);
    int status = pthread_create(&engine->thread, NULL, engine_run, engine);
    if (status != 0) {
        snprintf(err, err_bytes, "cannot start the engine's thread: %s", strerror(status));
        return ENGINE_FAILED;
    }
    pthread_setname_np(engine->thread, "engine");
    engine->is_started = true;
    return ENGINE_OK;
}

enum engine_status engine_step(struct engine *engine, bool *worked, char *err, size_t err_bytes) {
    assert(!engine->is_started);
    if (!engine->has_entered && engine->methods->enter_thread != NULL) {
        engine->methods->enter_thread(engine);
    }
    engine->has_entered = true;
    int64_t wake_ns;
    *worked = false;
    return engine_advance(engine, worked, &wake_ns, err, err_bytes);
}

/* ---------------------------------------------------------------- the worker thread */

enum engine_status engine_open(const struct engine_options *options, struct engine **out, char *err,
                               size_t err_bytes) {
    return engine_real_open(options, out, err, err_bytes);
}

enum engine_status engine_submit(struct engine *engine, uint64_t ticket, struct job *job,
                                 struct job_error *rejected) {
    if (atomic_load(&engine->has_failed)) {
        return ENGINE_FAILED;
    }
    if (engine->tickets_count == engine->tickets_max || !ring_has_room(&engine->commands)) {
        return ENGINE_BUSY;
    }
    struct engine_command command = {.kind = ENGINE_COMMAND_SUBMIT, .ticket = ticket};
    int64_t admitted_ns = clock_monotonic_ns(engine->clock);
    enum engine_status status =
        engine->methods->admit(engine, ticket, job, admitted_ns, &command.work, rejected);
    if (status != ENGINE_OK) {
        return status;
    }
    bool pushed = ring_push(&engine->commands, &command);
    assert(pushed); /* there was room, and only this thread pushes */
    engine->tickets_count++;
    engine_wake(engine);
    return ENGINE_OK;
}

static bool engine_command(struct engine *engine, const struct engine_command *command) {
    bool pushed = ring_push(&engine->commands, command);
    engine_wake(engine);
    return pushed;
}

bool engine_cancel(struct engine *engine, uint64_t ticket, enum finish_reason reason) {
    assert(reason == FINISH_CANCELLED || reason == FINISH_DEADLINE);
    struct engine_command command = {
        .kind = ENGINE_COMMAND_CANCEL, .ticket = ticket, .reason = reason};
    return engine_command(engine, &command);
}

bool engine_drain(struct engine *engine) {
    struct engine_command command = {.kind = ENGINE_COMMAND_DRAIN};
    return engine_command(engine, &command);
}

size_t engine_take_events(struct engine *engine, struct engine_event *events, size_t max) {
    engine_unsignal(engine->event_fd);
    size_t count = 0;
    while (count < max && ring_pop(&engine->events, &events[count])) {
        engine->tickets_count -= events[count].kind == ENGINE_EVENT_FINISHED;
        count++;
    }
    if (!ring_is_empty(&engine->events) || atomic_load(&engine->has_failed)) {
        engine_signal(engine->event_fd);
    }
    return count;
}

int engine_event_fd(const struct engine *engine) {
    return engine->event_fd;
}

bool engine_has_failed(const struct engine *engine, char *err, size_t err_bytes) {
    bool failed = atomic_load(&engine->has_failed);
    if (failed && err != NULL) {
        snprintf(err, err_bytes, "%s", engine->failure_text);
    }
    return failed;
}

void engine_stats(const struct engine *engine, struct engine_stats *out) {
    /* The lock is no part of what a reader of statistics may not change. */
    pthread_mutex_t *lock = (pthread_mutex_t *)&engine->stats_lock;
    pthread_mutex_lock(lock);
    *out = engine->stats;
    pthread_mutex_unlock(lock);
}

void engine_info(const struct engine *engine, struct engine_info *out) {
    *out = (struct engine_info){0};
    engine->methods->info(engine, out);
}

void engine_close(struct engine *engine) {
    if (engine == NULL) {
        return;
    }
    if (engine->is_started) {
        atomic_store(&engine->is_stopping, true);
        engine_wake(engine);
        pthread_join(engine->thread, NULL);
    }
    engine->methods->close(engine);
}

/* ---------------------------------------------------------------- values */

void engine_event_deinit(struct engine_event *event) {
    free(event->text);
    memset(event, 0, sizeof *event);
}

int64_t engine_late_class_ns(uint32_t index) {
    static const int32_t ends_us[ENGINE_LATE_CLASSES - 1] = {100,  200,   500,   1000,  2000,
                                                             5000, 10000, 20000, 50000, 100000};
    assert(index < ENGINE_LATE_CLASSES);
    return index < ENGINE_LATE_CLASSES - 1 ? ends_us[index] * CLOCK_NS_PER_US : INT64_MAX;
}

const char *engine_cut_name(enum engine_cut cut) {
    static const char *const names[ENGINE_CUT_COUNT] = {
        [ENGINE_CUT_SIZE] = "size",   [ENGINE_CUT_TOKENS] = "tokens",
        [ENGINE_CUT_DELAY] = "delay", [ENGINE_CUT_PRIORITY] = "priority",
        [ENGINE_CUT_DRAIN] = "drain", [ENGINE_CUT_JOIN] = "join",
    };
    assert((size_t)cut < ENGINE_CUT_COUNT);
    return names[cut];
}
