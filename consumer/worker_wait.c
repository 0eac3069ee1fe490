#include "consumer/worker_wait.h"

#include <poll.h>

#include "consumer/status_control.h"
#include "consumer/worker_intake.h"
#include "consumer/worker_repair.h"
#include "consumer/worker_state.h"

enum watched {
    WATCH_SOURCE,
    WATCH_SINK,
    WATCH_STORE,
    WATCH_CONTROL,
    WATCH_ENGINE,
    WATCH_WAKE,
    WATCH_COUNT
};

static int64_t worker_wait_sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int worker_wait_time_ms(const struct worker *worker, int max_wait_ms) {
    if (worker->has_more) {
        return 0;
    }
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    int64_t due_ns = now_ns + max_wait_ms * CLOCK_NS_PER_MS;
    due_ns = worker_wait_sooner(due_ns, status_store_deadline_ns(worker->store));
    due_ns = worker_wait_sooner(due_ns, kafka_source_deadline_ns(worker->source));
    due_ns = worker_wait_sooner(due_ns, backpressure_deadline_ns(&worker->backpressure));
    due_ns = worker_wait_sooner(due_ns, deadline_heap_first_ns(&worker->due));
    due_ns = worker_wait_sooner(due_ns, deadline_heap_first_ns(&worker->deadlines));
    due_ns = worker_wait_sooner(due_ns, status_control_deadline_ns(worker->control));
    due_ns = worker_wait_sooner(due_ns, worker->renew_ns);
    due_ns = worker_wait_sooner(due_ns, worker_repair_due_ns(worker));
    if (worker->is_draining && !worker->is_giving_back) {
        due_ns = worker_wait_sooner(due_ns, worker->drain_end_ns);
    }
    if (worker->send_again_ns != 0) {
        due_ns = worker_wait_sooner(due_ns, worker->send_again_ns);
    }
    if (due_ns <= now_ns) {
        return 0;
    }
    return (int)((due_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

void worker_wait_step(struct worker *worker, int max_wait_ms) {
    struct pollfd watched[WATCH_COUNT] = {
        [WATCH_SOURCE] = {.fd = worker_intake_holds(worker) ? -1 : kafka_source_fd(worker->source),
                          .events = POLLIN},
        [WATCH_SINK] = {.fd = kafka_sink_fd(worker->sink), .events = POLLIN},
        [WATCH_STORE] = status_store_pollfd(worker->store),
        [WATCH_CONTROL] = status_control_pollfd(worker->control),
        /* A dead engine's stays readable, and so does a wish to end. */
        [WATCH_ENGINE] = {.fd = worker->engine_is_gone ? -1 : engine_event_fd(worker->engine),
                          .events = POLLIN},
        [WATCH_WAKE] = {.fd = worker->is_draining ? -1 : worker->options.wake_fd,
                        .events = POLLIN}};
    poll(watched, WATCH_COUNT, worker_wait_time_ms(worker, max_wait_ms));
    status_store_handle(worker->store, watched[WATCH_STORE].revents);
    status_control_handle(worker->control, watched[WATCH_CONTROL].revents);
}
