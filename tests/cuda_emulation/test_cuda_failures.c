/* Every call of the runtime and of cuBLASLt that an engine makes in its whole life fails once: in
 * opening the device, loading, warming up, capturing, steps by graphs and op by op, closing.
 *
 * One life is lived; before each of its calls the process forks, and in the child that call fails,
 * and the child lives to its end and says how it ended. So every call is tried at the cost of what
 * comes after it. Calls whose failure is lived with take a whole life: of those a sample drawn by
 * the seed, at least one of each kind in each phase; another sample is of calls from which on the
 * card is lost. With SOLFLEET_CUDA_SHUFFLES of 8 or more there is no sampling.
 * Some fail in this very process, where the leak checker looks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"

enum { OUT_OF_MEMORY = 2, LAUNCH_FAILURE = 719 };
enum { CUBLAS_ALLOC_FAILED = 3, CUBLAS_EXECUTION_FAILED = 13, CUBLAS_NOT_SUPPORTED = 15 };
enum { STEPS_MAX = 100, CHILD_SECONDS_MAX = 120, SAMPLED_ONE_IN = 4, KINDS_MAX = 64 };

/* ---------------------------------------------------------------- a life */

enum phase { PHASE_DEVICE, PHASE_LOAD, PHASE_WARM_UP, PHASE_STEPS, PHASE_CLOSE, PHASE_COUNT };
static const char *const phase_names[] = {"device", "load", "warm-up", "steps", "close"};

enum end { END_ANSWERED, END_REFUSED, END_FAILED, END_HANGS };

struct life {
    struct engine_options options;
    enum phase phase;
    enum end end;
    char err[512];
    char answer[SHA256_HEX_BYTES]; /* "" = none was given */
    size_t objects_left;
};

static struct engine_options options_of(bool graphs_off) {
    struct engine_options options = tiny_engine_options();
    options.device = "cuda:0";
    options.max_model_len = 32;
    options.max_batch_size = 1;
    options.max_running = 1;
    options.max_queue_size = 1;
    options.prefill_chunk_tokens = 9; /* more than 8 rows go through cuBLASLt */
    options.max_speculative_tokens = -1;
    options.repetition_cycles = -1;
    options.kv_cache_bytes = 4 * 4096;
    options.graphs_off = graphs_off;
    return options;
}

static void take_answers(struct engine *engine, struct life *life) {
    struct engine_event event;
    while (engine_take_events(engine, &event, 1) == 1) {
        if (event.kind == ENGINE_EVENT_FINISHED) {
            memcpy(life->answer, event.answer_sha256, sizeof life->answer);
        }
        engine_event_deinit(&event);
    }
}

static void work(struct engine *engine, struct life *life) {
    struct job_error rejected;
    struct job job = engine_run_job("failures", "abcdefghij", 3);
    enum engine_status status = engine_submit(engine, 0, &job, &rejected);
    life->end = END_HANGS;
    for (int i = 0; i < STEPS_MAX && status == ENGINE_OK && life->answer[0] == '\0'; i++) {
        bool worked = false;
        status = engine_step(engine, &worked, life->err, sizeof life->err);
        take_answers(engine, life);
    }
    if (status != ENGINE_OK) {
        life->end = status == ENGINE_FAILED ? END_FAILED : END_HANGS;
    } else if (life->answer[0] != '\0') {
        life->end = END_ANSWERED;
    }
}

/* Without an assertion: children come by here. */
static void live(struct life *life, bool graphs_off, uint64_t seed) {
    struct engine *engine = NULL;
    *life = (struct life){.options = options_of(graphs_off), .phase = PHASE_DEVICE};
    emulation_reset(seed);
    if (engine_open(&life->options, &engine, life->err, sizeof life->err) != ENGINE_OK) {
        life->end = END_REFUSED;
    } else {
        life->phase = PHASE_STEPS;
        work(engine, life);
        life->phase = PHASE_CLOSE;
    }
    engine_close(engine);
    life->objects_left = emulation_live_objects();
}

/* Phases of opening begin with calls that come nowhere before. */
static void note_phase(struct life *life, const char *name) {
    if (life->phase == PHASE_DEVICE && strcmp(name, "cudaMalloc") == 0) {
        life->phase = PHASE_LOAD;
    } else if (life->phase == PHASE_LOAD && strcmp(name, "cudaMallocHost") == 0) {
        life->phase = PHASE_WARM_UP;
    }
}

/* ---------------------------------------------------------------- how it has to end */

static bool is_one_of(const char *name, const char *const *names) {
    while (*names != NULL && strcmp(name, *names) != 0) {
        names++;
    }
    return *names != NULL;
}

/* What it was to free stays; nothing else comes of it. */
static bool is_release(const char *name) {
    static const char *const names[] = {"cudaFree", "cudaFreeHost", NULL};
    return is_one_of(name, names) || strstr(name, "Destroy") != NULL;
}

/* What is free is asked for the plan and for the log; a thread may be bound already. */
static bool may_be_lived_with(const char *name, int status) {
    static const char *const names[] = {"cudaMemGetInfo", "cudaSetDevice", NULL};
    return is_one_of(name, names) || status == CUBLAS_NOT_SUPPORTED;
}

static int status_of(const char *name) {
    static const char *const makers[] = {"cudaMalloc",
                                         "cudaMallocHost",
                                         "cudaStreamCreateWithFlags",
                                         "cudaEventCreateWithFlags",
                                         "cudaGraphInstantiate",
                                         NULL};
    if (strcmp(name, "cublasLtMatmul") == 0) {
        return CUBLAS_EXECUTION_FAILED;
    }
    if (strncmp(name, "cublas", 6) == 0) {
        return CUBLAS_ALLOC_FAILED;
    }
    return is_one_of(name, makers) ? OUT_OF_MEMORY : LAUNCH_FAILURE;
}

struct trial {
    const char *name;
    int status;
    bool is_lost; /* all calls from then on */
    enum phase phase;
};

/* What a step that fails says of it; what opening says is for people. */
static const char *words_of(const struct trial *trial) {
    static const char *const words[][2] = {{"cudaMemcpyAsync", "copy "},
                                           {"cudaStreamWaitEvent", "copy "},
                                           {"cudaEventRecord", "copy "},
                                           {"cudaMemsetAsync", "fill: the device failed"},
                                           {"launch", ": the device failed"},
                                           {"cublasLtMatmul", "linear_i8: the device failed"},
                                           {"cudaGraphLaunch", "graph: the device failed"},
                                           {"cudaStreamSynchronize", "cudaErrorLaunchFailure"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !trial->is_lost; i++) {
        if (trial->phase == PHASE_STEPS && strcmp(words[i][0], trial->name) == 0) {
            return words[i][1];
        }
    }
    return trial->is_lost ? "cudaErrorLaunchFailure" : "";
}

/* "" = as it has to. An answer that was given is the right one, whatever happened; a step that
 * fails is fatal, for the worker to give its jobs back; a card that is there has nothing left on
 * it. */
static const char *what_is_wrong(const struct trial *trial, const struct life *life,
                                 const char *answer) {
    bool is_harmless = is_release(trial->name) && !trial->is_lost;
    bool is_lived_with = is_harmless || trial->phase == PHASE_CLOSE ||
                         (may_be_lived_with(trial->name, trial->status) && !trial->is_lost);
    enum end fatal = trial->phase < PHASE_STEPS ? END_REFUSED : END_FAILED;
    bool is_fatal = life->end == fatal ||
                    (trial->is_lost && life->end == END_FAILED); /* noticed in the first step */
    if (life->end == END_HANGS) {
        return "it did not end";
    }
    if (life->end == END_ANSWERED && !is_lived_with) {
        return "the failure was passed over";
    }
    if (life->end != END_ANSWERED && (is_harmless || !is_fatal)) {
        return "it ended in another way";
    }
    if (life->end != END_ANSWERED && life->err[0] == '\0') {
        return "it says nothing";
    }
    if (life->end == END_FAILED && strstr(life->err, words_of(trial)) == NULL) {
        return "it does not say why";
    }
    if (life->end == END_ANSWERED ? strcmp(life->answer, answer) != 0 : life->answer[0] != '\0') {
        return "an answer that is not the right one";
    }
    if (!trial->is_lost && life->objects_left != is_harmless) {
        return "something was left on the device";
    }
    return "";
}

static bool is_right(const struct trial *trial, const struct life *life, const char *answer) {
    const char *wrong = what_is_wrong(trial, life, answer);
    if (wrong[0] != '\0') {
        fprintf(stderr, "%s fails in %s with %d%s: %s (end %d, %zu objects left, \"%s\")\n",
                trial->name, phase_names[trial->phase], trial->status,
                trial->is_lost ? ", the card lost" : "", wrong, (int)life->end, life->objects_left,
                life->err);
    }
    return wrong[0] == '\0';
}

/* ---------------------------------------------------------------- every call */

struct kind {
    const char *name;
    unsigned calls, tried, lost;
};

struct sweep {
    struct life life;
    struct trial trial; /* in a child */
    bool is_child, is_thorough;
    uint64_t random;
    size_t calls, trials, wrong;
    struct kind kinds[PHASE_COUNT][KINDS_MAX];
};

static struct kind *kind_of(struct sweep *sweep, const char *name) {
    struct kind *kind = sweep->kinds[sweep->life.phase];
    while (kind->name != NULL && strcmp(kind->name, name) != 0) {
        kind++;
    }
    kind->name = name;
    return kind;
}

/* In the child, returns to go on with the life. */
static void fail_in_child(struct sweep *sweep, const char *name, int status, bool is_lost) {
    pid_t child = fork();
    if (child == 0) {
        sweep->is_child = true;
        sweep->trial = (struct trial){name, status, is_lost, sweep->life.phase};
        emulation_watch_calls(NULL, NULL);
        alarm(CHILD_SECONDS_MAX);
        if (is_lost) {
            emulation_lose_device();
        } else {
            emulation_fail_call(name, 1, status);
        }
        return;
    }
    int how = 0;
    bool has_ended = child > 0 && waitpid(child, &how, 0) == child;
    sweep->trials++;
    if (!has_ended || !WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        fprintf(stderr, "call %zu, %s in %s: the child ended with %d\n", sweep->calls, name,
                phase_names[sweep->life.phase], how);
        sweep->wrong++;
    }
}

static bool is_drawn(struct sweep *sweep, unsigned had) {
    return sweep->is_thorough || had == 0 || test_random(&sweep->random) % SAMPLED_ONE_IN == 0;
}

static void before_call(void *context, const char *name) {
    struct sweep *sweep = context;
    note_phase(&sweep->life, name);
    struct kind *kind = kind_of(sweep, name);
    bool takes_long = sweep->life.phase < PHASE_STEPS &&
                      (is_release(name) || may_be_lived_with(name, status_of(name)));
    sweep->calls++;
    kind->calls++;
    if (!takes_long || is_drawn(sweep, kind->tried)) {
        kind->tried++;
        fail_in_child(sweep, name, status_of(name), false);
    }
    if (!sweep->is_child && is_drawn(sweep, kind->lost)) {
        kind->lost++;
        fail_in_child(sweep, name, 0, true);
    }
    if (!sweep->is_child && strcmp(name, "cublasLtMatmulAlgoGetHeuristic") == 0 &&
        is_drawn(sweep, kind->calls - 1)) {
        fail_in_child(sweep, name, CUBLAS_NOT_SUPPORTED, false);
    }
}

static void fail_every_call(bool graphs_off) {
    static struct sweep sweep;
    struct life clean;
    uint64_t seed = test_seed();
    live(&clean, graphs_off, seed);
    assert_int_equal(clean.end, END_ANSWERED);
    assert_int_equal(clean.objects_left, 0);
    sweep = (struct sweep){.random = seed, .is_thorough = emulation_shuffles(1) >= 8};
    emulation_watch_calls(before_call, &sweep);
    live(&sweep.life, graphs_off, seed);
    if (sweep.is_child) {
        _exit(is_right(&sweep.trial, &sweep.life, clean.answer) ? 0 : 1);
    }
    emulation_watch_calls(NULL, NULL);
    assert_int_equal(sweep.life.end, END_ANSWERED);
    assert_string_equal(sweep.life.answer, clean.answer);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        assert_non_null(sweep.kinds[phase][0].name);
        for (const struct kind *kind = sweep.kinds[phase]; kind->name != NULL; kind++) {
            printf("%s: %s %u of %u\n", phase_names[phase], kind->name, kind->tried, kind->calls);
            assert_true(kind->tried >= 1 && kind->lost >= 1);
        }
    }
    printf("%zu calls, %zu trials, %zu wrong\n", sweep.calls, sweep.trials, sweep.wrong);
    assert_int_equal(sweep.wrong, 0);
}

static void ends_cleanly_whichever_call_fails_with_graphs(void **state) {
    fail_every_call(false);
}

static void ends_cleanly_whichever_call_fails_op_by_op(void **state) {
    fail_every_call(true);
}

/* ---------------------------------------------------------------- in this process */

struct single {
    struct life life;
    struct trial trial;
    size_t left; /* calls until the one that fails */
};

static void before_single(void *context, const char *name) {
    struct single *single = context;
    note_phase(&single->life, name);
    if (single->left-- == 0) {
        single->trial = (struct trial){name, status_of(name), false, single->life.phase};
        emulation_watch_calls(NULL, NULL);
        emulation_fail_call(name, 1, single->trial.status);
    }
}

static void leaks_nothing_when_a_call_fails(void **state) {
    struct life clean;
    uint64_t random = test_seed();
    size_t count;
    live(&clean, false, random);
    emulation_trace(&count);
    for (unsigned i = 0; i < 4 * emulation_shuffles(1); i++) {
        struct single single = {.left = test_random(&random) % count};
        emulation_watch_calls(before_single, &single);
        live(&single.life, false, random);
        assert_non_null(single.trial.name);
        assert_true(is_right(&single.trial, &single.life, clean.answer));
    }
    emulation_reset(0); /* what was not released is the emulation's to free */
}

TEST_MAIN_WITH(tiny_engine_write_small_model, tiny_engine_free_model,
               cmocka_unit_test(ends_cleanly_whichever_call_fails_with_graphs),
               cmocka_unit_test(ends_cleanly_whichever_call_fails_op_by_op),
               cmocka_unit_test(leaks_nothing_when_a_call_fails))
