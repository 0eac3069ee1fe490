#include "consumer/worker_cancel.h"

#include <string.h>

#include "consumer/status_control.h"
#include "consumer/worker_life.h"
#include "consumer/worker_state.h"

void worker_cancel(struct worker *worker, struct inflight_job *job) {
    if (job->called_off == FINISH_STOP) {
        job->called_off = FINISH_CANCELLED;
        worker_life(worker, job, JOB_LIFE_CALL_OFF);
    }
}

void worker_cancel_claimed(struct worker *worker, struct inflight_job *job) {
    if (job->called_off == FINISH_CANCELLED && job->life.state == JOB_LIFE_WAITING) {
        worker_life(worker, job, JOB_LIFE_CALL_OFF);
    }
}

/* Tickets that ask for an id are not found by it yet: few, and for a moment. */
static void worker_cancel_claiming(struct worker *worker, const char *request_id) {
    struct inflight_job *job = NULL;
    while ((job = inflight_next(&worker->inflight, job)) != NULL) {
        if (job->life.state == JOB_LIFE_CLAIMING && strcmp(job->request_id, request_id) == 0) {
            worker_cancel(worker, job);
        }
    }
}

void worker_cancel_step(struct worker *worker) {
    char request_id[JOB_ID_BYTES_MAX + 1];
    while (status_control_take_cancel(worker->control, request_id)) {
        struct inflight_job *job = inflight_holder(&worker->inflight, request_id);
        if (job != NULL) {
            worker_cancel(worker, job);
        } else {
            worker_cancel_claiming(worker, request_id);
        }
    }
}
