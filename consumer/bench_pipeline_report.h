/* The report of a pipeline run: figures out of what each job and the engine's counters say.
 *
 * Pure but for printing. One thread; borrows all it is given. */
#ifndef SOLFLEET_CONSUMER_BENCH_PIPELINE_REPORT_H
#define SOLFLEET_CONSUMER_BENCH_PIPELINE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/bench_load.h"
#include "consumer/bench_threads.h"
#include "engine/engine.h"

struct config;

struct bench_pipeline_run {
    const struct config *config;
    const struct bench_load_job *jobs;
    size_t count;
    int64_t slo_ms;
    struct engine_stats before, after; /* the load */
    int64_t settled_ns;                /* after the start: all settled and committed; 0 = unknown */
    size_t extra_results;              /* of jobs that had one */
    uint64_t claims_unanswered;        /* jobs that went on without Redis */
    struct bench_threads threads_before, threads_after;
};

struct bench_pipeline_report {
    size_t done, failed, missing; /* failed: with a result that is no answer */
    double seconds;               /* from the first job due to the last result */
    double jobs_per_s, tokens_per_s;
    double settled_per_s;                           /* until all are settled and committed, too */
    double worker_us, engine_us, kafka_us, load_us; /* processor time a job, by threads */
    double engine_share;                            /* of that time, inside steps with rows */
    double within_slo_share; /* of all jobs: done, and within the limit from when it was due */
    double p50_ms, p99_ms;   /* of the jobs that were answered, from when each was due */
    double send_late_ms_p99;
    double prompt_tokens_mean, completion_tokens_mean; /* of jobs done */
    uint64_t batches;
    double batch_size_mean, batches_shared_share; /* shared: of more than one job */
    uint64_t cuts_delayed;
    double cut_late_ms_p99; /* upper end of the class; 0 when nothing was cut for delay */
};

/* False when memory ran out. */
bool bench_pipeline_report_make(const struct bench_pipeline_run *run,
                                struct bench_pipeline_report *report);

/* The upper end, in ms, of the class that the percentile lies in; infinity for the last; 0 when all
 * counts are. */
double bench_pipeline_report_late_ms(const uint64_t counts[ENGINE_LATE_CLASSES], double percent);

/* Prints to stdout: a JSON object on one line, or a table. */
void bench_pipeline_report_print(const struct bench_pipeline_run *run, bool json);

#endif
