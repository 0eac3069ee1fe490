#include "consumer/bench_engine.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_machine.h"
#include "consumer/bench_random.h"
#include "consumer/bench_statistics.h"
#include "consumer/command.h"
#include "consumer/command_model.h"
#include "engine/clock.h"
#include "engine/forward.h"

#define BENCH_ENGINE_BUCKETS_MAX 32
#define BENCH_ENGINE_WARM_UP_TOKENS 8

struct bench_engine {
    const struct bench_engine_options *options;
    struct device *device;
    struct device *watched; /* the one behind `device` when that is a watch */
    struct profile profile;
    struct device_info device_info;
    struct model *model;
    struct forward *forward;
    struct batch batch;
    uint32_t row_buckets[BENCH_ENGINE_BUCKETS_MAX];
    uint32_t row_bucket_count;

    int32_t *prompts; /* [batch, prompt_tokens] */
    int32_t *last;    /* [batch]: each sequence's newest token */
    double *first_token_ms, *step_ms;
    size_t first_token_count, step_count;
    double prefill_rates[BENCH_ENGINE_REPETITIONS_MAX], decode_rates[BENCH_ENGINE_REPETITIONS_MAX];
    char *err;
    size_t err_bytes;
};

static double bench_engine_ms_since(int64_t start_ns) {
    return (double)(clock_monotonic_ns(NULL) - start_ns) / (double)CLOCK_NS_PER_MS;
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint32_t bench_engine_rows_max(const struct bench_engine_options *options) {
    return options->batch > options->prefill_chunk_tokens ? options->batch
                                                          : options->prefill_chunk_tokens;
}

/* Powers of two, as the engine's own, where the device wants few shapes. */
static void bench_engine_plan_buckets(struct bench_engine *bench) {
    uint32_t rows_max = bench_engine_rows_max(bench->options);
    if (!bench->device_info.fixed_row_shapes) {
        return;
    }
    for (uint32_t rows = 1; rows < rows_max; rows *= 2) {
        bench->row_buckets[bench->row_bucket_count++] = rows;
    }
    bench->row_buckets[bench->row_bucket_count++] = rows_max;
}

static int bench_engine_open_model(struct bench_engine *bench) {
    const struct bench_engine_options *options = bench->options;
    struct device_options device = {.spec = options->device,
                                    .tier = options->cpu_tier,
                                    .threads = options->threads,
                                    .cublaslt = options->cublaslt};
    enum kernels_status opened = device_open(&device, &bench->device, bench->err, bench->err_bytes);
    if (opened != KERNELS_OK) {
        return opened == KERNELS_INVALID ? COMMAND_EXIT_USAGE : COMMAND_EXIT_NO_DEVICE;
    }
    if (options->profile) {
        const struct op_watcher watcher = profile_watcher(&bench->profile);
        bench->watched = bench->device;
        if (op_watch_open(bench->watched, &watcher, &bench->device, bench->err, bench->err_bytes) !=
            KERNELS_OK) {
            return COMMAND_EXIT_NO_DEVICE;
        }
    }
    device_enter_thread(bench->device);
    device_describe(bench->device, &bench->device_info);
    bench_engine_plan_buckets(bench);
    struct model_options model = {.path = options->model_path,
                                  .policy = options->policy,
                                  .max_model_len =
                                      options->prompt_tokens + options->completion_tokens,
                                  .row_buckets = bench->row_buckets,
                                  .row_bucket_count = bench->row_bucket_count};
    return command_model_exit(
        model_open(&model, bench->device, &bench->model, bench->err, bench->err_bytes));
}

static bool bench_engine_has_graphs(const struct bench_engine *bench) {
    return bench->options->graphs && !bench->options->profile && bench->device_info.has_graphs &&
           bench->row_bucket_count > 0;
}

/* A row on the scratch page in the shape of each bucket, then the graphs, as the engine does. */
static int bench_engine_capture(struct bench_engine *bench) {
    static const int32_t token = 0;
    enum forward_status status = FORWARD_OK;
    if (!bench_engine_has_graphs(bench)) {
        return COMMAND_EXIT_OK;
    }
    for (uint32_t i = 0; i < bench->row_bucket_count && status == FORWARD_OK; i++) {
        batch_clear(&bench->batch);
        batch_add_segment(&bench->batch, 0, 0, &token, 1);
        batch_add_sampled(&bench->batch, 0);
        status = forward_warm_up(bench->forward, &bench->batch, bench->row_buckets[i], bench->err,
                                 bench->err_bytes);
    }
    if (status == FORWARD_OK) {
        status = forward_capture(bench->forward, bench->err, bench->err_bytes);
    }
    return status == FORWARD_OK ? COMMAND_EXIT_OK : COMMAND_EXIT_NO_DEVICE;
}

static int bench_engine_open_forward(struct bench_engine *bench) {
    const struct bench_engine_options *options = bench->options;
    uint32_t tokens = options->prompt_tokens + options->completion_tokens;
    uint32_t slot_pages = (tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    struct forward_options forward = {.limits = {.rows_max = bench_engine_rows_max(options),
                                                 .slots_max = options->batch,
                                                 .sampled_max = options->batch,
                                                 .slot_pages_max = slot_pages,
                                                 .vocabulary = bench->model->config.vocabulary,
                                                 .seen_max = 1},
                                      .page_count = options->batch * slot_pages + 1,
                                      .row_buckets =
                                          bench->row_bucket_count > 0 ? bench->row_buckets : NULL,
                                      .row_bucket_count = bench->row_bucket_count,
                                      .head_sketch = bench->model->sketch.weight.packed != NULL,
                                      .has_graphs = bench_engine_has_graphs(bench),
                                      .fast = bench->model->head->form.fast};
    enum forward_status status =
        forward_open(bench->model, &forward, &bench->forward, bench->err, bench->err_bytes);
    if (status != FORWARD_OK) {
        return status == FORWARD_UNSUPPORTED ? COMMAND_EXIT_BAD_MODEL : COMMAND_EXIT_NO_DEVICE;
    }
    if (!batch_init(&bench->batch, &forward.limits)) {
        snprintf(bench->err, bench->err_bytes, "out of memory");
        return COMMAND_EXIT_NO_DEVICE;
    }
    return bench_engine_capture(bench);
}

/* Each sequence has its own pages and a prompt of its own: nothing can be shared. */
static int bench_engine_make_sequences(struct bench_engine *bench) {
    const struct bench_engine_options *options = bench->options;
    size_t prompt_tokens = (size_t)options->batch * options->prompt_tokens;
    uint32_t slot_pages = bench->batch.limits.slot_pages_max;
    size_t first_tokens = (size_t)options->repetitions * options->batch;
    size_t steps = (size_t)options->repetitions * options->completion_tokens;
    int32_t *pages = calloc(slot_pages, sizeof *pages);
    bench->prompts = calloc(prompt_tokens, sizeof *bench->prompts);
    bench->last = calloc(options->batch, sizeof *bench->last);
    bench->first_token_ms = calloc(first_tokens, sizeof *bench->first_token_ms);
    bench->step_ms = calloc(steps, sizeof *bench->step_ms);
    bool is_whole =
        pages && bench->prompts && bench->last && bench->first_token_ms && bench->step_ms;
    uint64_t random = 1;
    for (size_t i = 0; i < prompt_tokens && is_whole; i++) {
        bench->prompts[i] = (int32_t)bench_random_below(&random, bench->model->config.vocabulary);
    }
    for (uint32_t slot = 0; slot < options->batch && is_whole; slot++) {
        for (uint32_t i = 0; i < slot_pages; i++) {
            pages[i] = (int32_t)(1 + slot * slot_pages + i);
        }
        batch_set_pages(&bench->batch, slot, pages, slot_pages);
    }
    free(pages);
    if (!is_whole) {
        snprintf(bench->err, bench->err_bytes, "out of memory");
    }
    return is_whole ? COMMAND_EXIT_OK : COMMAND_EXIT_NO_DEVICE;
}

static void bench_engine_close(struct bench_engine *bench) {
    free(bench->prompts);
    free(bench->last);
    free(bench->first_token_ms);
    free(bench->step_ms);
    batch_deinit(&bench->batch);
    forward_close(bench->forward);
    model_close(bench->model);
    device_close(bench->device);
    device_close(bench->watched);
}

/* ---- running --------------------------------------------------------------------------------- */

static int bench_engine_step(struct bench_engine *bench) {
    struct batch *batch = &bench->batch;
    if (forward_run(bench->forward, batch, bench->err, bench->err_bytes) != FORWARD_OK) {
        return COMMAND_EXIT_NO_DEVICE;
    }
    for (uint32_t i = 0; i < batch->sampled_count; i++) {
        if (batch->sampled_bad[i]) {
            snprintf(bench->err, bench->err_bytes, "the model computed no finite number");
            return COMMAND_EXIT_BAD_MODEL;
        }
        bench->last[batch->slot[batch->sampled_row[i]]] = batch->sampled_token[i];
    }
    return COMMAND_EXIT_OK;
}

/* Puts the prompts' next rows into a step, sequence after sequence, as the scheduler does. */
static void bench_engine_fill_chunk(struct bench_engine *bench, size_t *next) {
    const struct bench_engine_options *options = bench->options;
    size_t end = (size_t)options->batch * options->prompt_tokens;
    batch_clear(&bench->batch);
    while (*next < end && bench->batch.row_count < options->prefill_chunk_tokens) {
        uint32_t slot = (uint32_t)(*next / options->prompt_tokens);
        uint32_t position = (uint32_t)(*next % options->prompt_tokens);
        uint32_t count = options->prompt_tokens - position;
        uint32_t room = options->prefill_chunk_tokens - bench->batch.row_count;
        count = count < room ? count : room;
        uint32_t row =
            batch_add_segment(&bench->batch, slot, position, bench->prompts + *next, count);
        if (position + count == options->prompt_tokens) {
            batch_add_sampled(&bench->batch, row + count - 1);
        }
        *next += count;
    }
}

/* `counted`: whether this is a repetition whose figures count. */
static int bench_engine_prefill(struct bench_engine *bench, bool counted, int64_t *took_ns) {
    size_t total = (size_t)bench->options->batch * bench->options->prompt_tokens;
    int64_t start_ns = clock_monotonic_ns(NULL);
    for (size_t next = 0; next < total;) {
        bench_engine_fill_chunk(bench, &next);
        int code = bench_engine_step(bench);
        if (code) {
            return code;
        }
        for (uint32_t i = 0; i < bench->batch.sampled_count && counted; i++) {
            bench->first_token_ms[bench->first_token_count++] = bench_engine_ms_since(start_ns);
        }
    }
    *took_ns = clock_monotonic_ns(NULL) - start_ns;
    return COMMAND_EXIT_OK;
}

static int bench_engine_decode(struct bench_engine *bench, uint32_t tokens, bool counted,
                               int64_t *took_ns) {
    const struct bench_engine_options *options = bench->options;
    int64_t start_ns = clock_monotonic_ns(NULL);
    for (uint32_t i = 0; i < tokens; i++) {
        int64_t step_ns = clock_monotonic_ns(NULL);
        batch_clear(&bench->batch);
        for (uint32_t slot = 0; slot < options->batch; slot++) {
            uint32_t row = batch_add_segment(&bench->batch, slot, options->prompt_tokens + i,
                                             &bench->last[slot], 1);
            batch_add_sampled(&bench->batch, row);
        }
        int code = bench_engine_step(bench);
        if (code) {
            return code;
        }
        if (counted) {
            bench->step_ms[bench->step_count++] = bench_engine_ms_since(step_ns);
        }
    }
    *took_ns = clock_monotonic_ns(NULL) - start_ns;
    return COMMAND_EXIT_OK;
}

static int bench_engine_repeat(struct bench_engine *bench) {
    const struct bench_engine_options *options = bench->options;
    double sequences = options->batch;
    int64_t prefill_ns = 0, decode_ns = 0;
    uint32_t warm_up_tokens = options->completion_tokens < BENCH_ENGINE_WARM_UP_TOKENS
                                  ? options->completion_tokens
                                  : BENCH_ENGINE_WARM_UP_TOKENS;
    int code = bench_engine_prefill(bench, false, &prefill_ns);
    if (code == COMMAND_EXIT_OK) {
        code = bench_engine_decode(bench, warm_up_tokens, false, &decode_ns);
    }
    for (uint32_t i = 0; i < options->repetitions && code == COMMAND_EXIT_OK; i++) {
        code = bench_engine_prefill(bench, true, &prefill_ns);
        if (code == COMMAND_EXIT_OK) {
            code = bench_engine_decode(bench, options->completion_tokens, true, &decode_ns);
        }
        bench->prefill_rates[i] =
            bench_statistics_rate(sequences * options->prompt_tokens, prefill_ns);
        bench->decode_rates[i] =
            bench_statistics_rate(sequences * options->completion_tokens, decode_ns);
    }
    return code;
}

/* A repetition that is not counted: where its time goes. */
static int bench_engine_profile(struct bench_engine *bench, struct bench_engine_report *report) {
    const struct bench_engine_options *options = bench->options;
    uint32_t rows = options->batch * options->prompt_tokens;
    int64_t took_ns = 0;
    bench->profile = (struct profile){0};
    int code = bench_engine_prefill(bench, false, &took_ns);
    if (code == COMMAND_EXIT_OK) {
        step_profile_read(&bench->profile, (rows - 1) / options->prefill_chunk_tokens + 1,
                          (uint64_t)took_ns, &report->prefill_profile);
        bench->profile = (struct profile){0};
        code = bench_engine_decode(bench, options->completion_tokens, false, &took_ns);
    }
    if (code == COMMAND_EXIT_OK) {
        step_profile_read(&bench->profile, options->completion_tokens, (uint64_t)took_ns,
                          &report->decode_profile);
    }
    return code;
}

static void bench_engine_fill_report(struct bench_engine *bench,
                                     struct bench_engine_report *report) {
    uint32_t repetitions = bench->options->repetitions;
    report->prefill_tokens_per_s = bench_statistics_median(bench->prefill_rates, repetitions);
    report->decode_tokens_per_s = bench_statistics_median(bench->decode_rates, repetitions);
    report->decode_tokens_per_s_min = bench->decode_rates[0];
    report->decode_tokens_per_s_max = bench->decode_rates[repetitions - 1];
    report->first_token_ms_p50 =
        bench_statistics_median(bench->first_token_ms, bench->first_token_count);
    report->step_ms_p50 = bench_statistics_median(bench->step_ms, bench->step_count);
    report->peak_bytes = bench_machine_peak_bytes();
    report->device = bench->device_info;
}

int bench_engine_measure(const struct bench_engine_options *options,
                         struct bench_engine_report *report, char *err, size_t err_bytes) {
    assert(options->batch >= 1 && options->repetitions >= 1);
    assert(options->repetitions <= BENCH_ENGINE_REPETITIONS_MAX);
    struct bench_engine *bench = calloc(1, sizeof *bench);
    struct bench_machine_load load;
    if (!bench) {
        snprintf(err, err_bytes, "out of memory");
        return COMMAND_EXIT_NO_DEVICE;
    }
    bench->options = options;
    bench->err = err;
    bench->err_bytes = err_bytes;
    int code = bench_engine_open_model(bench);
    code = code ? code : bench_engine_open_forward(bench);
    code = code ? code : bench_engine_make_sequences(bench);
    bench_machine_load_start(&load);
    code = code ? code : bench_engine_repeat(bench);
    if (code == COMMAND_EXIT_OK) {
        bench_engine_fill_report(bench, report);
        report->foreign_share = bench_machine_foreign_share(&load);
        code = options->profile ? bench_engine_profile(bench, report) : COMMAND_EXIT_OK;
    }
    bench_engine_close(bench);
    free(bench);
    return code;
}
