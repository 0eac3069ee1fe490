#include "consumer/bench_pipeline_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_statistics.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "engine/clock.h"
#include "schemas/json_writer.h"

/* ---- figures --------------------------------------------------------------------------------- */

double bench_pipeline_report_late_ms(const uint64_t counts[ENGINE_LATE_CLASSES], double percent) {
    uint64_t total = 0, so_far = 0;
    for (uint32_t i = 0; i < ENGINE_LATE_CLASSES; i++) {
        total += counts[i];
    }
    for (uint32_t i = 0; i < ENGINE_LATE_CLASSES && total > 0; i++) {
        so_far += counts[i];
        if ((double)so_far * 100 >= percent * (double)total) {
            int64_t end_ns = engine_late_class_ns(i);
            return end_ns == INT64_MAX ? INFINITY : (double)end_ns / (double)CLOCK_NS_PER_MS;
        }
    }
    return 0;
}

static double bench_pipeline_report_ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

static void bench_pipeline_report_add_engine(const struct bench_pipeline_run *run,
                                             struct bench_pipeline_report *report) {
    const struct engine_stats *before = &run->before, *after = &run->after;
    uint64_t late[ENGINE_LATE_CLASSES];
    report->batches = after->batches_total - before->batches_total;
    report->batch_size_mean = bench_pipeline_report_ratio(
        (double)(after->batch_sizes_total - before->batch_sizes_total), (double)report->batches);
    uint64_t single = after->batches_single - before->batches_single;
    report->batches_shared_share =
        bench_pipeline_report_ratio((double)(report->batches - single), (double)report->batches);
    for (uint32_t i = 0; i < ENGINE_LATE_CLASSES; i++) {
        late[i] = after->delay_cuts_late[i] - before->delay_cuts_late[i];
        report->cuts_delayed += late[i];
    }
    report->cut_late_ms_p99 = bench_pipeline_report_late_ms(late, 99);
    report->engine_share =
        bench_pipeline_report_ratio((double)(after->busy_ns_total - before->busy_ns_total),
                                    report->seconds * (double)CLOCK_NS_PER_S);
}

static void bench_pipeline_report_add_threads(const struct bench_pipeline_run *run,
                                              struct bench_pipeline_report *report) {
    const struct bench_threads *before = &run->threads_before, *after = &run->threads_after;
    double ns_to_us = 1.0 / (double)CLOCK_NS_PER_US / (double)run->count;
    report->worker_us = (double)(after->worker_ns - before->worker_ns) * ns_to_us;
    report->engine_us = (double)(after->engine_ns - before->engine_ns) * ns_to_us;
    report->kafka_us = (double)(after->kafka_ns - before->kafka_ns) * ns_to_us;
    report->load_us = (double)(after->load_ns - before->load_ns) * ns_to_us;
}

/* latencies and lates: [count]; the latencies of the jobs that were answered come first. */
static void bench_pipeline_report_add_jobs(const struct bench_pipeline_run *run, double *latencies,
                                           double *lates, struct bench_pipeline_report *report) {
    size_t answered = 0, within = 0;
    double prompt_tokens = 0, completion_tokens = 0;
    int64_t end_ns = 0;
    for (size_t i = 0; i < run->count; i++) {
        const struct bench_load_job *job = &run->jobs[i];
        bool is_done = job->answered_ns != 0 && job->status == RESULT_DONE;
        lates[i] = (double)(job->sent_ns - job->arrival.offset_ns) / (double)CLOCK_NS_PER_MS;
        if (job->answered_ns == 0) {
            report->missing++;
            continue;
        }
        double latency_ms =
            (double)(job->answered_ns - job->arrival.offset_ns) / (double)CLOCK_NS_PER_MS;
        latencies[answered++] = latency_ms;
        end_ns = job->answered_ns > end_ns ? job->answered_ns : end_ns;
        report->done += is_done;
        report->failed += !is_done;
        within += is_done && latency_ms <= (double)run->slo_ms;
        prompt_tokens += is_done ? job->prompt_tokens : 0;
        completion_tokens += is_done ? job->completion_tokens : 0;
    }
    int64_t took_ns = end_ns - run->jobs[0].arrival.offset_ns;
    bench_statistics_sort(latencies, answered);
    bench_statistics_sort(lates, run->count);
    report->seconds = (double)took_ns / (double)CLOCK_NS_PER_S;
    report->jobs_per_s = bench_statistics_rate((double)report->done, took_ns);
    report->settled_per_s =
        run->settled_ns > 0
            ? bench_statistics_rate((double)report->done,
                                    run->settled_ns - run->jobs[0].arrival.offset_ns)
            : 0;
    report->tokens_per_s = bench_statistics_rate(completion_tokens, took_ns);
    report->within_slo_share = (double)within / (double)run->count;
    report->p50_ms = bench_statistics_percentile(latencies, answered, 50);
    report->p99_ms = bench_statistics_percentile(latencies, answered, 99);
    report->send_late_ms_p99 = bench_statistics_percentile(lates, run->count, 99);
    report->prompt_tokens_mean = bench_pipeline_report_ratio(prompt_tokens, (double)report->done);
    report->completion_tokens_mean =
        bench_pipeline_report_ratio(completion_tokens, (double)report->done);
}

bool bench_pipeline_report_make(const struct bench_pipeline_run *run,
                                struct bench_pipeline_report *report) {
    double *latencies = calloc(run->count, sizeof *latencies);
    double *lates = calloc(run->count, sizeof *lates);
    bool is_whole = latencies && lates;
    memset(report, 0, sizeof *report);
    if (is_whole) {
        bench_pipeline_report_add_jobs(run, latencies, lates, report);
        bench_pipeline_report_add_engine(run, report);
        bench_pipeline_report_add_threads(run, report);
    }
    free(latencies);
    free(lates);
    return is_whole;
}

/* ---- printing -------------------------------------------------------------------------------- */

struct bench_pipeline_figure {
    const char *key;
    double value;
};

#define BENCH_PIPELINE_FIGURES_MAX 32

/* The contract's figures first. */
static size_t bench_pipeline_report_list(const struct bench_pipeline_run *run,
                                         const struct bench_pipeline_report *report,
                                         struct bench_pipeline_figure *figures) {
    const struct bench_pipeline_figure all[] = {
        {"jobs_per_s", report->jobs_per_s},
        {"tokens_per_s", report->tokens_per_s},
        {"engine_share", report->engine_share},
        {"within_slo_share", report->within_slo_share},
        {"p50_ms", report->p50_ms},
        {"p99_ms", report->p99_ms},
        {"slo_ms", (double)run->slo_ms},
        {"jobs", (double)run->count},
        {"done", (double)report->done},
        {"failed", (double)report->failed},
        {"missing", (double)report->missing},
        {"extra_results", (double)run->extra_results},
        {"claims_unanswered", (double)run->claims_unanswered},
        {"settled_per_s", report->settled_per_s},
        {"seconds", report->seconds},
        {"prompt_tokens_mean", report->prompt_tokens_mean},
        {"completion_tokens_mean", report->completion_tokens_mean},
        {"batches", (double)report->batches},
        {"batch_size_mean", report->batch_size_mean},
        {"batches_shared_share", report->batches_shared_share},
        {"cuts_delayed", (double)report->cuts_delayed},
        {"cut_late_ms_p99", report->cut_late_ms_p99},
        {"send_late_ms_p99", report->send_late_ms_p99},
        {"worker_cpu_us", report->worker_us},
        {"engine_cpu_us", report->engine_us},
        {"kafka_clients_cpu_us", report->kafka_us},
        {"load_cpu_us", report->load_us},
    };
    _Static_assert(sizeof all / sizeof all[0] <= BENCH_PIPELINE_FIGURES_MAX, "room for all");
    memcpy(figures, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void bench_pipeline_report_print_json(const struct bench_pipeline_run *run,
                                             const struct bench_pipeline_figure *figures,
                                             size_t count) {
    struct json_writer writer;
    json_writer_init(&writer, 1024);
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < count; i++) {
        json_writer_key(&writer, figures[i].key);
        if (figures[i].value == rint(figures[i].value) && fabs(figures[i].value) < 1e15) {
            json_writer_int(&writer, (int64_t)figures[i].value);
        } else {
            json_writer_double(&writer, figures[i].value);
        }
    }
    json_writer_key(&writer, "engine");
    json_writer_string(&writer, run->config->engine);
    json_writer_key(&writer, "profile");
    json_writer_string(&writer, run->config->profile);
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    puts(text ? text : "{}");
    free(text);
}

void bench_pipeline_report_print(const struct bench_pipeline_run *run, bool json) {
    struct bench_pipeline_report report;
    struct bench_pipeline_figure figures[BENCH_PIPELINE_FIGURES_MAX];
    if (!bench_pipeline_report_make(run, &report)) {
        command_fail("bench pipeline", COMMAND_EXIT_BUG, "out of memory");
        return;
    }
    size_t count = bench_pipeline_report_list(run, &report, figures);
    if (json) {
        bench_pipeline_report_print_json(run, figures, count);
        return;
    }
    printf("%-24s %12s\n", "engine", run->config->engine);
    for (size_t i = 0; i < count; i++) {
        printf("%-24s %12.*f\n", figures[i].key, figures[i].value == rint(figures[i].value) ? 0 : 3,
               figures[i].value);
    }
}
