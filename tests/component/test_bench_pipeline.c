/* The pipeline benchmark's parts together: services started here, a worker without a model, a load
 * by the clock. One set of services for all cases: joining a group takes its time. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_load.h"
#include "consumer/bench_services.h"
#include "consumer/bench_worker.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "engine/clock.h"
#include "tests/support/test.h"

#define PARTITIONS 2
#define JOBS 40

static struct config config;
static struct bench_services services;
static struct bench_worker worker;
static struct bench_load *load;
static char err[4096];

static int set_up(void **state) {
    static char name[] = "bench", engine[] = "--engine=null",
                tokens[] = "--null-completion-tokens=7";
    char *argv[] = {name, engine, tokens};
    const struct config_spec spec = {
        .name = "bench", .command = CONFIG_BENCH, .usage = "", .summary = ""};
    if (config_read(&config, &spec, 3, argv, NULL, err, sizeof err) != CONFIG_OK ||
        bench_services_open(&services, &config, NULL, NULL, PARTITIONS, err, sizeof err) !=
            COMMAND_EXIT_OK ||
        bench_load_open(&services.config, &load, err, sizeof err) != BENCH_LOAD_OK) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    return 0;
}

static int tear_down(void **state) {
    bench_load_close(load);
    bench_worker_close(&worker);
    bench_services_close(&services);
    config_deinit(&config);
    return 0;
}

static struct bench_load_job *jobs_every(double interval_ms) {
    struct bench_arrivals_options options = {
        .interval_ms = interval_ms, .prompt_tokens = {5, 9}, .max_tokens = 3};
    struct bench_arrival arrivals[JOBS];
    struct bench_load_job *jobs = calloc(JOBS, sizeof *jobs);
    bench_arrivals_make(&options, arrivals, JOBS);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].arrival = arrivals[i];
    }
    return jobs;
}

static bool at_once(void *context) {
    return *(bool *)context;
}

/* The first case: there is no worker yet. What it leaves on the topic is answered later, under ids
 * that the other runs do not know. */
static void tells_when_no_results_come_or_it_shall_end(void **state) {
    bool is_over = true;
    struct bench_load_options options = {
        .temperature = -1, .timeout_ms = 60000, .is_over = at_once, .context = &is_over};
    struct bench_load_job *jobs = jobs_every(0);
    struct bench_load *lonely = NULL;
    int64_t start_ns;
    assert_int_equal(bench_load_open(&services.config, &lonely, err, sizeof err), BENCH_LOAD_OK);
    assert_int_equal(bench_load_run(lonely, &options, 1, jobs, JOBS, &start_ns, err, sizeof err),
                     BENCH_LOAD_OVER);
    bench_load_close(lonely);
    assert_int_equal(bench_load_open(&services.config, &lonely, err, sizeof err), BENCH_LOAD_OK);
    options.is_over = NULL;
    options.timeout_ms = 100;
    assert_int_equal(bench_load_run(lonely, &options, 1, jobs, JOBS, &start_ns, err, sizeof err),
                     BENCH_LOAD_TIMED_OUT);
    assert_non_null(strstr(err, "40 of 40 jobs have no result"));
    bench_load_close(lonely);
    free(jobs);
}

static void a_worker_that_cannot_start_says_why(void **state) {
    struct bench_worker failing;
    struct config wrong = services.config;
    wrong.engine = "real";
    wrong.model = "no/such/model.gguf";
    assert_int_equal(bench_worker_open(&failing, &wrong, err, sizeof err), COMMAND_EXIT_BAD_MODEL);
    assert_non_null(strstr(err, "no/such/model.gguf"));
    bench_worker_close(&failing);
}

static void every_job_is_sent_when_due_and_answered_after(void **state) {
    struct bench_load_options options = {.temperature = 0.5, .timeout_ms = 60000};
    struct bench_load_job *jobs = jobs_every(2);
    int64_t start_ns = 0;
    assert_int_equal(bench_worker_open(&worker, &services.config, err, sizeof err),
                     COMMAND_EXIT_OK);
    for (uint64_t run = 0; run < 2; run++) {
        for (int i = 0; i < JOBS; i++) {
            jobs[i].answered_ns = 0;
        }
        assert_int_equal(
            bench_load_run(load, &options, run, jobs, JOBS, &start_ns, err, sizeof err),
            BENCH_LOAD_OK);
        size_t extra_results = 1;
        assert_int_equal(bench_load_look(load, 1, &extra_results, err, sizeof err), BENCH_LOAD_OK);
        assert_int_equal(extra_results, 0);
        for (int i = 0; i < JOBS; i++) {
            assert_int_equal(jobs[i].arrival.offset_ns, i * 2 * CLOCK_NS_PER_MS);
            assert_true(jobs[i].sent_ns >= jobs[i].arrival.offset_ns);
            assert_true(jobs[i].answered_ns > jobs[i].arrival.offset_ns);
            assert_int_equal(jobs[i].status, RESULT_DONE);
            assert_int_equal(jobs[i].completion_tokens, 7);
        }
    }
    assert_false(bench_worker_has_failed(&worker));
    while (!bench_worker_is_settled(&worker)) { /* soon: a commit is due at least each second */
        poll(NULL, 0, 1);
    }
    assert_true(bench_worker_drain(&worker));
    free(jobs);
}

TEST_MAIN_WITH(set_up, tear_down, cmocka_unit_test(tells_when_no_results_come_or_it_shall_end),
               cmocka_unit_test(a_worker_that_cannot_start_says_why),
               cmocka_unit_test(every_job_is_sent_when_due_and_answered_after))
