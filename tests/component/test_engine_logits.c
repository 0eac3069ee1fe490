/* Every logit's bits depend on nothing but checkpoint, policy, prompt, parameters and seed: not on
 * who computes beside a job, in what pieces, from whose pages, how often, on how many threads, by
 * which kernels. Each run's counters say that what it is about did happen. On a tiny random
 * Llama. */
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/forward.h"
#include "tests/support/test.h"
#include "tests/support/tiny_engine.h"

enum { JOBS = 32, TOKENS = 36, POSITIONS = 256, LONGEST = 200 };

/* ---------------------------------------------------------------- what the tap sees */

/* A hash of the logits that each token was drawn from, by the job's seed and its position. */
struct seen {
    bool is_watching; /* false during the warm-up */
    uint64_t hash[JOBS][POSITIONS];
    uint32_t first[JOBS]; /* position drawn; 0: none yet */
    uint32_t count;
    uint32_t answers_resumed; /* passes that computed several rows and drew no first token */
    uint32_t mixed_passes;    /* passes with rows of several jobs */
    bool is_guessing;         /* a wrong guess's logits are seen, then the right ones */
};

static uint64_t hash_of(const float *logits, size_t count) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001B3u;
        hash ^= hash >> 31;
    }
    return hash;
}

static bool is_among_others(const struct batch *batch, int32_t row) {
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        if (batch->segment_begin[i] <= row && row < batch->segment_begin[i + 1]) {
            return batch->segment_begin[i + 1] - batch->segment_begin[i] > 1;
        }
    }
    fail_msg("row %d is in no segment", (int)row);
    return false;
}

static void see(void *context, const struct batch *batch, const float *logits) {
    struct seen *seen = context;
    size_t vocabulary = batch->limits.vocabulary;
    for (uint32_t i = 0; i < batch->sampled_count && seen->is_watching; i++) {
        uint64_t job = batch->seed[i], position = batch->draw_position[i];
        assert_true(job < JOBS && position > 0 && position < POSITIONS);
        bool is_first = seen->hash[job][position] == 0;
        assert_true(is_first || seen->is_guessing); /* nothing is drawn twice */
        seen->hash[job][position] = hash_of(logits + i * vocabulary, vocabulary);
        seen->count += is_first;
        if (seen->first[job] == 0) {
            seen->first[job] = (uint32_t)position;
        } else {
            seen->answers_resumed += is_among_others(batch, batch->sampled_row[i]);
        }
    }
    seen->mixed_passes += seen->is_watching && batch->segment_count > 1;
}

static void assert_same(const struct seen *seen, const struct seen *expected) {
    assert_int_equal(seen->count, JOBS * TOKENS);
    for (uint32_t job = 0; job < JOBS; job++) {
        for (uint32_t position = 0; position < POSITIONS; position++) {
            if (seen->hash[job][position] != expected->hash[job][position]) {
                fail_msg("job %u: other logits at position %u", job, position);
            }
        }
    }
}

/* ---------------------------------------------------------------- runs */

static struct job job_of(uint32_t i) {
    static const uint32_t lengths[] = {3, 11, 16, 17, 31, 33, 48, 64, 90, 127, 128, LONGEST};
    char id[32], prompt[LONGEST + 1];
    uint32_t length = lengths[i % (sizeof lengths / sizeof lengths[0])];
    for (uint32_t at = 0; at < length; at++) {
        prompt[at] = (char)('a' + (at * 7 + i * 5 + at * at) % 26);
    }
    prompt[length] = '\0';
    snprintf(id, sizeof id, "logits-%u", i);
    struct job job = engine_run_job(id, prompt, TOKENS);
    job.params.seed = i;
    job.params.temperature = i % 3 == 0 ? 0.0f : 0.6f + 0.1f * (float)(i % 5);
    job.params.repetition_penalty = i % 2 == 0 ? 1.2f : 1.0f;
    return job;
}

struct way {
    const char *policy, *tier;
    uint32_t threads, chunk, max_running, pages, page_bytes;
    int32_t drafts;           /* 0: none */
    bool is_alone, is_second; /* is_second: what the same engine gives to the same jobs again */
};

static void run_jobs(struct engine *engine, bool is_alone) {
    struct engine_event finished[JOBS];
    tiny_engine_run(engine, job_of, JOBS, is_alone, finished);
    engine_run_free(finished, JOBS);
}

static enum engine_status open_way(const struct way *way, const struct forward_tap *tap,
                                   struct engine **engine) {
    struct engine_options options = tiny_engine_options();
    options.policy = way->policy;
    options.cpu_tier = way->tier;
    options.threads = way->threads;
    options.max_model_len = POSITIONS;
    options.prefill_chunk_tokens = way->chunk;
    options.max_batch_size = way->max_running;
    options.max_running = way->max_running;
    options.max_speculative_tokens = way->drafts > 0 ? way->drafts : -1;
    options.repetition_cycles = -1;
    options.kv_cache_bytes = (size_t)way->pages * way->page_bytes;
    options.tap = tap;
    char err[512];
    return engine_open(&options, engine, err, sizeof err);
}

static void run_way(const struct way *way, struct seen *seen, struct engine_stats *stats) {
    struct engine *engine = NULL;
    struct forward_tap tap = {.context = seen, .see = see};
    *seen = (struct seen){.is_watching = false, .is_guessing = way->drafts > 0};
    assert_int_equal(open_way(way, &tap, &engine), ENGINE_OK);
    seen->is_watching = true;
    run_jobs(engine, way->is_alone);
    if (way->is_second) {
        *seen = (struct seen){.is_watching = true};
        run_jobs(engine, way->is_alone);
    }
    engine_stats(engine, stats);
    engine_close(engine);
}

/* ---------------------------------------------------------------- one tier */

static void check_alone(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    way.is_alone = true;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_int_equal(seen.mixed_passes, 0);
    assert_int_equal(stats.batches_single, JOBS);
}

static void check_together(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_int_equal(stats.batch_size_max, JOBS);
    assert_int_equal(stats.preemptions_total, 0);
    assert_int_equal(stats.prefix_hits_total, 0);
}

static void check_chunked(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    way.chunk = 13;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_true(stats.prefill_chunks_split >= JOBS / 2);
}

static void check_prefix_hits(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    way.is_second = true;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_true(stats.prefix_hits_total >= JOBS / 2);
    assert_true(stats.cached_tokens_total >= JOBS / 2 * 32);
}

static void check_preempted(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    way.pages = 1 + 17; /* 16 for the longest */
    way.max_running = 8;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_true(stats.preemptions_total >= 4);
    assert_true(stats.recomputed_tokens_total >= 64);
    assert_true(seen.answers_resumed >= 4);
}

/* Half of the jobs have penalties, and are never guessed. */
static void check_drafts(struct way way, const struct seen *expected) {
    static struct seen seen;
    struct engine_stats stats;
    way.drafts = 5;
    way.is_alone = way.threads == 1;
    way.max_running = way.is_alone ? JOBS : 3;
    run_way(&way, &seen, &stats);
    assert_same(&seen, expected);
    assert_true(stats.drafted_tokens_total > 0);
    assert_int_equal(stats.decode_tokens_total, JOBS * TOKENS);
}

static bool has_tier(const char *tier) {
    const struct way way = {.tier = tier, .policy = "int8", .threads = 1};
    struct engine *engine = NULL;
    enum engine_status status = open_way(&way, NULL, &engine);
    engine_close(engine);
    return status == ENGINE_OK;
}

/* Against each job alone, by the reference kernels on one thread. */
static void check_tier(const char *tier, size_t policy_count) {
    static const struct {
        const char *policy;
        uint32_t page_bytes;
    } policies[] = {{"int8", 4096}, {"f32", 8192}, {"balanced", 4096}, {"f16", 4096}};
    static struct seen expected;
    for (size_t i = 0; i < policy_count; i++) {
        struct engine_stats stats;
        struct way way = {.policy = policies[i].policy,
                          .tier = "reference",
                          .threads = 1,
                          .max_running = JOBS,
                          .page_bytes = policies[i].page_bytes,
                          .is_alone = true};
        run_way(&way, &expected, &stats);
        assert_int_equal(expected.count, JOBS * TOKENS);
        way.tier = tier;
        way.is_alone = false;
        for (way.threads = 1; way.threads <= 2; way.threads++) {
            check_alone(way, &expected);
            check_together(way, &expected);
            check_chunked(way, &expected);
            check_prefix_hits(way, &expected);
            check_preempted(way, &expected);
            check_drafts(way, &expected);
        }
    }
}

static void gives_the_same_logits_in_every_situation_by_the_reference_kernels(void **state) {
    check_tier("reference", 2); /* slow; the others are mixed of these */
}

static void gives_the_same_logits_in_every_situation_by_avx2(void **state) {
    if (!has_tier("avx2")) {
        TEST_SKIP("this CPU lacks AVX2");
    }
    check_tier("avx2", 4);
}

static void gives_the_same_logits_in_every_situation_by_avx512(void **state) {
    if (!has_tier("avx512")) {
        TEST_SKIP("this CPU lacks AVX-512 with VNNI");
    }
    check_tier("avx512", 4);
}

/* What the cases above rest on: the tap sees what differs. */
static void sees_other_logits_of_another_policy(void **state) {
    static struct seen int8, f16;
    struct engine_stats stats;
    struct way way = {.policy = "int8", .threads = 1, .max_running = JOBS};
    run_way(&way, &int8, &stats);
    way.policy = "f16";
    run_way(&way, &f16, &stats);
    for (uint32_t job = 0; job < JOBS; job++) {
        assert_int_equal(int8.first[job], f16.first[job]);
        assert_true(int8.hash[job][int8.first[job]] != f16.hash[job][f16.first[job]]);
        for (uint32_t other = 0; other < job; other++) {
            assert_true(int8.hash[job][int8.first[job]] != int8.hash[other][int8.first[other]]);
        }
    }
}

TEST_MAIN_WITH(tiny_engine_write_model, tiny_engine_free_model,
               cmocka_unit_test(gives_the_same_logits_in_every_situation_by_the_reference_kernels),
               cmocka_unit_test(gives_the_same_logits_in_every_situation_by_avx2),
               cmocka_unit_test(gives_the_same_logits_in_every_situation_by_avx512),
               cmocka_unit_test(sees_other_logits_of_another_policy))
