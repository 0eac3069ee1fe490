#include "consumer/worker_deadline.h"

#include "consumer/worker_life.h"
#include "consumer/worker_state.h"

/* Clocks of two machines differ: a record from the future is one of now; from too far in the future
 * it is counted, so that somebody sets a clock. */
static int64_t worker_deadline_age_ms(struct worker *worker, const struct inflight_job *job) {
    int64_t now_unix_ms = clock_unix_ms(worker->options.clock);
    int64_t age_ms = now_unix_ms - job->timestamp_unix_ms;
    worker->stats.from_the_future += age_ms < -worker->config->max_clock_skew_ms;
    return age_ms > 0 ? age_ms : 0;
}

void worker_deadline_note(struct worker *worker, struct inflight_job *job) {
    int64_t age_ms = worker_deadline_age_ms(worker, job);
    int64_t timeout_ms = job->job.timeout_ms;
    job->deadline_ns = 0;
    if (timeout_ms == 0) {
        return;
    }
    /* The record may be older than the machine: what has passed is as good as 1. */
    int64_t left_ms = age_ms < timeout_ms ? timeout_ms - age_ms : 0;
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    job->deadline_ns = left_ms > 0 ? now_ns + left_ms * CLOCK_NS_PER_MS : 1;
    job->job.deadline_ns = job->deadline_ns;
}

void worker_deadline_follow(struct worker *worker, struct inflight_job *job) {
    uint32_t slot = inflight_slot(&worker->inflight, job);
    bool waits = job->life.state == JOB_LIFE_WAITING || job->life.state == JOB_LIFE_RESTING ||
                 job->life.state == JOB_LIFE_ADMITTED;
    if (waits && job->deadline_ns != 0) {
        deadline_heap_set(&worker->deadlines, slot, job->deadline_ns);
    } else {
        deadline_heap_remove(&worker->deadlines, slot);
    }
}

void worker_deadline_step(struct worker *worker) {
    int64_t now_ns = clock_monotonic_ns(worker->options.clock);
    uint32_t slot;
    while (deadline_heap_take(&worker->deadlines, now_ns, &slot)) {
        struct inflight_job *job = &worker->inflight.jobs[slot];
        job->called_off = FINISH_DEADLINE;
        worker_life(worker, job, JOB_LIFE_EXPIRE);
    }
}
