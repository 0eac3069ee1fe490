/* A measurement of the forward pass alone: prompts of equal length computed in chunks, then answers
 * of equal length, a token of every sequence a step; no queue, no text, nothing that could end
 * early.
 *
 * Owns device, model and KV pages while it runs; one thread. Peak memory is the process's: measure
 * one batch size a process. Refuses to know how the report is printed. */
#ifndef SOLFLEET_CONSUMER_BENCH_ENGINE_H
#define SOLFLEET_CONSUMER_BENCH_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/model.h"
#include "engine/step_profile.h"

#define BENCH_ENGINE_BATCH_MAX 1024
#define BENCH_ENGINE_REPETITIONS_MAX 100

struct bench_engine_options {
    const char *model_path, *device, *cublaslt, *cpu_tier; /* cpu_tier NULL = by cpuid */
    enum model_policy policy;
    uint32_t threads;
    uint32_t batch;
    uint32_t prompt_tokens, completion_tokens;
    uint32_t prefill_chunk_tokens; /* prompt rows of a step */
    uint32_t repetitions;          /* after a short one that is not counted */
    bool graphs;  /* decode steps as graphs where the device has them, as the engine launches them;
                     not in a profile, which has to see each op */
    bool profile; /* one more repetition, for where its time goes; ops are waited for */
};

/* Rates are medians over the repetitions, percentiles are over all repetitions together. */
struct bench_engine_report {
    double prefill_tokens_per_s;
    double
        decode_tokens_per_s; /* of all sequences: batch * completion_tokens / time of the steps */
    double decode_tokens_per_s_min, decode_tokens_per_s_max;
    double first_token_ms_p50; /* from the start of the prefill to a sequence's first token */
    double step_ms_p50;        /* of steps with a token of every sequence */
    double foreign_share;      /* of the machine's processor time, taken by others meanwhile */
    size_t peak_bytes;
    struct device_info device;
    struct step_profile prefill_profile, decode_profile; /* only if asked for */
};

/* Returns a command_exit; err says what went wrong. */
int bench_engine_measure(const struct bench_engine_options *options,
                         struct bench_engine_report *report, char *err, size_t err_bytes);

#endif
