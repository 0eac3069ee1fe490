#include "consumer/worker_repair.h"

#include "consumer/repair.h"
#include "consumer/worker_state.h"

#define SLICE_MS 2 /* between two slices while there is much to read: jobs come first */

bool worker_repair_start(struct worker *worker, int timeout_ms, char *err, size_t err_bytes) {
    int64_t window_s = worker->config->repair_window_s;
    if (worker->repair != NULL || worker->is_repaired || window_s == 0) {
        return true;
    }
    struct repair_options options = {.config = worker->config,
                                     .clock = worker->options.clock,
                                     .log = worker->options.log,
                                     .worker = worker->options.name,
                                     .since_unix_ms =
                                         clock_unix_ms(worker->options.clock) - window_s * 1000,
                                     .timeout_ms = timeout_ms,
                                     .is_patient = true};
    enum kafka_client_status status = repair_open(&options, &worker->repair, err, err_bytes);
    if (status == KAFKA_CLIENT_UNREACHABLE) {
        return false;
    }
    if (status != KAFKA_CLIENT_OK) { /* perhaps it may not read its own results */
        worker->is_repaired = true;
        log_write(worker->options.log, LOG_LEVEL_WARN, "repair.impossible",
                  LOG_FIELDS(log_text("error", err)));
    }
    return true;
}

static void worker_repair_end(struct worker *worker, const char *how) {
    struct repair_stats stats;
    repair_stats(worker->repair, &stats);
    log_write(worker->options.log, LOG_LEVEL_INFO, "repair.end",
              LOG_FIELDS(log_text("how", how), log_int("read", (int64_t)stats.read),
                         log_int("applied", (int64_t)stats.applied),
                         log_int("already_there", (int64_t)stats.there),
                         log_int("unreadable", (int64_t)stats.unreadable)));
    repair_close(worker->repair);
    worker->repair = NULL;
    worker->is_repaired = true;
}

void worker_repair_step(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    char err[256];
    if (worker->repair == NULL || now_ns < worker->repair_ns) {
        return;
    }
    if (worker->is_draining) {
        worker_repair_end(worker, "the worker drains");
        return;
    }
    switch (repair_step(worker->repair, err, sizeof err)) {
    case KAFKA_CLIENT_END: worker_repair_end(worker, "all is read"); return;
    case KAFKA_CLIENT_NONE: break;
    default: worker_repair_end(worker, err); return;
    }
    int64_t wait_ms = repair_wait_ms(worker->repair);
    worker->repair_ns = now_ns + (wait_ms > SLICE_MS ? wait_ms : SLICE_MS) * CLOCK_NS_PER_MS;
}

int64_t worker_repair_due_ns(const struct worker *worker) {
    return worker->repair != NULL ? worker->repair_ns : INT64_MAX;
}
