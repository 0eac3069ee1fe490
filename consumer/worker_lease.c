#include "consumer/worker_lease.h"

#include "consumer/worker_cancel.h"
#include "consumer/worker_life.h"
#include "consumer/worker_state.h"

#define RENEWALS_PER_LEASE 3

int64_t worker_lease_ms(const struct config *config) {
    return kafka_source_session_ms(config);
}

void worker_lease_step(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    if (now_ns < worker->renew_ns) {
        return;
    }
    worker->renew_ns = now_ns + worker->lease_ns / RENEWALS_PER_LEASE;
    struct inflight_job *job = NULL;
    while ((job = inflight_next(&worker->inflight, job)) != NULL) {
        if (job->is_claimed && job_life_needs_lease(&job->life)) {
            status_store_renew(worker->store, job->ticket, job->request_id, job->attempt);
        }
    }
}

void worker_lease_answered(struct worker *worker, const struct status_store_answer *answer) {
    struct inflight_job *job = inflight_find(&worker->inflight, answer->ticket);
    if (job == NULL || !job->is_claimed) {
        return; /* it has ended, or is claimed anew, meanwhile */
    }
    if (answer->lost) {
        worker->stats.leases_lost++;
        log_write(worker->options.log, LOG_LEVEL_WARN, "lease.lost",
                  LOG_FIELDS(log_text("request_id", job->request_id)));
        worker_life(worker, job, JOB_LIFE_LOSE);
    } else if (answer->cancel_requested) {
        worker_cancel(worker, job);
    }
}
