#include "consumer/bench_pipeline_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "tests/support/test.h"

#define MS CLOCK_NS_PER_MS

static struct bench_load_job job_at(int64_t due_ms, int64_t sent_ms, int64_t answered_ms,
                                    enum result_status status) {
    return (struct bench_load_job){.arrival.offset_ns = due_ms * MS,
                                   .sent_ns = sent_ms * MS,
                                   .answered_ns = answered_ms * MS,
                                   .status = status,
                                   .prompt_tokens = 100,
                                   .completion_tokens = 50};
}

static struct bench_pipeline_report report_of(const struct bench_pipeline_run *run) {
    struct bench_pipeline_report report;
    assert_true(bench_pipeline_report_make(run, &report));
    return report;
}

/* The second job was sent late, by a sender that could not keep up: its wait counts all the
 * same. */
static void latency_counts_from_when_a_job_was_due(void **state) {
    struct bench_load_job jobs[] = {job_at(0, 0, 100, RESULT_DONE),
                                    job_at(10, 400, 510, RESULT_DONE)};
    struct bench_pipeline_run run = {.jobs = jobs, .count = 2, .slo_ms = 200};
    struct bench_pipeline_report report = report_of(&run);
    assert_true(report.p50_ms == 100 && report.p99_ms == 500);
    assert_true(report.send_late_ms_p99 == 390);
    assert_true(report.within_slo_share == 0.5);
}

static void rates_are_of_the_time_from_the_first_job_due_to_the_last_result(void **state) {
    struct bench_load_job jobs[] = {job_at(500, 500, 2500, RESULT_DONE),
                                    job_at(600, 600, 1600, RESULT_DONE)};
    struct bench_pipeline_run run = {.jobs = jobs, .count = 2, .slo_ms = 1000};
    struct bench_pipeline_report report = report_of(&run);
    assert_true(report.seconds == 2);
    assert_true(report.jobs_per_s == 1);
    assert_true(report.tokens_per_s == 50);
    assert_true(report.prompt_tokens_mean == 100 && report.completion_tokens_mean == 50);
}

static void settling_and_processor_time_count_for_each_job(void **state) {
    struct bench_load_job jobs[] = {job_at(500, 500, 1000, RESULT_DONE),
                                    job_at(500, 500, 1500, RESULT_DONE)};
    struct bench_pipeline_run run = {.jobs = jobs, .count = 2, .slo_ms = 1000};
    assert_true(report_of(&run).settled_per_s == 0); /* it is not known when */
    run.settled_ns = 2500 * MS;
    run.threads_before = (struct bench_threads){.worker_ns = 1000, .load_ns = 500};
    run.threads_after = (struct bench_threads){
        .worker_ns = 9000, .engine_ns = 2000, .kafka_ns = 3000, .load_ns = 1500};
    struct bench_pipeline_report report = report_of(&run);
    assert_true(report.jobs_per_s == 2 && report.settled_per_s == 1);
    assert_true(fabs(report.worker_us - 4) < 1e-9 && fabs(report.engine_us - 1) < 1e-9);
    assert_true(fabs(report.kafka_us - 1.5) < 1e-9 && fabs(report.load_us - 0.5) < 1e-9);
}

static void jobs_without_an_answer_are_counted_but_add_nothing(void **state) {
    struct bench_load_job jobs[] = {
        job_at(0, 0, 100, RESULT_DONE), job_at(0, 0, 100, RESULT_FAILED),
        job_at(0, 0, 1000, RESULT_EXPIRED), job_at(0, 0, 0, RESULT_DONE)};
    struct bench_pipeline_run run = {.jobs = jobs, .count = 4, .slo_ms = 5000};
    struct bench_pipeline_report report = report_of(&run);
    assert_int_equal(report.done, 1);
    assert_int_equal(report.failed, 2);
    assert_int_equal(report.missing, 1);
    assert_true(report.within_slo_share == 0.25);
    assert_true(report.jobs_per_s == 1 && report.tokens_per_s == 50);
}

static void a_run_without_any_answer_is_all_zero(void **state) {
    struct bench_load_job jobs[] = {job_at(0, 0, 0, RESULT_DONE)};
    struct bench_pipeline_run run = {.jobs = jobs, .count = 1, .slo_ms = 5000};
    struct bench_pipeline_report report = report_of(&run);
    assert_int_equal(report.missing, 1);
    assert_true(report.jobs_per_s == 0 && report.p99_ms == 0 && report.engine_share == 0);
}

static void the_engines_part_is_what_it_did_during_the_load(void **state) {
    struct bench_load_job jobs[] = {job_at(0, 0, 1000, RESULT_DONE)};
    struct bench_pipeline_run run = {
        .jobs = jobs,
        .count = 1,
        .slo_ms = 1,
        .before = {.batches_total = 10,
                   .batch_sizes_total = 100,
                   .batches_single = 3,
                   .busy_ns_total = 5000 * (uint64_t)MS},
        .after = {.batches_total = 14,
                  .batch_sizes_total = 110,
                  .batches_single = 4,
                  .busy_ns_total = 5800 * (uint64_t)MS},
    };
    run.after.delay_cuts_late[2] = 1;
    struct bench_pipeline_report report = report_of(&run);
    assert_int_equal(report.batches, 4);
    assert_true(report.batch_size_mean == 2.5);
    assert_true(report.batches_shared_share == 0.75);
    assert_true(report.engine_share == 0.8);
    assert_int_equal(report.cuts_delayed, 1);
    assert_true(report.cut_late_ms_p99 == 0.5);
}

static void lateness_is_the_end_of_the_class_of_the_percentile(void **state) {
    uint64_t counts[ENGINE_LATE_CLASSES] = {0};
    assert_true(bench_pipeline_report_late_ms(counts, 99) == 0);
    counts[0] = 99;
    counts[7] = 1;
    assert_true(bench_pipeline_report_late_ms(counts, 99) == 0.1);
    assert_true(bench_pipeline_report_late_ms(counts, 99.5) == 20);
    counts[7] = 0;
    counts[6] = 2;
    assert_true(bench_pipeline_report_late_ms(counts, 99) == 10);
    counts[ENGINE_LATE_CLASSES - 1] = 3;
    assert_true(isinf(bench_pipeline_report_late_ms(counts, 99)));
}

TEST_MAIN(cmocka_unit_test(latency_counts_from_when_a_job_was_due),
          cmocka_unit_test(rates_are_of_the_time_from_the_first_job_due_to_the_last_result),
          cmocka_unit_test(settling_and_processor_time_count_for_each_job),
          cmocka_unit_test(jobs_without_an_answer_are_counted_but_add_nothing),
          cmocka_unit_test(a_run_without_any_answer_is_all_zero),
          cmocka_unit_test(the_engines_part_is_what_it_did_during_the_load),
          cmocka_unit_test(lateness_is_the_end_of_the_class_of_the_percentile))
