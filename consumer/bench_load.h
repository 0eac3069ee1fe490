/* A load: jobs made beforehand, sent when they are due, and their results as a consumer that knows
 * nothing of the worker sees them.
 *
 * Open loop: a thread of its own sends by the clock, whatever comes back, and a job's latency
 * counts from when it was due, so that a stall shows in full. One thread calls everything here.
 * Owns its Kafka connections and the jobs' texts. Refuses to know who works. */
#ifndef SOLFLEET_CONSUMER_BENCH_LOAD_H
#define SOLFLEET_CONSUMER_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer/bench_arrivals.h"
#include "schemas/result.h"

struct bench_load;
struct config;

struct bench_load_job {
    struct bench_arrival arrival;
    int64_t sent_ns;           /* after the start; when it was handed to the producer */
    int64_t answered_ns;       /* after the start; 0 = no result has come */
    enum result_status status; /* this and what follows: once bench_load_look has told */
    uint32_t prompt_tokens, completion_tokens; /* as the result says */
};

struct bench_load_options {
    double temperature; /* -1 = the default of jobs */
    int64_t timeout_ms; /* without any result, after the last job was due */
    /* Asked now and then; true ends the run early. */
    bool (*is_over)(void *context);
    void *context;
};

enum bench_load_status {
    BENCH_LOAD_OK = 0,
    BENCH_LOAD_TIMED_OUT, /* some jobs have no result */
    BENCH_LOAD_OVER,      /* is_over said so */
    BENCH_LOAD_UNREACHABLE,
    BENCH_LOAD_NO_MEMORY
};

/* Connects; results are read from now on. */
enum bench_load_status bench_load_open(const struct config *config, struct bench_load **out,
                                       char *err, size_t err_bytes);

/* Sends the jobs of jobs[i].arrival and waits for their results. `seed` makes the prompts. May be
 * called again. *start_ns: the moment that all times count from. */
enum bench_load_status bench_load_run(struct bench_load *load,
                                      const struct bench_load_options *options, uint64_t seed,
                                      struct bench_load_job *jobs, size_t count, int64_t *start_ns,
                                      char *err, size_t err_bytes);

/* After a run, whose jobs are still there: says in each job what its result says, and counts the
 * results of jobs that had one: those so far, and those that come until none has for quiet_ms.
 * TIMED_OUT: a result cannot be read, and counts as missing. */
enum bench_load_status bench_load_look(struct bench_load *load, int quiet_ms, size_t *extra_results,
                                       char *err, size_t err_bytes);

void bench_load_close(struct bench_load *load); /* accepts NULL */

#endif
