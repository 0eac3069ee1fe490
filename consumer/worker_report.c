#include "consumer/worker_report.h"

#include <inttypes.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/gpu_monitor.h"
#include "consumer/worker.h"
#include "engine/clock.h"
#include "engine/engine.h"

void worker_report_ready(FILE *out, const struct config *config, const char *name,
                         const struct engine_info *info, const struct worker_stats *stats) {
    fprintf(
        out,
        "ready: worker %s, %u partitions of %s, model %s (%s, %s %s, %u threads), batches of up "
        "to %" PRId64 "\n",
        name, stats->source.partition_count,
        config->topics[0] != '\0' ? config->topics : config->jobs_topic, info->model_name,
        info->policy, info->device_name, info->tier, info->threads, config->max_batch_size);
    fflush(out);
}

struct averages {
    double batch_size, wait_ms;
};

static struct averages worker_report_averages(const struct engine_stats *engine) {
    double batches = engine->batches_total > 0 ? (double)engine->batches_total : 1;
    double requests = engine->requests_total > 0 ? (double)engine->requests_total : 1;
    return (struct averages){.batch_size = (double)engine->batch_sizes_total / batches,
                             .wait_ms = (double)engine->wait_ns_total / CLOCK_NS_PER_MS / requests};
}

/* Time inside engine_step with rows to compute. */
static uint64_t worker_report_busy_ms(const struct engine_stats *engine) {
    return engine->busy_ns_total / CLOCK_NS_PER_MS;
}

/* Ends that Redis was not told of: kept for it when the worker ends, or dropped before. */
static uint64_t worker_report_unwritten(const struct worker_stats *worker) {
    return worker->store.backlog_count + worker->store.dropped_total;
}

/* Jobs that others have to do: given back while it ended, or still held at the end. */
static uint64_t worker_report_given_back(const struct worker_stats *worker) {
    return worker->given_back_in_drain + worker->in_flight;
}

static void worker_report_text(FILE *out, const struct engine_stats *engine,
                               const struct worker_stats *worker) {
    struct averages average = worker_report_averages(engine);
    fprintf(out, "total requests      %" PRIu64 "\n", engine->requests_total);
    fprintf(out, "total batches       %" PRIu64 "\n", engine->batches_total);
    fprintf(out, "average batch size  %.2f\n", average.batch_size);
    fprintf(out, "largest batch       %u\n", engine->batch_size_max);
    fprintf(out, "batches of one      %" PRIu64 "\n", engine->batches_single);
    fprintf(out, "average wait        %.1f ms\n", average.wait_ms);
    fprintf(out, "buffer size         %u\n", engine->queued_count);
    fprintf(out, "steps               %" PRIu64 "\n", engine->steps_total);
    fprintf(out, "busy in steps       %" PRIu64 " ms\n", worker_report_busy_ms(engine));
    fprintf(out, "tokens reused       %" PRIu64 "\n", engine->cached_tokens_total);
    fprintf(out, "preemptions         %" PRIu64 "\n", engine->preemptions_total);
    fprintf(out, "tokens recomputed   %" PRIu64 "\n", engine->recomputed_tokens_total);
    fprintf(out, "tokens guessed      %" PRIu64 "\n", engine->drafted_tokens_total);
    fprintf(out, "guesses kept        %" PRIu64 "\n", engine->kept_tokens_total);
    for (int i = 0; i < ENGINE_CUT_COUNT; i++) {
        fprintf(out, "cut by %-12s %" PRIu64 "\n", engine_cut_name((enum engine_cut)i),
                engine->cuts[i]);
    }
    fprintf(out, "done                %" PRIu64 "\n", worker->done);
    fprintf(out, "failed              %" PRIu64 "\n", worker->failed);
    fprintf(out, "expired             %" PRIu64 "\n", worker->expired);
    fprintf(out, "cancelled           %" PRIu64 "\n", worker->cancelled);
    fprintf(out, "from the future     %" PRIu64 "\n", worker->from_the_future);
    fprintf(out, "dead letters        %" PRIu64 "\n", worker->dead_letters);
    fprintf(out, "duplicates          %" PRIu64 "\n", worker->duplicates);
    fprintf(out, "given back          %" PRIu64 "\n", worker_report_given_back(worker));
    fprintf(out, "joined              %" PRIu64 "\n", worker->joined);
    fprintf(out, "sealed before       %" PRIu64 "\n", worker->adopted);
    fprintf(out, "poison              %" PRIu64 "\n", worker->poisoned);
    fprintf(out, "leases lost         %" PRIu64 "\n", worker->leases_lost);
    fprintf(out, "engine failures     %" PRIu64 "\n", worker->engine_failures);
    fprintf(out, "claims unanswered   %" PRIu64 "\n", worker->store.claims_unanswered);
    fprintf(out, "answered late       %" PRIu64 "\n", worker->store.late_answers);
    fprintf(out, "calls refused       %" PRIu64 "\n", worker->store.refused_total);
    fprintf(out, "statuses unwritten  %" PRIu64 "\n", worker_report_unwritten(worker));
    fprintf(out, "settled before      %" PRIu64 "\n", worker->source.known_total);
    fprintf(out, "records lost        %" PRIu64 "\n", worker->source.lost_records_total);
    fprintf(out, "logs made anew      %" PRIu64 "\n", worker->source.restarts_total);
}

static void worker_report_gpu_text(FILE *out, const struct gpu_monitor_report *gpu) {
    if (gpu->utilization_samples > 0) {
        fprintf(out, "gpu utilisation     %.1f %%\n", gpu->utilization_percent);
    }
    if (gpu->memory_samples > 0) {
        fprintf(out, "gpu memory at most  %" PRIu64 " of %" PRIu64 " MiB\n",
                gpu->memory_used_bytes_max >> 20, gpu->memory_total_bytes >> 20);
    }
    if (gpu->temperature_samples > 0) {
        fprintf(out, "gpu heat at most    %u C\n", gpu->temperature_celsius_max);
    }
    if (gpu->power_samples > 0) {
        fprintf(out, "gpu power           %.1f W\n", gpu->power_watts);
    }
}

/* What a card does not tell is left out. */
static void worker_report_gpu_json(FILE *out, const struct gpu_monitor_report *gpu) {
    if (gpu->utilization_samples + gpu->memory_samples + gpu->temperature_samples +
            gpu->power_samples ==
        0) {
        return;
    }
    fprintf(out, ",\"gpu\":{\"memory_used_bytes_max\":%" PRIu64 ",\"memory_total_bytes\":%" PRIu64,
            gpu->memory_used_bytes_max, gpu->memory_total_bytes);
    if (gpu->utilization_samples > 0) {
        fprintf(out, ",\"utilization_percent\":%.1f", gpu->utilization_percent);
    }
    if (gpu->temperature_samples > 0) {
        fprintf(out, ",\"temperature_celsius_max\":%u", gpu->temperature_celsius_max);
    }
    if (gpu->power_samples > 0) {
        fprintf(out, ",\"power_watts\":%.1f", gpu->power_watts);
    }
    fprintf(out, "}");
}

/* What rises while Redis is away or slow: jobs may be computed twice meanwhile. */
static void worker_report_redis(FILE *out, const struct worker_stats *worker) {
    const struct status_store_stats *store = &worker->store;
    fprintf(out,
            ",\"redis\":{\"connections\":%" PRIu64 ",\"claims_unanswered\":%" PRIu64
            ",\"answered_late\":%" PRIu64 ",\"seals_unanswered\":%" PRIu64
            ",\"breaker_opened\":%" PRIu64 ",\"calls_refused\":%" PRIu64
            ",\"statuses_unwritten\":%" PRIu64 ",\"statuses_dropped\":%" PRIu64 "}",
            store->links_total, store->claims_unanswered, store->late_answers,
            store->seals_unanswered, store->breaker_opened_total, store->refused_total,
            worker_report_unwritten(worker), store->dropped_total);
}

static void worker_report_json(FILE *out, const struct engine_stats *engine,
                               const struct worker_stats *worker,
                               const struct gpu_monitor_report *gpu) {
    struct averages average = worker_report_averages(engine);
    fprintf(out,
            "{\"total_requests\":%" PRIu64 ",\"total_batches\":%" PRIu64
            ",\"average_batch_size\":%.3f,\"largest_batch\":%u,\"batches_of_one\":%" PRIu64
            ",\"average_wait_ms\":%.3f,\"buffer_size\":%u,\"steps\":%" PRIu64
            ",\"engine_busy_ms\":%" PRIu64 ",\"cuts\":{",
            engine->requests_total, engine->batches_total, average.batch_size,
            engine->batch_size_max, engine->batches_single, average.wait_ms, engine->queued_count,
            engine->steps_total, worker_report_busy_ms(engine));
    for (int i = 0; i < ENGINE_CUT_COUNT; i++) {
        fprintf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", engine_cut_name((enum engine_cut)i),
                engine->cuts[i]);
    }
    fprintf(
        out,
        "},\"done\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"expired\":%" PRIu64
        ",\"cancelled\":%" PRIu64 ",\"from_the_future\":%" PRIu64 ",\"dead_letters\":%" PRIu64
        ",\"duplicates\":%" PRIu64 ",\"given_back\":%" PRIu64 ",\"joined\":%" PRIu64
        ",\"sealed_before\":%" PRIu64 ",\"poison\":%" PRIu64 ",\"leases_lost\":%" PRIu64
        ",\"engine_failures\":%" PRIu64 ",\"tokens_reused\":%" PRIu64 ",\"preemptions\":%" PRIu64
        ",\"tokens_recomputed\":%" PRIu64 ",\"tokens_guessed\":%" PRIu64
        ",\"guesses_kept\":%" PRIu64 ",\"settled_before\":%" PRIu64 ",\"records_lost\":%" PRIu64
        ",\"logs_made_anew\":%" PRIu64,
        worker->done, worker->failed, worker->expired, worker->cancelled, worker->from_the_future,
        worker->dead_letters, worker->duplicates, worker_report_given_back(worker), worker->joined,
        worker->adopted, worker->poisoned, worker->leases_lost, worker->engine_failures,
        engine->cached_tokens_total, engine->preemptions_total, engine->recomputed_tokens_total,
        engine->drafted_tokens_total, engine->kept_tokens_total, worker->source.known_total,
        worker->source.lost_records_total, worker->source.restarts_total);
    worker_report_redis(out, worker);
    worker_report_gpu_json(out, gpu);
    fprintf(out, "}\n");
}

void worker_report_statistics(FILE *out, bool json, const struct engine_stats *engine,
                              const struct worker_stats *worker,
                              const struct gpu_monitor_report *gpu) {
    if (json) {
        worker_report_json(out, engine, worker, gpu);
    } else {
        worker_report_text(out, engine, worker);
        worker_report_gpu_text(out, gpu);
    }
    fflush(out);
}
