/* engine with a model, its KV pages: who shares what with whom, what happens when pages run out,
 * and that neither shows in an answer. On a tiny random Llama. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_real.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"

enum { PAGE = 16, PAGE_BYTES = 4096 }; /* of the tiny model under `int8` */

/* With `pages` KV pages; 0: as many as could be wanted. */
static struct engine_options options_of(uint32_t pages, uint32_t max_running) {
    struct engine_options options = tiny_engine_options();
    options.cpu_tier = NULL; /* the processor's own */
    options.max_model_len = 1024;
    options.max_running = max_running;
    options.max_batch_size = max_running;
    options.kv_cache_bytes = pages * PAGE_BYTES;
    return options;
}

static struct engine *open_engine(uint32_t pages, uint32_t max_running, bool prefix_cache) {
    struct engine_options options = options_of(pages, max_running);
    char err[512] = "";
    struct engine_stats stats;
    bool worked;
    options.prefix_cache_off = !prefix_cache;
    struct engine *engine = tiny_engine_open(&options);
    struct job_error rejected;
    struct job job = engine_run_job("first", "x", 1); /* so that there are statistics */
    assert_int_equal(engine_submit(engine, 0, &job, &rejected), ENGINE_OK);
    struct engine_event event;
    engine_run_finish(engine, NULL, &event, 1);
    engine_event_deinit(&event);
    engine_stats(engine, &stats);
    assert_true(pages == 0 || stats.pages_total == pages - 1); /* one is the scratch page */
    assert_int_equal(engine_step(engine, &worked, err, sizeof err), ENGINE_OK);
    return engine;
}

/* A prompt of `length` letters, that is tokens; `kind` tells prompts apart from the first on. */
static struct job job_of(int kind, uint32_t length, uint32_t max_tokens, const char *tenant) {
    char id[32], prompt[512];
    assert_true(length < sizeof prompt);
    for (uint32_t at = 0; at < length; at++) {
        prompt[at] = (char)('a' + (at * 7 + (uint32_t)kind * 5 + at * at * (uint32_t)kind) % 26);
    }
    prompt[length] = '\0';
    snprintf(id, sizeof id, "job-%d-%u", kind, length);
    struct job job = engine_run_job(id, prompt, max_tokens);
    job.tenant = tenant != NULL ? strdup(tenant) : NULL;
    return job;
}

static struct job problem_of(const char *statement, const char *tenant) {
    struct job job = engine_run_job(statement, "", 4);
    free(job.prompt);
    job.prompt = NULL;
    job.kind = JOB_PROBLEM;
    job.problem.statement = strdup(statement);
    snprintf(job.problem.code_language, sizeof job.problem.code_language, "c");
    job.tenant = tenant != NULL ? strdup(tenant) : NULL;
    return job;
}

static void submit(struct engine *engine, uint64_t ticket, struct job job) {
    struct job_error rejected;
    assert_int_equal(engine_submit(engine, ticket, &job, &rejected), ENGINE_OK);
}

static struct engine_event run_job(struct engine *engine, struct job job) {
    struct engine_event finished;
    submit(engine, 0, job);
    engine_run_finish(engine, NULL, &finished, 1);
    assert_int_equal(finished.error.code, ERROR_NONE);
    return finished;
}

static uint32_t cached_tokens_of(struct engine *engine, struct job job) {
    struct engine_event event = run_job(engine, job);
    uint32_t count = event.usage.cached_tokens;
    engine_event_deinit(&event);
    return count;
}

/* ---------------------------------------------------------------- shared beginnings */

static void computes_the_beginning_of_a_prompt_once(void **state) {
    struct engine *engine = open_engine(0, 8, true);
    struct engine_stats stats;
    struct engine_event one = run_job(engine, job_of(1, 90, 12, "a"));
    struct engine_event two = run_job(engine, job_of(1, 90, 12, "a"));
    assert_true(one.usage.prompt_tokens > 2 * PAGE);
    assert_int_equal(one.usage.cached_tokens, 0);
    assert_int_equal(two.usage.cached_tokens, (two.usage.prompt_tokens - 1) / PAGE * PAGE);
    assert_string_equal(two.answer_sha256, one.answer_sha256);
    engine_stats(engine, &stats);
    assert_int_equal(stats.prefix_hits_total, 1);
    assert_int_equal(stats.cached_tokens_total, two.usage.cached_tokens);
    assert_int_equal(stats.prefill_tokens_total,
                     1 + 2 * one.usage.prompt_tokens - two.usage.cached_tokens);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_cached, two.usage.cached_tokens / PAGE);
    engine_event_deinit(&one);
    engine_event_deinit(&two);
    engine_close(engine);
}

static void computes_all_of_every_prompt_when_told_to(void **state) {
    struct engine *engine = open_engine(0, 8, false);
    struct engine_stats stats;
    assert_int_equal(cached_tokens_of(engine, job_of(1, 90, 4, "a")), 0);
    assert_int_equal(cached_tokens_of(engine, job_of(1, 90, 4, "a")), 0);
    engine_stats(engine, &stats);
    assert_int_equal(stats.pages_cached, 0);
    engine_close(engine);
}

static void never_shows_a_tenant_that_another_had_the_same_prompt(void **state) {
    struct engine *engine = open_engine(0, 8, true);
    static const char *const others[] = {"b", NULL, "A", "aa"};
    assert_int_equal(cached_tokens_of(engine, job_of(1, 90, 4, "a")), 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(cached_tokens_of(engine, job_of(1, 90, 4, others[i])), 0);
        assert_true(cached_tokens_of(engine, job_of(1, 90, 4, others[i])) > 0);
    }
    assert_true(cached_tokens_of(engine, job_of(1, 90, 4, "a")) > 0);
    engine_close(engine);
}

static void shares_the_programs_own_beginning_with_every_tenant_and_no_more(void **state) {
    struct engine *engine = open_engine(0, 8, true);
    assert_int_equal(cached_tokens_of(engine, problem_of("Add two numbers, fast.", "a")), 0);
    uint32_t shared = cached_tokens_of(engine, problem_of("A canary: xyzzy.", "b"));
    assert_true(shared >= 2 * PAGE);
    /* The canary's own pages are its tenant's, and only behind the very same beginning. */
    assert_int_equal(cached_tokens_of(engine, problem_of("A canary: xyzzy.", "c")), shared);
    assert_int_equal(cached_tokens_of(engine, problem_of("A canary: xyzzy.", NULL)), shared);
    uint32_t own = cached_tokens_of(engine, problem_of("A canary: xyzzy.", "b"));
    assert_true(own > shared);
    /* Its own jobs share the line with the programming language, too, but no statement. */
    uint32_t other = cached_tokens_of(engine, problem_of("My canary: xyzzy.", "b"));
    assert_true(other >= shared && other <= shared + 2 * PAGE && other < own);
    engine_close(engine);
}

static void lets_jobs_that_start_together_compute_the_same_beginning_each(void **state) {
    struct engine *engine = open_engine(0, 8, true);
    struct engine_event finished[3];
    struct engine_stats stats;
    submit(engine, 0, job_of(1, 90, 12, "a"));
    submit(engine, 1, job_of(1, 90, 12, "a"));
    engine_run_step(engine, NULL, 0);
    submit(engine, 2, job_of(2, 15, 60, "b")); /* on the pages that one of them has given back */
    engine_run_finish(engine, NULL, finished, 3);
    assert_int_equal(finished[1].error.code, ERROR_NONE);
    assert_int_equal(finished[0].usage.cached_tokens, 0);
    assert_int_equal(finished[1].usage.cached_tokens, 0);
    assert_string_equal(finished[0].answer_sha256, finished[1].answer_sha256);
    engine_stats(engine, &stats);
    /* One copy is left of what both computed. */
    assert_int_equal(stats.pages_cached, (finished[0].usage.prompt_tokens - 1) / PAGE);
    engine_run_free(finished, 3);
    engine_close(engine);
}

/* ---------------------------------------------------------------- pages run out */

static void run_pair(struct engine *engine, struct engine_event finished[2]) {
    submit(engine, 0, job_of(1, 20, 100, "a"));
    submit(engine, 1, job_of(2, 20, 100, "a"));
    engine_run_finish(engine, NULL, finished, 2);
}

static void finishes_two_jobs_that_do_not_fit_together(void **state) {
    for (int with_cache = 0; with_cache < 2; with_cache++) {
        struct engine_event roomy[2], cramped[2];
        struct engine_stats stats;
        struct engine *engine = open_engine(0, 2, with_cache);
        run_pair(engine, roomy);
        engine_close(engine);
        engine = open_engine(1 + 9, 2, with_cache); /* 8 pages each at the end */
        run_pair(engine, cramped);
        engine_stats(engine, &stats);
        assert_true(stats.preemptions_total >= 1);
        assert_true(stats.recomputed_tokens_total >= 20);
        assert_int_equal(stats.pages_used, 0);
        assert_int_equal(stats.requests_total, 1 + 2);
        assert_true(cramped[0].finished_ns <= cramped[1].finished_ns); /* the older one goes on */
        for (int i = 0; i < 2; i++) {
            assert_int_equal(cramped[i].usage.completion_tokens, 100);
            assert_string_equal(cramped[i].answer_sha256, roomy[i].answer_sha256);
        }
        engine_run_free(roomy, 2);
        engine_run_free(cramped, 2);
        engine_close(engine);
    }
}

enum { MANY = 300 };

static struct job many_job(int i) {
    struct job job = job_of(i % 4, 1 + (uint32_t)(i * 13 % 60), 10 + (uint32_t)(i * 7 % 50),
                            i % 3 == 0 ? "a" : "b");
    job.params.seed = (uint64_t)i;
    job.params.repetition_penalty = i % 2 == 0 ? 1.0f : 1.1f;
    job.params.temperature = 0.7f;
    job.priority = (uint32_t)(i * 3 % 10);
    return job;
}

static void run_many(struct engine *engine, struct engine_event finished[MANY]) {
    for (int i = 0; i < MANY; i++) {
        submit(engine, (uint64_t)i, many_job(i));
    }
    engine_run_finish(engine, NULL, finished, MANY);
}

static void finishes_300_jobs_with_room_for_four_as_if_each_had_been_alone(void **state) {
    static struct engine_event roomy[MANY], cramped[MANY];
    struct engine_stats stats;
    struct engine *engine = open_engine(0, 32, false);
    run_many(engine, roomy);
    engine_close(engine);
    engine = open_engine(1 + 16, 8, true); /* 7 pages for one, 4 on the average */
    run_many(engine, cramped);
    engine_stats(engine, &stats);
    assert_true(stats.preemptions_total > 10);
    assert_true(stats.prefix_hits_total > 10);
    assert_int_equal(stats.running_count, 0);
    assert_int_equal(stats.queued_count, 0);
    assert_int_equal(stats.pages_used, 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(cramped[i].error.code, ERROR_NONE);
        assert_string_equal(cramped[i].answer_sha256, roomy[i].answer_sha256);
    }
    engine_run_free(roomy, MANY);
    engine_run_free(cramped, MANY);
    engine_close(engine);
}

struct told {
    uint32_t started, progress;
    uint32_t completion_tokens, cached_tokens;
    int64_t started_ns;
    char text[2048]; /* of the last event */
};

/* Nothing that was told is taken back. */
static void note_event(struct told *told, const struct engine_event *event) {
    told->started += event->kind == ENGINE_EVENT_STARTED;
    told->progress += event->kind == ENGINE_EVENT_PROGRESS;
    assert_true(event->usage.completion_tokens >= told->completion_tokens);
    told->completion_tokens = event->usage.completion_tokens;
    if (event->kind == ENGINE_EVENT_STARTED) {
        told->started_ns = event->started_ns;
        told->cached_tokens = event->usage.cached_tokens;
        return;
    }
    assert_int_equal(event->started_ns, told->started_ns);
    assert_int_equal(event->usage.cached_tokens, told->cached_tokens);
    if (event->text != NULL) {
        assert_memory_equal(event->text, told->text, strlen(told->text));
        assert_true(strlen(event->text) < sizeof told->text);
        snprintf(told->text, sizeof told->text, "%s", event->text);
    }
}

static void takes_nothing_back_of_what_it_told_when_it_computes_again(void **state) {
    struct engine_options options = options_of(10, 2);
    struct clock clock;
    static struct told told[2];
    struct engine_stats stats;
    clock_init_virtual(&clock, 0, 0);
    options.clock = &clock;
    options.progress_interval_ms = 1;
    struct engine *engine = tiny_engine_open(&options);
    for (int i = 0; i < 2; i++) {
        struct job job = job_of(i, 20, 100, "a");
        job.progress = JOB_PROGRESS_TEXT;
        submit(engine, (uint64_t)i, job);
    }
    for (int ended = 0; ended < 2;) {
        struct engine_event event;
        engine_run_step(engine, &clock, CLOCK_NS_PER_MS);
        while (engine_take_events(engine, &event, 1) == 1) {
            note_event(&told[event.ticket], &event);
            ended += event.kind == ENGINE_EVENT_FINISHED;
            engine_event_deinit(&event);
        }
    }
    engine_stats(engine, &stats);
    assert_true(stats.preemptions_total >= 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told[i].started, 1);
        assert_true(told[i].progress >= 50);
        assert_int_equal(told[i].completion_tokens, 100);
    }
    engine_close(engine);
}

static void cancels_a_job_that_waits_for_pages_with_its_text_so_far(void **state) {
    struct engine *engine = open_engine(1 + 9, 2, true);
    struct engine_stats stats = {0};
    struct engine_event finished[2];
    submit(engine, 0, job_of(1, 20, 100, "a"));
    submit(engine, 1, job_of(2, 20, 100, "a"));
    for (int steps = 0; stats.preemptions_total == 0; steps++) {
        assert_true(steps < 200);
        engine_run_step(engine, NULL, 0);
        engine_stats(engine, &stats);
    }
    assert_int_equal(stats.running_count, 1);
    assert_int_equal(stats.queued_count, 1);
    assert_true(engine_cancel(engine, 1, FINISH_CANCELLED));
    engine_run_finish(engine, NULL, finished, 2);
    assert_int_equal(finished[1].finish_reason, FINISH_CANCELLED);
    assert_true(finished[1].usage.completion_tokens > 10);
    assert_true(strlen(finished[1].text) > 0);
    assert_int_equal(finished[0].usage.completion_tokens, 100);
    engine_stats(engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    engine_run_free(finished, 2);
    engine_close(engine);
}

/* ---------------------------------------------------------------- the books of a running engine */

/* Every page is free, kept and idle, or held by exactly the sequences that name it; the scheduler
 * counts what they hold. */
static void assert_books(const struct engine_real *real) {
    const struct kv_pages *pages = &real->cache.pages;
    uint32_t held[64] = {0}, free_count = 0, idle_count = 0;
    assert_true(pages->page_count <= 64);
    for (uint32_t handle = 0; handle < real->base.tickets_max; handle++) {
        const struct sequence *sequence = real->sequences[handle];
        if (sequence == NULL) {
            continue;
        }
        const struct kv_hold *hold = &sequence->hold;
        assert_int_equal(hold->page_count, real->scheduler.entries[handle].pages);
        assert_int_equal(hold->page_count > 0, sequence->slot != SEQUENCE_NO_SLOT);
        assert_true(hold->page_count <= sequence->pages_max);
        assert_true(hold->page_count == 0 ||
                    sequence->computed_tokens <= hold->page_count * KV_PAGE_TOKENS);
        for (uint32_t i = 0; i < hold->page_count; i++) {
            held[hold->pages[i]]++;
        }
    }
    for (uint32_t page = 1; page < pages->page_count; page++) {
        assert_int_equal(pages->pages[page].references, held[page]);
        assert_int_equal(pages->pages[page].is_kept, real->cache.prefixes.entries[page].is_used);
        free_count += held[page] == 0 && !pages->pages[page].is_kept;
        idle_count += held[page] == 0 && pages->pages[page].is_kept;
    }
    assert_int_equal(held[KV_PAGES_SCRATCH], 0);
    assert_int_equal(pages->free_count, free_count);
    assert_int_equal(pages->idle_count, idle_count);
}

static void keeps_exact_books_under_random_submits_cancels_and_preemptions(void **state) {
    enum { TICKETS = 400, PAGES = 1 + 14 };
    uint64_t random = test_seed();
    struct engine *engine = open_engine(PAGES, 6, true);
    struct engine_stats stats;
    struct engine_event event;
    uint64_t next = 0, ended = 0;
    while (ended < TICKETS) {
        if (next < TICKETS && next - ended < 12 && test_random(&random) % 3 == 0) {
            submit(engine, next++,
                   job_of((int)(test_random(&random) % 3),
                          1 + (uint32_t)(test_random(&random) % 90),
                          1 + (uint32_t)(test_random(&random) % 70),
                          test_random(&random) % 2 == 0 ? "a" : "b"));
        }
        if (next > 0 && test_random(&random) % 30 == 0) {
            assert_true(engine_cancel(engine, test_random(&random) % next, FINISH_CANCELLED));
        }
        engine_run_step(engine, NULL, 0);
        assert_books((const struct engine_real *)engine);
        while (engine_take_events(engine, &event, 1) == 1) {
            assert_int_equal(event.error.code, event.finish_reason == FINISH_CANCELLED
                                                   ? ERROR_CANCELLED
                                                   : ERROR_NONE);
            ended += event.kind == ENGINE_EVENT_FINISHED;
            engine_event_deinit(&event);
        }
    }
    engine_stats(engine, &stats);
    assert_int_equal(stats.pages_used, 0);
    assert_true(stats.preemptions_total > 0);
    assert_true(stats.prefix_hits_total > 0);
    engine_close(engine);
}

TEST_MAIN_WITH(tiny_engine_write_model, tiny_engine_free_model,
               cmocka_unit_test(computes_the_beginning_of_a_prompt_once),
               cmocka_unit_test(computes_all_of_every_prompt_when_told_to),
               cmocka_unit_test(never_shows_a_tenant_that_another_had_the_same_prompt),
               cmocka_unit_test(shares_the_programs_own_beginning_with_every_tenant_and_no_more),
               cmocka_unit_test(lets_jobs_that_start_together_compute_the_same_beginning_each),
               cmocka_unit_test(finishes_two_jobs_that_do_not_fit_together),
               cmocka_unit_test(finishes_300_jobs_with_room_for_four_as_if_each_had_been_alone),
               cmocka_unit_test(takes_nothing_back_of_what_it_told_when_it_computes_again),
               cmocka_unit_test(cancels_a_job_that_waits_for_pages_with_its_text_so_far),
               cmocka_unit_test(keeps_exact_books_under_random_submits_cancels_and_preemptions))
