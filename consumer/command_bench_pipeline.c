#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_arrivals.h"
#include "consumer/bench_load.h"
#include "consumer/bench_pipeline_report.h"
#include "consumer/bench_services.h"
#include "consumer/bench_worker.h"
#include "consumer/command.h"
#include "consumer/command_bench.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/job_file.h"
#include "engine/clock.h"

#define COMMAND_BENCH_PIPELINE_WARM_NULL 1000
#define COMMAND_BENCH_PIPELINE_WARM_REAL 2
#define COMMAND_BENCH_PIPELINE_WARM_TOKENS 8
#define COMMAND_BENCH_PIPELINE_SETTLE_MS 10000
#define COMMAND_BENCH_PIPELINE_QUIET_MS 100

struct command_bench_pipeline_options {
    const char *brokers, *redis, *jobs_topic, *results_topic, *dead_letter_topic, *group, *prefix;
    const char *prompt_tokens, *trace;
    int64_t jobs, warm_jobs, completion_tokens, slo_ms, seed, partitions, timeout_ms, status_ttl_s;
    double rate, interval_ms, temperature;
};

#define AT(field) offsetof(struct command_bench_pipeline_options, field)
static const struct config_option command_bench_pipeline_table[] = {
    {"jobs", CONFIG_INT, "64", 1, BENCH_ARRIVALS_MAX, NULL, 0, AT(jobs), "jobs to send"},
    {"warm_jobs", CONFIG_INT, "0", 0, BENCH_ARRIVALS_MAX, NULL, 0, AT(warm_jobs),
     "jobs before those that count; 0: 1000, or 2 with a model"},
    {"prompt_tokens", CONFIG_TEXT, "128", 0, 0, NULL, 0, AT(prompt_tokens),
     "tokens of a prompt, or a range as 32..2048: then evenly over the logarithm"},
    {"completion_tokens", CONFIG_INT, "128", 1, JOB_MAX_TOKENS_MAX, NULL, 0, AT(completion_tokens),
     "most tokens of an answer; a model may end it sooner"},
    {"temperature", CONFIG_REAL, "0", 0, 2, NULL, 0, AT(temperature), "of the jobs"},
    {"rate", CONFIG_REAL, "0", 0, 1e6, NULL, 0, AT(rate),
     "send so many jobs a second, at random moments (Poisson); 0: all at once"},
    {"interval_ms", CONFIG_REAL, "0", 0, 1e6, NULL, 0, AT(interval_ms),
     "send a job every so often"},
    {"trace", CONFIG_TEXT, "", 0, 0, NULL, 0, AT(trace),
     "file with the jobs to send, a line each: offset in ms, prompt tokens, max tokens"},
    {"slo_ms", CONFIG_INT, "2000", 1, 1e9, NULL, 0, AT(slo_ms), "latency that is good enough"},
    {"seed", CONFIG_INT, "1", 0, 1e15, NULL, 0, AT(seed), "of moments, lengths and prompts"},
    {"timeout_ms", CONFIG_INT, "120000", 1, 1e9, NULL, 0, AT(timeout_ms),
     "give up when no result has come for so long"},
    {"brokers", CONFIG_LIST, NULL, 0, 0, NULL, 0, AT(brokers),
     "Kafka to go through; without it a broker is started in this process"},
    {"redis", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(redis),
     "Redis to use; without it a redis-server is started"},
    {"jobs_topic", CONFIG_TEXT, "solfleet.bench.jobs", 0, 0, NULL, 0, AT(jobs_topic),
     "topic that jobs go through"},
    {"results_topic", CONFIG_TEXT, "solfleet.bench.results", 0, 0, NULL, 0, AT(results_topic),
     "topic that results come through"},
    {"dead_letter_topic", CONFIG_TEXT, "solfleet.bench.dead-letter", 0, 0, NULL, 0,
     AT(dead_letter_topic), "topic for records that are no jobs"},
    {"partitions", CONFIG_INT, "12", 1, 1024, NULL, 0, AT(partitions), "of topics that are made"},
    {"group", CONFIG_TEXT, "solfleet-bench", 0, 0, NULL, 0, AT(group), "consumer group"},
    {"key_prefix", CONFIG_TEXT, "solfleet:bench:", 0, 0, NULL, 0, AT(prefix),
     "prefix of every key and channel in Redis"},
    {"status_ttl_s", CONFIG_INT, "3600", 1, 31536000, NULL, 0, AT(status_ttl_s),
     "life of a status"},
};
#undef AT

static const char command_bench_pipeline_help[] =
    "Measures the whole way of a job: produced to Kafka, worked on by a worker in this process,\n"
    "its status in Redis, its result read by a consumer of its own. A broker and a Redis are started\n"
    "here unless they are given. Topics, group and keys are the benchmark's own, so that it can\n"
    "stand beside a fleet that serves.\n"
    "\n"
    "Jobs are made beforehand and sent by the clock, whatever comes back; latency counts from when\n"
    "a job was due (send_late_ms_p99 says how late the sender itself was). Rates are of the time\n"
    "from the first job due to the last result; settled_per_s goes on until the last status is\n"
    "written and the last offset committed. extra_results are second results of a job,\n"
    "claims_unanswered are jobs that Redis did not answer for in time. *_cpu_us is processor time\n"
    "a job of this process's threads, load_cpu_us being the sender's and the reader's.\n"
    "engine_share is the part of the time that the engine spent in steps with rows.\n"
    "cut_late_ms_p99 says how long after its delay a waiting batch was cut on an idle engine, as\n"
    "the end of a class (engine.h): try a low --rate.\n"
    "\n"
    "  solfleet bench pipeline --engine null --jobs 20000\n"
    "  solfleet bench pipeline --model m.gguf --jobs 200 --rate 2 --prompt-tokens 32..2048\n"
    "\n"
    "Exit code: 5 when results are missing.";

/* ---- arrivals -------------------------------------------------------------------------------- */

struct command_bench_pipeline {
    struct config config; /* the user's, with the benchmark's own names */
    const struct command_bench_pipeline_options *own;
    struct bench_arrival *arrivals; /* owned */
    struct bench_load_job *jobs;    /* owned [count] */
    size_t count;
    struct interrupt interrupt;
    bool was_interrupted;
    struct bench_services services;
    struct bench_worker worker;
    struct bench_load *load;
};

static int command_bench_pipeline_fail(int code, const char *err) {
    return command_fail("bench pipeline", (enum command_exit)code, "%s", err);
}

static int command_bench_pipeline_read_trace(struct command_bench_pipeline *bench) {
    char *text = NULL, err[512], wrong[256];
    size_t bytes = 0;
    if (!job_file_read(bench->own->trace, &text, &bytes, err, sizeof err)) {
        return command_bench_pipeline_fail(COMMAND_EXIT_USAGE, err);
    }
    bool read =
        bench_arrivals_parse_trace(text, &bench->arrivals, &bench->count, wrong, sizeof wrong);
    free(text);
    return read ? COMMAND_EXIT_OK
                : command_fail("bench pipeline", COMMAND_EXIT_USAGE, "%s: %s", bench->own->trace,
                               wrong);
}

static int command_bench_pipeline_make_arrivals(struct command_bench_pipeline *bench) {
    const struct command_bench_pipeline_options *own = bench->own;
    struct bench_arrivals_options options = {.rate_per_s = own->rate,
                                             .interval_ms = own->interval_ms,
                                             .max_tokens = (uint32_t)own->completion_tokens,
                                             .seed = (uint64_t)own->seed};
    if ((own->rate > 0) + (own->interval_ms > 0) + (own->trace[0] != '\0') > 1) {
        return command_bench_pipeline_fail(COMMAND_EXIT_USAGE,
                                           "give one of --rate, --interval-ms and --trace");
    }
    if (own->trace[0]) {
        return command_bench_pipeline_read_trace(bench);
    }
    if (!bench_arrivals_parse_range(own->prompt_tokens, BENCH_ARRIVALS_PROMPT_TOKENS_MAX,
                                    &options.prompt_tokens)) {
        return command_fail("bench pipeline", COMMAND_EXIT_USAGE,
                            "--prompt-tokens %s: give a number, or a range as 32..2048",
                            own->prompt_tokens);
    }
    bench->count = (size_t)own->jobs;
    bench->arrivals = calloc(bench->count, sizeof *bench->arrivals);
    if (!bench->arrivals) {
        return command_bench_pipeline_fail(COMMAND_EXIT_BUG, "out of memory");
    }
    bench_arrivals_make(&options, bench->arrivals, bench->count);
    return COMMAND_EXIT_OK;
}

static int command_bench_pipeline_make_jobs(struct command_bench_pipeline *bench) {
    int code = command_bench_pipeline_make_arrivals(bench);
    if (code) {
        return code;
    }
    bench->jobs = calloc(bench->count, sizeof *bench->jobs);
    if (!bench->jobs) {
        return command_bench_pipeline_fail(COMMAND_EXIT_BUG, "out of memory");
    }
    for (size_t i = 0; i < bench->count; i++) {
        bench->jobs[i].arrival = bench->arrivals[i];
    }
    return COMMAND_EXIT_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool command_bench_pipeline_is_over(void *context) {
    struct command_bench_pipeline *bench = context;
    bench->was_interrupted = bench->was_interrupted || interrupt_take(&bench->interrupt) != 0;
    return bench->was_interrupted || bench_worker_has_failed(&bench->worker);
}

static int command_bench_pipeline_say(struct command_bench_pipeline *bench,
                                      enum bench_load_status status, const char *err) {
    switch (status) {
    case BENCH_LOAD_OK: return COMMAND_EXIT_OK;
    case BENCH_LOAD_TIMED_OUT: return command_bench_pipeline_fail(COMMAND_EXIT_TIMED_OUT, err);
    case BENCH_LOAD_UNREACHABLE: return command_bench_pipeline_fail(COMMAND_EXIT_UNREACHABLE, err);
    case BENCH_LOAD_NO_MEMORY: return command_bench_pipeline_fail(COMMAND_EXIT_BUG, err);
    case BENCH_LOAD_OVER: break;
    }
    return bench->was_interrupted
               ? COMMAND_EXIT_INTERRUPTED
               : command_bench_pipeline_fail(COMMAND_EXIT_BUG, bench->worker.err);
}

/* A few jobs before it counts: the group has then given out its partitions, connections are open,
 * memory is warm. */
static int command_bench_pipeline_warm_up(struct command_bench_pipeline *bench,
                                          const struct bench_load_options *options) {
    bool is_null = strcmp(bench->config.engine, "null") == 0;
    size_t count = bench->own->warm_jobs > 0 ? (size_t)bench->own->warm_jobs
                   : is_null                 ? COMMAND_BENCH_PIPELINE_WARM_NULL
                                             : COMMAND_BENCH_PIPELINE_WARM_REAL;
    struct bench_load_job *jobs = calloc(count, sizeof *jobs);
    char err[512] = "out of memory";
    int64_t start_ns;
    enum bench_load_status status = BENCH_LOAD_NO_MEMORY;
    for (size_t i = 0; i < count && jobs; i++) {
        jobs[i].arrival =
            (struct bench_arrival){.prompt_tokens = bench->arrivals[i % bench->count].prompt_tokens,
                                   .max_tokens = COMMAND_BENCH_PIPELINE_WARM_TOKENS};
    }
    if (jobs) {
        status = bench_load_run(bench->load, options, ~(uint64_t)bench->own->seed, jobs, count,
                                &start_ns, err, sizeof err);
    }
    free(jobs);
    return command_bench_pipeline_say(bench, status, err);
}

/* When all is settled and committed, after the start; 0 when that does not come in time. */
static int64_t command_bench_pipeline_settle(struct command_bench_pipeline *bench,
                                             int64_t start_ns) {
    int64_t deadline_ns =
        clock_monotonic_ns(NULL) + COMMAND_BENCH_PIPELINE_SETTLE_MS * CLOCK_NS_PER_MS;
    while (!bench_worker_is_settled(&bench->worker)) {
        if (clock_monotonic_ns(NULL) > deadline_ns || command_bench_pipeline_is_over(bench)) {
            return 0;
        }
        poll(NULL, 0, 1);
    }
    return clock_monotonic_ns(NULL) - start_ns;
}

static int command_bench_pipeline_measure(struct command_bench_pipeline *bench) {
    const struct bench_load_options options = {.temperature = bench->own->temperature,
                                               .timeout_ms = bench->own->timeout_ms,
                                               .is_over = command_bench_pipeline_is_over,
                                               .context = bench};
    struct bench_pipeline_run run = {.config = &bench->config,
                                     .jobs = bench->jobs,
                                     .count = bench->count,
                                     .slo_ms = bench->own->slo_ms};
    char err[512] = "";
    int64_t start_ns = 0;
    int code = command_bench_pipeline_warm_up(bench, &options);
    if (code) {
        return code;
    }
    (void)command_bench_pipeline_settle(bench, 0);
    engine_stats(bench->worker.engine, &run.before);
    bench_threads_read(&run.threads_before);
    uint64_t unanswered_before = bench->worker.claims_unanswered;
    enum bench_load_status status =
        bench_load_run(bench->load, &options, (uint64_t)bench->own->seed, bench->jobs, bench->count,
                       &start_ns, err, sizeof err);
    engine_stats(bench->worker.engine, &run.after);
    run.settled_ns = status == BENCH_LOAD_OK ? command_bench_pipeline_settle(bench, start_ns) : 0;
    bench_threads_read(&run.threads_after);
    run.claims_unanswered = bench->worker.claims_unanswered - unanswered_before;
    if (status == BENCH_LOAD_OK || status == BENCH_LOAD_TIMED_OUT) {
        enum bench_load_status looked = bench_load_look(
            bench->load, COMMAND_BENCH_PIPELINE_QUIET_MS, &run.extra_results, err, sizeof err);
        status = status == BENCH_LOAD_OK ? looked : status;
    }
    code = command_bench_pipeline_say(bench, status, err);
    if (code == COMMAND_EXIT_OK || code == COMMAND_EXIT_TIMED_OUT) {
        bench_pipeline_report_print(&run, bench->config.json);
    }
    return code;
}

static int command_bench_pipeline_serve(struct command_bench_pipeline *bench) {
    const struct command_bench_pipeline_options *own = bench->own;
    char err[4096] = "";
    int code = bench_services_open(&bench->services, &bench->config, own->brokers, own->redis,
                                   (int)own->partitions, err, sizeof err);
    if (code == COMMAND_EXIT_OK) {
        code = bench_worker_open(&bench->worker, &bench->services.config, err, sizeof err);
    }
    if (code) {
        return command_bench_pipeline_fail(code, err);
    }
    if (bench_load_open(&bench->services.config, &bench->load, err, sizeof err) != BENCH_LOAD_OK) {
        return command_bench_pipeline_fail(COMMAND_EXIT_UNREACHABLE, err);
    }
    code = command_bench_pipeline_measure(bench);
    if (code == COMMAND_EXIT_OK && !bench_worker_drain(&bench->worker)) {
        code = command_fail("bench pipeline", COMMAND_EXIT_BUG, "the worker did not drain: %s",
                            bench->worker.err);
    }
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int command_bench_pipeline_all(struct command_bench_pipeline *bench) {
    struct config *config = &bench->config;
    const struct command_bench_pipeline_options *own = bench->own;
    config->jobs_topic = own->jobs_topic;
    config->results_topic = own->results_topic;
    config->dead_letter_topic = own->dead_letter_topic;
    config->group = own->group;
    config->key_prefix = own->prefix;
    config->status_ttl_s = own->status_ttl_s;
    config->repair_window_s = 0; /* what earlier runs left is nobody's */
    int code = command_bench_pipeline_make_jobs(bench);
    if (code) {
        return code;
    }
    if (!interrupt_open(&bench->interrupt)) {
        return command_bench_pipeline_fail(COMMAND_EXIT_BUG, "no descriptor for signals");
    }
    code = command_bench_pipeline_serve(bench);
    bench_load_close(bench->load);
    bench_worker_close(&bench->worker);
    bench_services_close(&bench->services);
    interrupt_close(&bench->interrupt);
    return code;
}

int command_bench_pipeline_run(int argc, char **argv) {
    struct command_bench_pipeline_options options = {0};
    const struct config_spec spec = {
        .name = "bench pipeline",
        .command = CONFIG_BENCH,
        .usage = "--engine null|real",
        .summary = command_bench_pipeline_help,
        .own = command_bench_pipeline_table,
        .own_count = sizeof command_bench_pipeline_table / sizeof command_bench_pipeline_table[0],
        .own_values = &options,
    };
    struct config config;
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        struct command_bench_pipeline bench = {.config = config, .own = &options};
        code = command_bench_pipeline_all(&bench);
        free(bench.arrivals);
        free(bench.jobs);
    }
    config_deinit(&config);
    return code;
}
