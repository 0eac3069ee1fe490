/* The engine's streams on the emulated device: the next step's inputs are copied while a step
 * computes, the host waits once a step, and answers do not depend on when a copy is done. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"

enum {
    JOBS = 3,
    TOKENS = 9,
    LONG_TOKENS = 32,
    PAGE_BYTES = 2048,
    COMPUTE = 0,
    COPY = 1,
    GRAIN_BYTES = 64
};

/* ---------------------------------------------------------------- jobs */

static struct job make_job(uint32_t i, uint32_t tokens, bool has_penalties) {
    static const char *const prompts[JOBS] = {"abc", "hfdbhfdbhfdbhfdbh", "the quick brown fox"};
    static const char *const ids[JOBS] = {"ahead-0", "ahead-1", "ahead-2"};
    struct job job = engine_run_job(ids[i], prompts[i], tokens + i);
    job.params.temperature = i < 2 ? 0.0f : 0.8f;
    job.params.repetition_penalty = has_penalties ? 1.2f : 1.0f;
    return job;
}

static struct job plain_job(uint32_t i) {
    return make_job(i, TOKENS, false);
}

static struct job penalised_job(uint32_t i) {
    return make_job(i, TOKENS, true);
}

/* Asks for a third page when it has begun with two. */
static struct job long_job(uint32_t i) {
    return make_job(i, LONG_TOKENS, false);
}

static struct engine_options options_of(const char *device) {
    struct engine_options options = tiny_engine_options();
    options.device = device;
    options.max_model_len = 64;
    options.max_batch_size = JOBS;
    options.max_running = JOBS;
    options.max_queue_size = JOBS;
    options.prefill_chunk_tokens = 7;
    options.max_speculative_tokens = -1;
    options.repetition_cycles = -1;
    options.kv_cache_bytes = 16 * PAGE_BYTES;
    return options;
}

/* ---------------------------------------------------------------- what a step does */

struct step {
    size_t syncs, other_waits;
    size_t launches;      /* of a graph or of kernels, on the compute stream */
    size_t sent_ahead;    /* copies on the copy stream, after a launch */
    size_t sent_early;    /* and before: nothing would overlap */
    bool waits_for_ahead; /* the compute stream waits for an event before its first launch */
    bool copy_waits;      /* the copy stream before its first copy */
    size_t moved_bytes;   /* by the first copy after that wait, within the device */
    size_t patched_bytes; /* by those from then on to the launch */
    size_t fresh_bytes;   /* before a launch, without that wait */
};

static void note_copy(struct step *step, const struct emulation_noted *noted) {
    if (noted->stream == COPY) {
        step->sent_ahead += step->launches > 0;
        step->sent_early += step->launches == 0;
        assert_true(step->copy_waits);
    } else if (step->launches > 0) {
        return; /* tokens come back */
    } else if (!step->waits_for_ahead) {
        step->fresh_bytes += noted->bytes;
    } else if (step->moved_bytes == 0) {
        step->moved_bytes = noted->bytes;
    } else {
        step->patched_bytes += noted->bytes;
    }
}

static void note(struct step *step, const struct emulation_noted *noted) {
    const char *name = noted->name;
    if (strcmp(name, "cudaStreamSynchronize") == 0) {
        step->syncs += noted->stream == COMPUTE;
        step->other_waits += noted->stream != COMPUTE;
    } else if (strcmp(name, "cudaDeviceSynchronize") == 0 ||
               strcmp(name, "cudaEventSynchronize") == 0 || strcmp(name, "cudaEventQuery") == 0) {
        step->other_waits++;
    } else if (strcmp(name, "launch") == 0 || strcmp(name, "cudaGraphLaunch") == 0) {
        assert_int_equal(noted->stream, COMPUTE);
        step->launches++;
    } else if (strcmp(name, "cudaStreamWaitEvent") == 0) {
        step->waits_for_ahead |= noted->stream == COMPUTE && step->launches == 0;
        step->copy_waits |= noted->stream == COPY;
    } else if (strcmp(name, "cudaMemcpyAsync") == 0) {
        note_copy(step, noted);
    }
}

/* One engine_step's calls; *at moves to the end of the trace. */
static struct step take_step(struct engine *engine, size_t *at) {
    struct step step = {0};
    size_t count;
    engine_run_step(engine, NULL, 0);
    for (const struct emulation_noted *trace = emulation_trace(&count); *at < count; ++*at) {
        note(&step, &trace[*at]);
    }
    return step;
}

static struct engine *submit_all(const struct engine_options *options) {
    struct engine *engine = tiny_engine_open(options);
    for (uint32_t i = 0; i < JOBS; i++) {
        struct job_error rejected;
        struct job job = plain_job(i);
        assert_int_equal(engine_submit(engine, i, &job, &rejected), ENGINE_OK);
    }
    return engine;
}

static void check_steps(bool graphs_off) {
    struct engine_options options = options_of("cuda:0");
    struct engine_stats stats = {0};
    bool was_sent = false;
    size_t at = 0, steps = 0, small = 0;
    emulation_reset(test_seed());
    options.graphs_off = graphs_off;
    struct engine *engine = submit_all(&options);
    emulation_trace(&at); /* what opening took is past */
    for (uint64_t ended = 0; ended < JOBS; steps++) {
        struct step step = take_step(engine, &at);
        struct engine_event event;
        assert_int_equal(step.syncs, 1);
        assert_int_equal(step.other_waits, 0);
        assert_int_equal(step.sent_early, 0);
        assert_true(step.launches > 0);
        assert_int_equal(step.waits_for_ahead, was_sent);
        assert_int_equal(step.fresh_bytes == 0, was_sent);
        small += was_sent && step.moved_bytes > 0 && step.patched_bytes <= GRAIN_BYTES;
        was_sent = step.sent_ahead > 0;
        while (engine_take_events(engine, &event, 1) == 1) {
            ended += event.kind == ENGINE_EVENT_FINISHED;
            engine_event_deinit(&event);
        }
        assert_true(was_sent || ended == JOBS); /* every step but the last */
    }
    assert_true(small >=
                TOKENS - 4); /* but for prompts and ends, tokens are all that was unknown */
    engine_stats(engine, &stats);
    assert_int_equal(stats.steps_total, steps);
    engine_close(engine);
    assert_string_equal(emulation_last_report(), "");
    assert_int_equal(emulation_live_objects(), 0);
}

static void copies_the_next_steps_inputs_while_a_step_computes(void **state) {
    check_steps(false);
    check_steps(true);
}

/* ---------------------------------------------------------------- late and early copies */

struct situation {
    const char *name;
    struct job (*make)(uint32_t i);
    uint32_t max_batch_size, chunk, pages;
    int32_t drafts;
};

static const struct situation situations[] = {
    {"together", plain_job, JOBS, 24, 16, -1},
    {"in chunks, two in a step, with penalties", penalised_job, 2, 5, 16, -1},
    {"preempted, with guesses of tokens", long_job, 2, 5, 5, 3},
};

static void run_situation(const struct situation *situation, const char *device,
                          char hashes[JOBS][SHA256_HEX_BYTES], int held, uint64_t seed) {
    struct engine_options options = options_of(device);
    struct engine_event finished[JOBS];
    struct engine_stats stats;
    options.max_batch_size = situation->max_batch_size;
    options.prefill_chunk_tokens = situation->chunk;
    options.kv_cache_bytes = situation->pages * PAGE_BYTES;
    options.max_speculative_tokens = situation->drafts;
    emulation_reset(seed);
    struct engine *engine = tiny_engine_open(&options);
    emulation_hold_stream(held);
    tiny_engine_run(engine, situation->make, JOBS, false, finished);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(finished[i].error.code, ERROR_NONE);
        memcpy(hashes[i], finished[i].answer_sha256, SHA256_HEX_BYTES);
    }
    engine_run_free(finished, JOBS);
    engine_stats(engine, &stats);
    assert_true(stats.preemptions_total > 0 || situation->pages > 5);
    assert_true(stats.drafted_tokens_total > 0 || situation->drafts < 0);
    engine_close(engine);
    assert_string_equal(emulation_last_report(), "");
    assert_int_equal(emulation_live_objects(), 0);
}

static void answers_the_same_however_late_a_stream_is(void **state) {
    static const int held[] = {COMPUTE, COPY};
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof situations / sizeof situations[0]; i++) {
        char expected[JOBS][SHA256_HEX_BYTES], got[JOBS][SHA256_HEX_BYTES];
        run_situation(&situations[i], "cpu", expected, -1, 0);
        for (unsigned shuffle = 0; shuffle < emulation_shuffles(1); shuffle++) {
            for (size_t h = 0; h < sizeof held / sizeof held[0]; h++) {
                run_situation(&situations[i], "cuda:0", got, held[h], test_random(&random));
                for (uint32_t job = 0; job < JOBS; job++) {
                    if (strcmp(got[job], expected[job]) != 0) {
                        fail_msg("%s, stream %d late: job %u has another answer",
                                 situations[i].name, held[h], job);
                    }
                }
            }
        }
    }
}

/* A job that goes, and one that comes, change what was guessed. */
static void answers_the_same_when_the_guess_was_wrong(void **state) {
    const struct engine_options on_cpu = options_of("cpu"), options = options_of("cuda:0");
    struct engine_event event, expected;
    struct job_error rejected;
    struct job job = penalised_job(2);
    struct engine *engine = tiny_engine_open(&on_cpu);
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    engine_run_finish(engine, NULL, &expected, 1);
    engine_close(engine);
    emulation_reset(test_seed());
    engine = tiny_engine_open(&options);
    emulation_hold_stream(COPY);
    for (uint32_t i = 0; i < 2; i++) {
        job = plain_job(i);
        assert_int_equal(engine_submit(engine, i, &job, &rejected), ENGINE_OK);
    }
    for (int i = 0; i < 5; i++) {
        engine_run_step(engine, NULL, 0);
    }
    job = penalised_job(2);
    assert_true(engine_cancel(engine, 0, FINISH_CANCELLED));
    assert_int_equal(engine_submit(engine, 2, &job, &rejected), ENGINE_OK);
    for (bool ended = false; !ended;) {
        engine_run_step(engine, NULL, 0);
        while (engine_take_events(engine, &event, 1) == 1) {
            if (event.kind == ENGINE_EVENT_FINISHED && event.ticket == 2) {
                assert_string_equal(event.answer_sha256, expected.answer_sha256);
                ended = true;
            }
            engine_event_deinit(&event);
        }
    }
    engine_close(engine); /* with a guess under way */
    engine_event_deinit(&expected);
    assert_string_equal(emulation_last_report(), "");
    assert_int_equal(emulation_live_objects(), 0);
}

TEST_MAIN_WITH(tiny_engine_write_small_model, tiny_engine_free_model,
               cmocka_unit_test(copies_the_next_steps_inputs_while_a_step_computes),
               cmocka_unit_test(answers_the_same_however_late_a_stream_is),
               cmocka_unit_test(answers_the_same_when_the_guess_was_wrong))
