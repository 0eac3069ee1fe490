/* Values that are not numbers, and numbers that are hard on quantisation, through the whole engine:
 * only the job whose row holds them fails, or nobody; the answers beside it do not change a bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_real.h"
#include "kernels/canonical.h"
#include "tests/support/engine_run.h"
#include "tests/support/kernel_test.h"
#include "tests/support/scripted_llama.h"
#include "tests/support/test.h"

/* What stands in the embedding of a token that no other prompt has. */
struct fault {
    const char *name;
    char token;
    float value;     /* of one element */
    bool is_alone;   /* all the others are zero */
    bool is_numeric; /* the job fails; otherwise its answer is as long as was asked */
};

static const struct fault faults[] = {
    {"nan", '0', NAN, false, true},
    {"negative nan", '1', -NAN, false, true},
    {"infinity", '2', INFINITY, false, true},
    {"negative infinity", '3', -INFINITY, false, true},
    {"nan alone", '4', NAN, true, true},
    {"zero row", '5', 0.0f, true, false},
    {"outlier", '6', 6e4f, false, false},
    {"negative outlier", '7', -6e4f, false, false},
    {"outlier alone", '8', 6e4f, true, false},
    {"denormal alone", '9', 6e-8f, true, false},
};

enum { FAULTS = sizeof faults / sizeof faults[0], NEIGHBOURS = 5, TOKENS = 10 };

/* Writes rows into the embedding of an open engine: a file with such values would be refused. */
static void poison(struct engine *engine, void (*spoil)(float *rows, size_t dim)) {
    struct engine_real *real = (struct engine_real *)engine; /* every engine of a model is one */
    const struct kernel_ops *ops = device_ops(real->device);
    struct weight *table = &real->model->embedding;
    size_t count = (size_t)table->form.n * table->form.k;
    float *rows = kernel_test_alloc(count * sizeof *rows);
    uint16_t *halves = kernel_test_alloc(count * sizeof *halves);
    int32_t *tokens = kernel_test_alloc(table->form.n * sizeof *tokens);
    char err[256];
    for (uint32_t i = 0; i < table->form.n; i++) {
        tokens[i] = (int32_t)i;
    }
    const struct embed_args embed = {
        .token = tokens, .table = table, .x = rows, .rows = table->form.n};
    assert_int_equal(ops->embed(real->device, &embed), KERNELS_OK);
    spoil(rows, table->form.k);
    for (size_t i = 0; i < count; i++) {
        halves[i] = canonical_f32_to_f16(rows[i]);
    }
    const struct weight_source source = {
        .values = table->form.type == ELEMENT_F32 ? (const void *)rows : (const void *)halves};
    assert_int_equal(ops->weight_pack(&table->form, &source, table->packed, err, sizeof err),
                     KERNELS_OK);
    kernel_test_free(tokens);
    kernel_test_free(halves);
    kernel_test_free(rows);
}

static void spoil_tokens(float *rows, size_t dim) {
    for (size_t i = 0; i < FAULTS; i++) {
        float *row = rows + (size_t)scripted_token(faults[i].token) * dim;
        if (faults[i].is_alone) {
            memset(row, 0, dim * sizeof *row);
        }
        row[i * 5 % dim] = faults[i].value;
    }
}

static void spoil_mark(float *rows, size_t dim) {
    rows[(size_t)scripted_token('!') * dim + 7] = NAN;
}

/* A random model, not a scripted one: rows meet in attention, and everything adds up. The faulty
 * tokens are never drawn: the head knows nothing of them. */
static char *write_faulty_model(void) {
    struct tiny_llama_options options = {.untied = true};
    struct gguf_writer writer = {0};
    struct gguf *gguf = NULL;
    char err[256];
    tiny_llama_build(&options, &writer);
    assert_int_equal(gguf_parse(writer.bytes, writer.size, &gguf, err, sizeof err), GGUF_OK);
    const struct gguf_tensor *head = gguf_find_tensor(gguf, "output.weight");
    size_t dim = (size_t)head->dims[0];
    for (size_t i = 0; i < FAULTS; i++) {
        size_t at = (size_t)scripted_token(faults[i].token) * dim;
        memset((float *)(uintptr_t)head->data + at, 0, dim * sizeof(float));
    }
    gguf_close(gguf);
    char *path = gguf_writer_save(&writer, "faulty.gguf");
    gguf_writer_deinit(&writer);
    return path;
}

static char *faulty_path, *talker_path;

static int write_models(void **state) {
    struct scripted_llama talker;
    faulty_path = write_faulty_model();
    scripted_llama_init(&talker, NULL);
    scripted_llama_add_text(&talker, "<ABC!DEF");
    scripted_llama_add_text(&talker, ">abcdefghijklmnopqrstuvwxyz");
    talker_path = scripted_llama_save(&talker, "breaks.gguf");
    return 0;
}

static int free_models(void **state) {
    free(faulty_path);
    free(talker_path);
    return 0;
}

static struct engine *open_engine(const char *path, const char *policy, const char *tier,
                                  uint32_t chunk) {
    char err[512] = "";
    struct engine *engine = NULL;
    const struct engine_options options = {.model_path = path,
                                           .policy = policy,
                                           .device = "cpu",
                                           .cpu_tier = tier,
                                           .threads = 1,
                                           .max_queue_delay_ms = -1,
                                           .max_model_len = 256,
                                           .prefill_chunk_tokens = chunk,
                                           .poison_pages = true};
    if (engine_open(&options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("engine_open: %s", err);
    }
    poison(engine, path == faulty_path ? spoil_tokens : spoil_mark);
    return engine;
}

static void submit(struct engine *engine, uint64_t ticket, const char *prompt, uint32_t tokens) {
    struct job_error rejected;
    struct job job = engine_run_job("fault", prompt, tokens);
    job.params.temperature = ticket % 2 ? 0.0f : 0.8f;
    job.params.seed = ticket;
    if (engine_submit(engine, ticket, &job, &rejected) != ENGINE_OK) {
        fail_msg("%s: %s", rejected.field, rejected.message);
    }
}

/* NEIGHBOURS good jobs and, as the last ticket, `prompt` unless it is NULL. */
static size_t run_beside(struct engine *engine, const char *prompt, struct engine_event *finished) {
    size_t count = NEIGHBOURS + (prompt != NULL);
    for (uint64_t i = 0; i < NEIGHBOURS; i++) {
        char text[96];
        snprintf(text, sizeof text, "neighbour %c of them has %.*s to say", (int)('a' + i),
                 (int)(i * 9), "much, and more, and yet some more to be told");
        if (prompt != NULL && i == 2) {
            submit(engine, NEIGHBOURS, prompt, TOKENS); /* in the middle of the batch */
        }
        submit(engine, i, text, TOKENS);
    }
    engine_run_finish(engine, NULL, finished, count);
    return count;
}

static void check_fault(struct engine *engine, const struct fault *fault, const char *where,
                        const struct engine_event *alone) {
    struct engine_event finished[NEIGHBOURS + 1];
    char prompt[64];
    snprintf(prompt, sizeof prompt, where, fault->token);
    size_t count = run_beside(engine, prompt, finished);
    const struct engine_event *own = &finished[NEIGHBOURS];
    if (own->error.code != (fault->is_numeric ? ERROR_NUMERIC : ERROR_NONE)) {
        fail_msg("%s in `%s`: code %d", fault->name, prompt, (int)own->error.code);
    }
    assert_int_equal(own->finish_reason, fault->is_numeric ? FINISH_ERROR : FINISH_LENGTH);
    assert_int_equal(own->usage.completion_tokens, fault->is_numeric ? 0 : TOKENS);
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        assert_int_equal(finished[i].error.code, ERROR_NONE);
        assert_string_equal(finished[i].answer_sha256, alone[i].answer_sha256);
    }
    engine_run_free(finished, count);
}

static void check_faults(const char *policy, const char *tier, uint32_t chunk) {
    static const char *const places[] = {"%c comes first here", "in the middle a %c stands, and on",
                                         "it comes last: %c"};
    struct engine_event alone[NEIGHBOURS + 1], after[NEIGHBOURS + 1];
    struct engine_stats stats;
    uint64_t numeric_count = 0;
    struct engine *engine = open_engine(faulty_path, policy, tier, chunk);
    run_beside(engine, NULL, alone);
    for (size_t i = 0; i < FAULTS; i++) {
        for (size_t place = 0; place < 3; place++) {
            check_fault(engine, &faults[i], places[place], alone);
            numeric_count += faults[i].is_numeric;
        }
    }
    run_beside(engine, NULL, after); /* on pages that held what is no number */
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        assert_string_equal(after[i].answer_sha256, alone[i].answer_sha256);
    }
    engine_stats(engine, &stats);
    assert_int_equal(stats.failed_total, numeric_count);
    assert_true(stats.batch_size_max == NEIGHBOURS + 1);
    engine_run_free(alone, NEIGHBOURS);
    engine_run_free(after, NEIGHBOURS);
    engine_close(engine);
}

static void a_fault_in_a_prompt_fails_its_own_job_alone_in_int8(void **state) {
    check_faults("int8", NULL, 256);
    check_faults("int8", NULL, 16);
    check_faults("int8", "reference", 256);
}

static void a_fault_in_a_prompt_fails_its_own_job_alone_in_f16(void **state) {
    check_faults("f16", NULL, 256);
    check_faults("f16", NULL, 16);
    check_faults("f16", "reference", 256);
}

static void a_fault_in_a_prompt_fails_its_own_job_alone_in_f32_and_mixed(void **state) {
    check_faults("f32", NULL, 256);
    check_faults("balanced", NULL, 256);
    check_faults("latency", NULL, 256);
}

static void a_fault_in_an_answer_ends_it_there_and_keeps_its_text(void **state) {
    static const char *const policies[] = {"int8", "f16"};
    for (size_t i = 0; i < 2; i++) {
        struct engine_event finished[2];
        struct engine *engine = open_engine(talker_path, policies[i], NULL, 256);
        submit(engine, 0, ">", 26);
        submit(engine, 1, "<", 26);
        engine_run_finish(engine, NULL, finished, 2);
        assert_int_equal(finished[1].error.code, ERROR_NUMERIC);
        assert_string_equal(finished[1].text, "ABC!");
        assert_int_equal(finished[1].usage.completion_tokens, 4);
        assert_int_equal(finished[0].error.code, ERROR_NONE);
        assert_true(strncmp(finished[0].text, "abcdefghijklmnopqrstuvwxyz", 25) == 0);
        engine_run_free(finished, 2);
        engine_close(engine);
    }
}

static uint32_t cached_tokens_of(struct engine *engine, const char *prompt, enum error_code code) {
    struct engine_event event;
    submit(engine, 0, prompt, 1);
    engine_run_finish(engine, NULL, &event, 1);
    uint32_t count = event.usage.cached_tokens;
    assert_int_equal(event.error.code, code);
    engine_event_deinit(&event);
    return count;
}

/* The prompts' third page of 16 tokens holds the fault. What was computed before the bad rows, in
 * steps of their own, is good. */
static void a_page_with_a_bad_row_is_never_shared(void **state) {
    static const char bad[] = "abcdfghjklmnpqrs"
                              "tvwxyzbcdfghjklm"
                              "npqr0stvwxyzbcdf"
                              "ghjk";
    static const char good[] = "abcdfghjklmnpqrs"
                               "tvwxyzbcdfghjklm"
                               "npqrbstvwxyzbcdf"
                               "ghjk";
    for (uint32_t chunk = 16; chunk <= 256; chunk *= 16) {
        struct engine *engine = open_engine(faulty_path, "int8", NULL, chunk);
        uint32_t shared = chunk == 16 ? 32 : 0;
        assert_int_equal(cached_tokens_of(engine, bad, ERROR_NUMERIC), 0);
        assert_int_equal(cached_tokens_of(engine, bad, ERROR_NUMERIC), shared);
        assert_int_equal(cached_tokens_of(engine, good, ERROR_NONE), shared);
        assert_int_equal(cached_tokens_of(engine, good, ERROR_NONE), 48);
        assert_int_equal(cached_tokens_of(engine, bad, ERROR_NUMERIC), 32);
        engine_close(engine);
    }
}

TEST_MAIN_WITH(write_models, free_models, cmocka_unit_test(a_page_with_a_bad_row_is_never_shared),
               cmocka_unit_test(a_fault_in_a_prompt_fails_its_own_job_alone_in_int8),
               cmocka_unit_test(a_fault_in_a_prompt_fails_its_own_job_alone_in_f16),
               cmocka_unit_test(a_fault_in_a_prompt_fails_its_own_job_alone_in_f32_and_mixed),
               cmocka_unit_test(a_fault_in_an_answer_ends_it_there_and_keeps_its_text))
