/* How answers are chosen and where they end, through the whole engine, on models that follow a
 * script: stop strings, stop tokens, end tokens, repetition, seeds; and that nothing of one job's
 * parameters touches another's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/repetition.h"
#include "tests/support/engine_run.h"
#include "tests/support/scripted_llama.h"
#include "tests/support/test.h"

/* What the scripted model says after `<`: each byte once, code points of two to four bytes. */
#define SAID "ABCDEFGH\xC3\xA9IJKL\xE4\xBD\xA0MN\xF0\x9F\x98\x80OPQRSTUVWXYZ"
enum { SAID_BYTES = sizeof SAID - 1 };

static struct engine_options options_for(const char *path) {
    return (struct engine_options){.model_path = path,
                                   .device = "cpu",
                                   .threads = 1,
                                   .max_queue_delay_ms = -1,
                                   .max_model_len = 700,
                                   .poison_pages = true};
}

static struct engine *open_engine(const struct engine_options *options) {
    char err[512] = "";
    struct engine *engine = NULL;
    if (engine_open(options, &engine, err, sizeof err) != ENGINE_OK) {
        fail_msg("engine_open: %s", err);
    }
    return engine;
}

/* `<` + SAID, then `>` for ever. */
static char *write_talker(void) {
    struct scripted_llama model;
    scripted_llama_init(&model, NULL);
    scripted_llama_add_text(&model, "<" SAID ">>");
    return scripted_llama_save(&model, "talker.gguf");
}

static struct job greedy_job(const char *prompt, uint32_t max_tokens) {
    struct job job = engine_run_job("answer", prompt, max_tokens);
    job.params.temperature = 0.0f;
    return job;
}

static void add_stop(struct job *job, const char *text, size_t bytes) {
    job->params.stop[job->params.stop_count++] = strndup(text, bytes);
}

static void submit(struct engine *engine, uint64_t ticket, struct job job) {
    struct job_error rejected;
    if (engine_submit(engine, ticket, &job, &rejected) != ENGINE_OK) {
        fail_msg("%s: %s", rejected.field, rejected.message);
    }
}

static struct engine_event run_job(struct engine *engine, struct job job) {
    struct engine_event finished;
    submit(engine, 0, job);
    engine_run_finish(engine, NULL, &finished, 1);
    assert_int_equal(finished.error.code, ERROR_NONE);
    return finished;
}

/* ---------------------------------------------------------------- stop strings */

/* Runs a job that tells its text with every token; whatever was told must begin the final text. */
static struct engine_event run_told(struct engine *engine, struct clock *clock, struct job job,
                                    size_t *told_bytes) {
    char *told = strdup("");
    job.progress = JOB_PROGRESS_TEXT;
    submit(engine, 0, job);
    for (;;) {
        struct engine_event event;
        engine_run_step(engine, clock, CLOCK_NS_PER_MS);
        while (engine_take_events(engine, &event, 1) == 1) {
            if (event.kind == ENGINE_EVENT_STARTED) {
                engine_event_deinit(&event);
                continue;
            }
            assert_true(strncmp(event.text, told, strlen(told)) == 0); /* nothing is taken back */
            *told_bytes = strlen(told);
            free(told);
            if (event.kind == ENGINE_EVENT_FINISHED) {
                return event;
            }
            told = strdup(event.text);
            engine_event_deinit(&event);
        }
    }
}

static bool is_boundary(size_t at) {
    return ((unsigned char)SAID[at] & 0xC0) != 0x80;
}

static struct engine *open_teller(char **path, struct clock *clock) {
    *path = write_talker();
    struct engine_options options = options_for(*path);
    clock_init_virtual(clock, 0, 0);
    options.clock = clock;
    options.progress_interval_ms = 1;
    return open_engine(&options);
}

static void cuts_at_a_stop_string_wherever_it_begins_and_ends(void **state) {
    char *path;
    struct clock clock;
    struct engine *engine = open_teller(&path, &clock);
    size_t cases = 0;
    for (size_t begin = 0; begin < SAID_BYTES; begin++) {
        for (size_t end = begin + 1; end <= SAID_BYTES && end <= begin + 9; end += 2) {
            if (!is_boundary(begin) || !is_boundary(end)) {
                continue;
            }
            size_t told_bytes = 0;
            struct job job = greedy_job("<", SAID_BYTES + 8);
            add_stop(&job, SAID + begin, end - begin);
            struct engine_event event = run_told(engine, &clock, job, &told_bytes);
            assert_int_equal(event.finish_reason, FINISH_STOP);
            assert_int_equal(strlen(event.text), begin);
            assert_memory_equal(event.text, SAID, begin);
            assert_true(told_bytes <= begin); /* never a byte of the stop string */
            assert_int_equal(event.usage.completion_tokens, end);
            engine_event_deinit(&event);
            cases++;
        }
    }
    assert_true(cases > 90);
    engine_close(engine);
    free(path);
}

static void loses_no_character_to_a_stop_string_that_only_began(void **state) {
    char *path;
    struct clock clock;
    struct engine *engine = open_teller(&path, &clock);
    for (size_t begin = 0; begin < SAID_BYTES; begin++) {
        char stop[16];
        size_t told_bytes = 0, end = begin + 4 < SAID_BYTES ? begin + 4 : SAID_BYTES;
        while (!is_boundary(end)) {
            end++;
        }
        if (!is_boundary(begin)) {
            continue;
        }
        snprintf(stop, sizeof stop, "%.*s#", (int)(end - begin), SAID + begin);
        struct job job = greedy_job("<", SAID_BYTES);
        add_stop(&job, stop, strlen(stop));
        struct engine_event event = run_told(engine, &clock, job, &told_bytes);
        assert_int_equal(event.finish_reason, FINISH_LENGTH);
        assert_string_equal(event.text, SAID);
        engine_event_deinit(&event);
    }
    engine_close(engine);
    free(path);
}

static void ends_at_the_first_of_many_stop_strings_that_is_complete(void **state) {
    char *path;
    struct clock clock;
    size_t told_bytes = 0;
    struct engine *engine = open_teller(&path, &clock);
    struct job job = greedy_job("<", SAID_BYTES + 8);
    const char *const stops[] = {"RSTUV", "PQRSTUVWXYZ", "ST", "S#", "BCDEFG#", "XYZ"};
    for (size_t i = 0; i < 6; i++) {
        add_stop(&job, stops[i], strlen(stops[i]));
    }
    struct engine_event event = run_told(engine, &clock, job, &told_bytes);
    assert_int_equal(event.finish_reason, FINISH_STOP);
    assert_int_equal(strlen(event.text), strstr(SAID, "ST") - SAID);
    engine_event_deinit(&event);
    engine_close(engine);
    free(path);
}

/* ---------------------------------------------------------------- end tokens */

static void ends_at_any_stop_token_and_leaves_it_out(void **state) {
    char *path = write_talker();
    struct engine_options options = options_for(path);
    struct engine *engine = open_engine(&options);
    for (size_t at = 0; at < SAID_BYTES; at++) {
        struct job job = greedy_job("<", SAID_BYTES + 8);
        job.params.stop_token_ids[0] = scripted_token('#'); /* never said */
        job.params.stop_token_ids[1] = scripted_token(SAID[at]);
        job.params.stop_token_ids[2] = scripted_token('Z');
        job.params.stop_token_count = 3;
        struct engine_event event = run_job(engine, job);
        assert_int_equal(event.finish_reason, FINISH_STOP);
        assert_int_equal(event.usage.completion_tokens, at + 1);
        if (is_boundary(at)) {
            assert_int_equal(strlen(event.text), at);
        }
        engine_event_deinit(&event);
    }
    engine_close(engine);
    free(path);
}

static void add_end_keys(struct gguf_writer *writer) {
    gguf_writer_key_u32(writer, "tokenizer.ggml.eot_token_id", TINY_LLAMA_FIRST_BYTE + '4');
    gguf_writer_key_u32(writer, "tokenizer.ggml.eom_token_id", TINY_LLAMA_FIRST_BYTE + '5');
}

static void ends_at_every_end_token_of_the_model(void **state) {
    static const struct {
        char first;
        int32_t end;
    } ways[] = {{'a', TINY_LLAMA_IM_END},
                {'b', TINY_LLAMA_ENDOFTEXT},
                {'c', TINY_LLAMA_FIRST_BYTE + '4'},
                {'d', TINY_LLAMA_FIRST_BYTE + '5'}};
    struct scripted_llama model;
    struct tiny_llama_options options = {.add_keys = add_end_keys, .extra_key_count = 2};
    scripted_llama_init(&model, &options);
    for (size_t i = 0; i < 4; i++) {
        scripted_llama_add(&model, scripted_token(ways[i].first), scripted_token((char)('P' + i)));
        scripted_llama_add(&model, scripted_token((char)('P' + i)), ways[i].end);
    }
    char *path = scripted_llama_save(&model, "ends.gguf");
    struct engine_options engine_options = options_for(path);
    struct engine *engine = open_engine(&engine_options);
    for (size_t i = 0; i < 4; i++) {
        char prompt[] = {ways[i].first, '\0'}, text[] = {(char)('P' + i), '\0'};
        struct engine_event event = run_job(engine, greedy_job(prompt, 20));
        assert_int_equal(event.finish_reason, FINISH_STOP);
        assert_string_equal(event.text, text);
        assert_int_equal(event.usage.completion_tokens, 2);
        engine_event_deinit(&event);
    }
    engine_close(engine);
    free(path);
}

/* ---------------------------------------------------------------- repetition */

/* `<` once through, then one token for ever; `(` a cycle of ten. */
static char *write_parrot(void) {
    struct scripted_llama model;
    scripted_llama_init(&model, NULL);
    scripted_llama_add_text(&model, "<" SAID ">>");
    scripted_llama_add_text(&model, "(0123456789");
    scripted_llama_add_text(&model, "90");
    return scripted_llama_save(&model, "parrot.gguf");
}

static void ends_an_answer_that_repeats_itself_and_no_other(void **state) {
    char *path = write_parrot();
    struct engine_event finished[3];
    struct engine_options options = options_for(path);
    options.repetition_cycles = 5;
    options.repetition_tokens = 32;
    struct engine *engine = open_engine(&options);
    submit(engine, 0, greedy_job("(", 200));
    submit(engine, 1, greedy_job("<", SAID_BYTES + 31));
    submit(engine, 2, greedy_job("<", 200));
    engine_run_finish(engine, NULL, finished, 3);
    assert_int_equal(finished[0].finish_reason, FINISH_REPETITION);
    assert_int_equal(finished[0].usage.completion_tokens, 50); /* five turns of ten */
    assert_memory_equal(finished[0].text, "0123456789012", 13);
    assert_int_equal(strlen(finished[0].text), 50);
    assert_false(finished[0].truncated);
    assert_int_equal(finished[1].finish_reason, FINISH_LENGTH); /* a token before */
    assert_int_equal(finished[2].finish_reason, FINISH_REPETITION);
    assert_int_equal(finished[2].usage.completion_tokens, SAID_BYTES + 32);
    engine_run_free(finished, 3);
    engine_close(engine);
    free(path);
}

static void lets_answers_repeat_themselves_for_long_or_for_ever_as_asked(void **state) {
    static const struct {
        int32_t cycles;
        uint32_t cycle_tokens, tokens, ends_after;
    } cases[] = {{0, 0, 0, 256}, {-1, 0, 0, 600}, {40, 0, 0, 400}, {2, 10, 1, 20}, {2, 9, 1, 600}};
    char *path = write_parrot();
    for (size_t i = 0; i < 5; i++) {
        struct engine_options options = options_for(path);
        options.repetition_cycles = cases[i].cycles;
        options.repetition_cycle_tokens = cases[i].cycle_tokens;
        options.repetition_tokens = cases[i].tokens;
        struct engine *engine = open_engine(&options);
        struct engine_event event = run_job(engine, greedy_job("(", 600));
        assert_int_equal(event.usage.completion_tokens, cases[i].ends_after);
        assert_int_equal(event.finish_reason,
                         cases[i].ends_after < 600 ? FINISH_REPETITION : FINISH_LENGTH);
        engine_event_deinit(&event);
        engine_close(engine);
    }
    free(path);
}

/* Recomputed tokens are not drawn anew: they count once in a repetition, in text and in draws. */
static void goes_on_counting_after_a_preemption(void **state) {
    enum { JOBS = 5, PAGES = 10 }; /* one of them scratch */
    char *path = write_parrot();
    struct engine_event finished[JOBS];
    struct engine_stats stats;
    struct engine_options options = options_for(path);
    options.repetition_cycles = 12;
    options.repetition_tokens = 32;
    options.kv_cache_bytes =
        PAGES * 16 * 2 * 2 * 2 * 16 * sizeof(uint16_t); /* tiny_llama's sizes */
    struct engine *engine = open_engine(&options);
    for (uint64_t i = 0; i < JOBS; i++) {
        submit(engine, i, greedy_job("(", 140)); /* up to nine pages each */
    }
    engine_run_finish(engine, NULL, finished, JOBS);
    engine_stats(engine, &stats);
    assert_true(stats.preemptions_total > 0);
    for (uint64_t i = 0; i < JOBS; i++) {
        assert_int_equal(finished[i].finish_reason, FINISH_REPETITION);
        assert_int_equal(finished[i].usage.completion_tokens, 120);
        assert_int_equal(strlen(finished[i].text), 120);
        assert_string_equal(finished[i].answer_sha256, finished[0].answer_sha256);
    }
    engine_run_free(finished, JOBS);
    engine_close(engine);
    free(path);
}

static void refuses_a_rule_of_repetition_that_makes_no_sense(void **state) {
    char *path = write_parrot(), err[256];
    struct engine *engine = NULL;
    struct engine_options options[3];
    for (size_t i = 0; i < 3; i++) {
        options[i] = options_for(path);
    }
    options[0].repetition_cycles = 1;
    options[1].repetition_cycle_tokens = REPETITION_CYCLE_TOKENS_MAX + 1;
    options[2].repetition_tokens = UINT32_MAX;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(engine_open(&options[i], &engine, err, sizeof err), ENGINE_BAD_OPTION);
        assert_non_null(strstr(err, "repetition_"));
    }
    free(path);
}

/* ---------------------------------------------------------------- seeds */

enum { COIN_TOKENS = 64 };

/* After each letter of A .. P another one of two, evenly: a letter's embedding is an axis. */
static char *write_coin(void) {
    struct scripted_llama model;
    scripted_llama_init(&model, NULL);
    for (int i = 0; i < 16; i++) {
        float *row = model.embedding + (size_t)scripted_token((char)('A' + i)) * model.dim;
        memset(row, 0, model.dim * sizeof *row);
        row[i] = 3.0f;
    }
    for (int i = 0; i < 16; i++) {
        scripted_llama_add(&model, scripted_token((char)('A' + i)),
                           scripted_token((char)('A' + (i + 1) % 16)));
        scripted_llama_add(&model, scripted_token((char)('A' + i)),
                           scripted_token((char)('A' + (i + 7) % 16)));
    }
    return scripted_llama_save(&model, "coin.gguf");
}

static struct job coin_job(const char *id, const char *prompt, uint32_t max_tokens) {
    struct job job = engine_run_job(id, prompt, max_tokens);
    job.params.temperature = 1.0f;
    job.params.top_k = 0;
    job.params.top_p = 1.0f;
    return job;
}

static void draws_by_seed_and_position_alone(void **state) {
    char *path = write_coin(), prompt[COIN_TOKENS + 2] = "A";
    struct engine_options options = options_for(path);
    struct engine *engine = open_engine(&options);
    struct job job = coin_job("first", prompt, COIN_TOKENS);
    uint64_t seed = job.params.seed;
    struct engine_event whole = run_job(engine, job);
    assert_int_equal(strlen(whole.text), COIN_TOKENS);
    for (uint32_t split = 1; split < COIN_TOKENS; split += 9) {
        memcpy(prompt + 1, whole.text, split);
        prompt[1 + split] = '\0';
        job = coin_job("another", prompt, COIN_TOKENS - split);
        job.params.seed = seed;
        struct engine_event rest = run_job(engine, job); /* as if the answer had gone on */
        assert_string_equal(rest.text, whole.text + split);
        engine_event_deinit(&rest);
    }
    struct engine_event other = run_job(engine, coin_job("another", "A", COIN_TOKENS));
    assert_string_not_equal(other.text, whole.text); /* no seed: the id's own */
    engine_event_deinit(&whole);
    engine_event_deinit(&other);
    engine_close(engine);
    free(path);
}

static void tosses_a_fair_coin_over_many_seeds(void **state) {
    enum { JOBS = 32 };
    char *path = write_coin();
    struct engine_event finished[JOBS];
    struct engine_options options = options_for(path);
    struct engine *engine = open_engine(&options);
    for (uint64_t i = 0; i < JOBS; i++) {
        struct job job = coin_job("coin", "A", COIN_TOKENS);
        job.params.seed = i * 0x123456789u;
        submit(engine, i, job);
    }
    engine_run_finish(engine, NULL, finished, JOBS);
    int ones = 0, alternations = 0;
    for (int i = 0; i < JOBS; i++) {
        int before = -1;
        assert_int_equal(strlen(finished[i].text), COIN_TOKENS);
        for (int at = 0; at < COIN_TOKENS; at++) {
            int last = at == 0 ? 'A' : finished[i].text[at - 1];
            int step = (finished[i].text[at] - last + 16) % 16;
            assert_true(step == 1 || step == 7);
            ones += step == 1;
            alternations += before >= 0 && before != step;
            before = step;
        }
        for (int other = 0; other < i; other++) {
            assert_string_not_equal(finished[i].text, finished[other].text);
        }
    }
    /* Of 2048 tosses and 2016 neighbours, within four standard deviations; the seeds are fixed. */
    assert_in_range(ones, 1024 - 91, 1024 + 91);
    assert_in_range(alternations, 1008 - 90, 1008 + 90);
    engine_run_free(finished, JOBS);
    engine_close(engine);
    free(path);
}

/* ---------------------------------------------------------------- parameters apart */

enum { APART_JOBS = 24, APART_TOKENS = 24 };

/* One prompt, and in each job one parameter at a bound. */
static struct job apart_job(uint32_t i) {
    struct job job = coin_job("apart", "what is said of A", APART_TOKENS);
    struct job_params *p = &job.params;
    p->seed = 5;
    switch (i) {
    case 0: p->temperature = 0.0f; break;
    case 1: p->temperature = 2.0f; break;
    case 2: p->temperature = 0.01f; break;
    case 3: p->top_k = 1; break;
    case 4: p->top_k = 1000000; break;
    case 5: p->top_k = tiny_llama_vocabulary(); break;
    case 6: p->top_p = 1e-6f; break;
    case 7: p->top_p = 0.5f; break;
    case 8: p->min_p = 1.0f; break;
    case 9: p->min_p = 0.3f; break;
    case 10: p->repetition_penalty = 2.0f; break;
    case 11: p->repetition_penalty = 0.01f; break;
    case 12: p->presence_penalty = 2.0f; break;
    case 13: p->presence_penalty = -2.0f; break;
    case 14: p->frequency_penalty = 2.0f; break;
    case 15: p->frequency_penalty = -2.0f; break;
    case 16: p->seed = JOB_SEED_MAX; break;
    case 17: p->seed = 0; break;
    case 18: p->max_tokens = 1; break;
    case 19: add_stop(&job, "e", 1); break;
    case 20: p->stop_token_ids[p->stop_token_count++] = 40; break;
    default: p->seed = 100 + i; break;
    }
    return job;
}

static void gives_each_job_what_its_own_parameters_say(void **state) {
    char *path = tiny_llama_write(NULL);
    struct engine_options options = options_for(path);
    struct engine *engine = open_engine(&options);
    struct engine_event together[APART_JOBS];
    char alone[APART_JOBS][SHA256_HEX_BYTES];
    uint32_t different = 0;
    for (uint32_t i = 0; i < APART_JOBS; i++) {
        struct engine_event event = run_job(engine, apart_job(i));
        memcpy(alone[i], event.answer_sha256, SHA256_HEX_BYTES);
        different += i > 0 && strcmp(alone[i], alone[0]) != 0;
        engine_event_deinit(&event);
    }
    assert_true(different > APART_JOBS / 2);    /* the parameters did something */
    for (uint32_t turn = 0; turn < 2; turn++) { /* in both orders */
        for (uint32_t i = 0; i < APART_JOBS; i++) {
            uint32_t which = turn == 0 ? i : APART_JOBS - 1 - i;
            submit(engine, which, apart_job(which));
        }
        engine_run_finish(engine, NULL, together, APART_JOBS);
        for (uint32_t i = 0; i < APART_JOBS; i++) {
            assert_string_equal(together[i].answer_sha256, alone[i]);
        }
        engine_run_free(together, APART_JOBS);
    }
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.batch_size_max, APART_JOBS);
    engine_close(engine);
    free(path);
}

/* ---------------------------------------------------------------- guessed tokens */

static struct engine_event run_with_drafts(const char *path, int32_t drafts, struct job job,
                                           struct engine_stats *stats) {
    struct engine_options options = options_for(path);
    options.max_speculative_tokens = drafts;
    options.repetition_cycles = -1;
    struct engine *engine = open_engine(&options);
    struct engine_event event = run_job(engine, job);
    engine_stats(engine, stats);
    engine_close(engine);
    return event;
}

static void assert_same_answer(const struct engine_event *a, const struct engine_event *b) {
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->answer_sha256, b->answer_sha256);
    assert_int_equal(a->finish_reason, b->finish_reason);
    assert_int_equal(a->usage.completion_tokens, b->usage.completion_tokens);
}

/* The talker ends in one byte for ever: whoever guesses that it goes on is right. */
static void takes_guessed_tokens_in_fewer_steps(void **state) {
    char *path = write_talker();
    struct engine_stats plain, guessed;
    struct engine_event expected = run_with_drafts(path, -1, greedy_job("<", 300), &plain);
    struct engine_event event = run_with_drafts(path, 5, greedy_job("<", 300), &guessed);
    assert_same_answer(&event, &expected);
    assert_int_equal(plain.drafted_tokens_total, 0);
    assert_int_equal(guessed.decode_tokens_total, 300);
    assert_true(guessed.kept_tokens_total > 150);
    assert_int_equal(guessed.steps_total, plain.steps_total - guessed.kept_tokens_total);
    engine_event_deinit(&event);
    engine_event_deinit(&expected);
    free(path);
}

/* Answers that begin and end in the same steps. */
static uint64_t drafted_by_answers_together(const char *path, uint32_t count) {
    struct engine_options options = options_for(path);
    options.repetition_cycles = -1;
    struct engine *engine = open_engine(&options);
    struct engine_event events[8];
    struct engine_stats stats;
    assert_true(count <= sizeof events / sizeof events[0]);
    for (uint32_t i = 0; i < count; i++) {
        submit(engine, i, greedy_job("<", 100));
    }
    engine_run_finish(engine, NULL, events, count);
    engine_run_free(events, count);
    engine_stats(engine, &stats);
    engine_close(engine);
    return stats.drafted_tokens_total;
}

/* A guessed row would then cost as much as one that is asked for. */
static void guesses_nothing_while_many_answers_run(void **state) {
    char *path = write_talker();
    assert_true(drafted_by_answers_together(path, 2) > 0);
    assert_int_equal(drafted_by_answers_together(path, 8), 0);
    free(path);
}

/* Several tokens of one step are looked at one by one: nothing behind an end is taken. */
static void ends_where_it_would_have_ended_without_guesses(void **state) {
    char *path = write_talker();
    for (uint32_t max_tokens = 40; max_tokens < 60; max_tokens++) {
        for (uint32_t stop = 0; stop < 2; stop++) {
            struct engine_stats stats;
            struct job plain = greedy_job("<", max_tokens), guessed = greedy_job("<", max_tokens);
            if (stop == 1) {
                add_stop(&plain, ">>>>>>>>>>", 10);
                add_stop(&guessed, ">>>>>>>>>>", 10);
            }
            struct engine_event expected = run_with_drafts(path, -1, plain, &stats);
            struct engine_event event = run_with_drafts(path, 16, guessed, &stats);
            assert_same_answer(&event, &expected);
            engine_event_deinit(&event);
            engine_event_deinit(&expected);
        }
    }
    free(path);
}

TEST_MAIN(cmocka_unit_test(takes_guessed_tokens_in_fewer_steps),
          cmocka_unit_test(guesses_nothing_while_many_answers_run),
          cmocka_unit_test(ends_where_it_would_have_ended_without_guesses),
          cmocka_unit_test(cuts_at_a_stop_string_wherever_it_begins_and_ends),
          cmocka_unit_test(loses_no_character_to_a_stop_string_that_only_began),
          cmocka_unit_test(ends_at_the_first_of_many_stop_strings_that_is_complete),
          cmocka_unit_test(ends_at_any_stop_token_and_leaves_it_out),
          cmocka_unit_test(ends_at_every_end_token_of_the_model),
          cmocka_unit_test(ends_an_answer_that_repeats_itself_and_no_other),
          cmocka_unit_test(lets_answers_repeat_themselves_for_long_or_for_ever_as_asked),
          cmocka_unit_test(goes_on_counting_after_a_preemption),
          cmocka_unit_test(refuses_a_rule_of_repetition_that_makes_no_sense),
          cmocka_unit_test(draws_by_seed_and_position_alone),
          cmocka_unit_test(tosses_a_fair_coin_over_many_seeds),
          cmocka_unit_test(gives_each_job_what_its_own_parameters_say))
