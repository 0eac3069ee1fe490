/* engine/scheduler: scripted arrivals with the batches they must give, and random schedules beside
 * a plain second version of the rules. */
#include "engine/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define NS_PER_MS 1000000LL
#define TEXT_BYTES 8192

/* ---------------------------------------------------------------- pages by count */

enum { HANDLES = 64 };

struct counted_pages {
    uint32_t total, held_total;
    uint32_t held[HANDLES];
    uint32_t cached_tokens[HANDLES]; /* what `begin` finds computed */
};

static bool counted_begin(void *context, uint32_t handle, uint32_t page_count,
                          uint32_t *computed_tokens) {
    struct counted_pages *pages = context;
    assert_int_equal(pages->held[handle], 0);
    if (page_count > pages->total - pages->held_total) {
        return false;
    }
    pages->held[handle] = page_count;
    pages->held_total += page_count;
    *computed_tokens = pages->cached_tokens[handle];
    return true;
}

static bool counted_grow(void *context, uint32_t handle) {
    struct counted_pages *pages = context;
    if (pages->held_total == pages->total) {
        return false;
    }
    pages->held[handle]++;
    pages->held_total++;
    return true;
}

static void counted_release(void *context, uint32_t handle) {
    struct counted_pages *pages = context;
    assert_true(pages->held[handle] > 0);
    pages->held_total -= pages->held[handle];
    pages->held[handle] = 0;
}

static void init(struct scheduler *scheduler, const struct scheduler_limits *limits,
                 struct counted_pages *counted) {
    struct scheduler_pages pages = {counted, counted_begin, counted_grow, counted_release};
    *counted = (struct counted_pages){.total = limits->pages_total};
    assert_true(scheduler_init(scheduler, limits, &pages));
}

static uint32_t pages_of(uint32_t tokens) {
    return (tokens + 15) / 16;
}

/* ---------------------------------------------------------------- scripts */

struct script {
    struct scheduler_limits limits;
    uint32_t answer_tokens; /* of every sequence */
    int64_t drain_at_ms;    /* -1: never */
    int64_t end_ms;
};

static struct script script_default(void) {
    return (struct script){.limits = {.handles_max = 64,
                                      .max_batch_size = 4,
                                      .max_running = 4,
                                      .max_batch_tokens = 1000,
                                      .prefill_chunk_tokens = 1000,
                                      .pages_total = 4096,
                                      .max_queue_delay_ns = 50 * NS_PER_MS},
                           .answer_tokens = 1,
                           .drain_at_ms = -1,
                           .end_ms = 300};
}

static void say(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

static void add_arrivals(struct scheduler *scheduler, const struct script *script,
                         const char *arrivals, int64_t at_ms) {
    uint32_t handle = 0;
    for (const char *at = arrivals; at != NULL && *at != '\0'; handle++) {
        long long when_ms = 0;
        unsigned tokens = 0, priority = 5;
        assert_true(sscanf(at, "%lld:%up%u", &when_ms, &tokens, &priority) >= 2);
        if (when_ms == at_ms) {
            scheduler_add(scheduler, handle, tokens, pages_of(tokens + script->answer_tokens - 1),
                          priority, at_ms * NS_PER_MS);
        }
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
}

static void retire(struct scheduler *scheduler, const struct script *script,
                   const struct schedule *schedule) {
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        const struct scheduler_entry *entry = &scheduler->entries[pick->handle];
        if (entry->computed_tokens >= entry->prompt_tokens + script->answer_tokens - 1) {
            scheduler_remove(scheduler, pick->handle);
        }
    }
}

/* Runs `arrivals` ("at_ms:tokens" or "at_ms:tokens p priority", in order of handles), a step each
 * millisecond, and compares "at_ms cut handles…" of each step that admits, and the prompt rows as
 * "at_ms handle+rows" where `rows` asks for them. */
static void expect(struct script script, const char *arrivals, bool rows, const char *expected) {
    struct scheduler scheduler;
    struct counted_pages pages;
    char text[TEXT_BYTES] = "";
    init(&scheduler, &script.limits, &pages);
    for (int64_t at_ms = 0; at_ms < script.end_ms; at_ms++) {
        struct schedule schedule;
        add_arrivals(&scheduler, &script, arrivals, at_ms);
        if (at_ms == script.drain_at_ms) {
            scheduler_drain(&scheduler);
        }
        scheduler_next(&scheduler, at_ms * NS_PER_MS, &schedule);
        if (schedule.admitted_count > 0 && !rows) {
            say(text, "%s%lld %s", text[0] ? "; " : "", (long long)at_ms,
                engine_cut_name(schedule.cut));
        }
        for (uint32_t i = 0; i < schedule.admitted_count && !rows; i++) {
            say(text, " %u", schedule.admitted[i]);
        }
        for (uint32_t i = 0; i < schedule.preempted_count; i++) {
            say(text, "; %lld lost %u", (long long)at_ms, schedule.preempted[i]);
        }
        for (uint32_t i = 0; i < schedule.resumed_count; i++) {
            say(text, "; %lld back %u", (long long)at_ms, schedule.resumed[i]);
        }
        for (uint32_t i = 0; i < schedule.pick_count && rows; i++) {
            const struct pick *pick = &schedule.picks[i];
            say(text, "%s%lld %u@%u+%u%s", text[0] ? "; " : "", (long long)at_ms, pick->handle,
                pick->first_position, pick->row_count, pick->is_sampled ? "!" : "");
        }
        retire(&scheduler, &script, &schedule);
    }
    scheduler_deinit(&scheduler);
    assert_string_equal(text, expected);
}

static void cuts_a_bucket_that_reaches_max_batch_size(void **state) {
    expect(script_default(), "0:18 1:18 2:18 3:18", false, "3 size 0 1 2 3");
}

static void cuts_a_bucket_that_reaches_max_batch_tokens(void **state) {
    expect(script_default(), "0:500 1:500", false, "1 tokens 0 1");
}

static void cuts_from_idle_when_the_oldest_has_waited(void **state) {
    expect(script_default(), "10:18 20:18", false, "60 delay 0 1");
}

static void tells_how_late_a_cut_for_delay_comes(void **state) {
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    struct schedule schedule;
    script.limits.pages_total = 2;
    script.limits.bucket_strict = true;
    init(&scheduler, &script.limits, &pages);
    scheduler_add(&scheduler, 0, 18, 2, 5, 10 * NS_PER_MS);
    scheduler_next(&scheduler, 11 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 0);
    assert_int_equal(schedule.late_ns, 0);
    scheduler_next(&scheduler, 63 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.cut, ENGINE_CUT_DELAY);
    assert_int_equal(schedule.late_ns, 3 * NS_PER_MS);

    /* The next was due while the first ran: it is not late but had to wait for room. */
    scheduler_add(&scheduler, 1, 18, 2, 5, 64 * NS_PER_MS);
    scheduler_next(&scheduler, 65 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 0);
    scheduler_remove(&scheduler, 0);
    scheduler_next(&scheduler, 200 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 1);
    assert_int_equal(schedule.late_ns, 0);

    scheduler_remove(&scheduler, 1);
    scheduler_next(&scheduler, 201 * NS_PER_MS, &schedule); /* idle again */
    scheduler_add(&scheduler, 2, 18, 2, 5, 300 * NS_PER_MS);
    scheduler_next(&scheduler, 350 * NS_PER_MS + 7, &schedule);
    assert_int_equal(schedule.cut, ENGINE_CUT_DELAY);
    assert_int_equal(schedule.late_ns, 7);
    scheduler_deinit(&scheduler);
}

static void cuts_at_once_without_a_delay(void **state) {
    struct script script = script_default();
    script.limits.max_queue_delay_ns = 0;
    expect(script, "10:18 20:18", false, "10 delay 0; 20 delay 1");
}

static void cuts_at_once_for_priority_zero(void **state) {
    expect(script_default(), "10:18 20:18p0 20:18", false, "20 priority 1 0 2");
}

static void cuts_at_once_while_draining(void **state) {
    struct script script = script_default();
    script.drain_at_ms = 15;
    expect(script, "10:18 20:18 20:90", false, "15 drain 0; 20 drain 1 2");
}

static void fills_a_batch_from_the_nearest_buckets_shorter_first(void **state) {
    /* Buckets of 18, 22, 27, 33, 100: 1, 2, 3, 4, 10. The oldest leads; then 1 and 3, then 4. */
    expect(script_default(), "0:22 1:33 2:27 3:18 4:100", false, "50 delay 0 3 2 1; 54 delay 4");
}

static void leaves_other_buckets_alone_when_strict(void **state) {
    struct script script = script_default();
    script.limits.bucket_strict = true;
    expect(script, "0:22 1:27 2:22", false, "50 delay 0 2; 51 delay 1");
}

static void orders_a_bucket_by_priority_then_arrival(void **state) {
    expect(script_default(), "0:18p7 1:18p2 2:18p2 3:18p9", false, "3 size 1 2 0 3");
}

static void lets_waiting_jobs_join_what_runs_at_the_next_step(void **state) {
    struct script script = script_default();
    script.answer_tokens = 30;
    expect(script, "0:18 60:18 61:90 62:18 63:18", false,
           "50 delay 0; 60 join 1; 61 join 2; 62 join 3; 80 join 4");
}

static void joins_no_further_than_max_running(void **state) {
    struct script script = script_default();
    script.limits.max_running = 2;
    script.answer_tokens = 10;
    expect(script, "0:18 0:18 0:18", false, "0 size 0 1; 50 delay 2");
    script.answer_tokens = 30;
    expect(script, "0:18 51:18 52:18", false, "50 delay 0; 51 join 1; 80 join 2");
}

static void admits_no_more_prompt_tokens_than_the_limit(void **state) {
    struct script script = script_default();
    script.answer_tokens = 10;
    expect(script, "0:400 0:400 0:400", false, "0 tokens 0 1; 1 join 2");
}

static void admits_a_prompt_beyond_max_batch_tokens_by_itself(void **state) {
    expect(script_default(), "0:5000 0:18", false, "0 tokens 0; 1 join 1");
}

static void never_passes_over_a_job_that_does_not_fit(void **state) {
    /* 900 fits beside nothing but itself; 18 comes after it and must not overtake. */
    struct script script = script_default();
    script.answer_tokens = 100;
    expect(script, "0:200 51:900 51:900 52:18", false, "50 delay 0; 51 join 1; 52 join 2 3");
}

static void waits_for_the_pages_of_those_that_run(void **state) {
    struct script script = script_default();
    script.limits.pages_total = 7; /* 3 each: 2 for the prompt, 1 for the answer */
    script.answer_tokens = 20;
    expect(script, "0:18 0:18 0:18", false, "50 delay 0 1; 70 delay 2");
}

static void splits_a_long_prompt_into_chunks_beside_decode_rows(void **state) {
    struct script script = script_default();
    script.limits.prefill_chunk_tokens = 16;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 3;
    expect(script, "0:10 1:40", true,
           "0 0@0+10!; 1 0@10+1!; 1 1@0+16; 2 0@11+1!; 2 1@16+16; 3 1@32+8!; 4 1@40+1!; 5 1@41+1!");
}

static void shares_a_chunk_in_the_order_of_admission(void **state) {
    struct script script = script_default();
    script.limits.prefill_chunk_tokens = 32;
    script.limits.max_queue_delay_ns = 0;
    expect(script, "0:20 0:20 0:20", true, "0 0@0+20!; 0 1@0+12; 1 1@12+8!; 1 2@0+20!");
}

static void gives_each_its_turn_when_not_all_fit_a_step(void **state) {
    struct script script = script_default();
    script.limits.max_batch_size = 2;
    script.limits.max_running = 3;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 3;
    expect(script, "0:2 0:2 1:2", true,
           "0 0@0+2!; 0 1@0+2!; 1 0@2+1!; 1 1@2+1!; 2 0@3+1!; 2 1@3+1!; 3 2@0+2!; 4 2@2+1!; "
           "5 2@3+1!");
}

static void says_when_a_bucket_will_be_due(void **state) {
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    struct schedule schedule;
    init(&scheduler, &script.limits, &pages);
    scheduler_next(&scheduler, 0, &schedule);
    assert_true(schedule.wake_ns == SCHEDULER_WAKE_NEVER);
    scheduler_add(&scheduler, 0, 18, 2, 5, 7 * NS_PER_MS);
    scheduler_add(&scheduler, 1, 900, 57, 5, 3 * NS_PER_MS);
    scheduler_next(&scheduler, 8 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.pick_count, 0);
    assert_int_equal(schedule.wake_ns, 53 * NS_PER_MS);
    scheduler_next(&scheduler, schedule.wake_ns, &schedule);
    assert_int_equal(schedule.admitted_count, 2);
    scheduler_deinit(&scheduler);
}

/* ---------------------------------------------------------------- pages */

static void preempts_the_newest_and_computes_it_again_when_there_is_room(void **state) {
    /* Each starts with 2 pages of 4 and would need 3 at its 33rd position. The second loses its
     * pages to the first, and starts again with all 33 tokens that it knows. */
    struct script script = script_default();
    script.limits.pages_total = 4;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 20;
    expect(script, "0:16 0:16", false, "0 delay 0 1; 17 lost 1; 20 back 1");
}

static void computes_again_the_answer_so_far_without_drawing_it(void **state) {
    struct script script = script_default();
    script.limits.pages_total = 4;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 19;
    script.end_ms = 30;
    expect(
        script, "0:16 0:16", true,
        "0 0@0+16!; 0 1@0+16!; 1 0@16+1!; 1 1@16+1!; 2 0@17+1!; 2 1@17+1!; 3 0@18+1!; 3 1@18+1!; "
        "4 0@19+1!; 4 1@19+1!; 5 0@20+1!; 5 1@20+1!; 6 0@21+1!; 6 1@21+1!; 7 0@22+1!; "
        "7 1@22+1!; 8 0@23+1!; 8 1@23+1!; 9 0@24+1!; 9 1@24+1!; 10 0@25+1!; 10 1@25+1!; "
        "11 0@26+1!; 11 1@26+1!; 12 0@27+1!; 12 1@27+1!; 13 0@28+1!; 13 1@28+1!; 14 0@29+1!; "
        "14 1@29+1!; 15 0@30+1!; 15 1@30+1!; 16 0@31+1!; 16 1@31+1!; 17 lost 1; 17 0@32+1!; "
        "18 0@33+1!; 19 back 1; 19 1@0+33!; 20 1@33+1!");
}

static void preempts_by_priority_before_age(void **state) {
    struct script script = script_default();
    script.limits.pages_total = 4;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 20;
    expect(script, "0:16p6 1:16p2", false, "0 delay 0; 1 join 1; 17 lost 0; 21 back 0");
}

static void starts_nothing_before_those_that_were_preempted_but_what_is_more_urgent(void **state) {
    struct script script = script_default();
    script.limits.pages_total = 5;
    script.limits.max_queue_delay_ns = 0;
    script.answer_tokens = 40;
    script.limits.max_batch_size = 8;
    /* From 17 on 0 has three pages and 1 waits for four. 2 would fit beside 0, but comes after 1; 3
     * does not. At 33 there is no fourth page for 0, which is less urgent than 3. */
    expect(script, "0:16 0:16 18:1 20:1p4", false,
           "0 delay 0 1; 17 lost 1; 20 join 3; 33 lost 0; 60 back 0; 67 back 1; 90 delay 2");
}

static void starts_where_the_cached_beginning_of_a_prompt_ends(void **state) {
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    struct schedule schedule;
    init(&scheduler, &script.limits, &pages);
    pages.cached_tokens[0] = 48;
    scheduler_add(&scheduler, 0, 60, 5, 0, 0);
    scheduler_next(&scheduler, 0, &schedule);
    assert_int_equal(schedule.pick_count, 1);
    assert_int_equal(schedule.picks[0].first_position, 48);
    assert_int_equal(schedule.picks[0].row_count, 12);
    assert_true(schedule.picks[0].is_sampled);
    assert_int_equal(schedule.prefill_rows, 12);
    scheduler_remove(&scheduler, 0);
    assert_int_equal(pages.held_total, 0);
    scheduler_deinit(&scheduler);
}

/* ---------------------------------------------------------------- the obvious version */

enum { MODEL_HANDLES = 40 };

struct model_entry {
    enum scheduler_state state;
    uint32_t tokens, end, priority; /* end: tokens of prompt and answer */
    uint32_t known, computed, pages;
    int64_t arrival_ns, number, turn; /* turn: of its last decode row or its start */
};

struct plain {
    struct scheduler_limits limits;
    struct model_entry entries[MODEL_HANDLES];
    bool is_draining;
    int64_t turns;
    uint32_t lead; /* bucket, for the order of a cut */
    uint32_t started, started_tokens;
};

static struct plain *sorted_for; /* qsort has no context */

static int compare_waiting(const void *a, const void *b) {
    const struct model_entry *x = &sorted_for->entries[*(const uint32_t *)a];
    const struct model_entry *y = &sorted_for->entries[*(const uint32_t *)b];
    int64_t lead = sorted_for->lead;
    int64_t bx = bucket_index(x->tokens), by = bucket_index(y->tokens);
    int64_t keys[5] = {lead < 0xFF ? labs(bx - lead) - labs(by - lead) : 0,
                       lead < 0xFF ? bx - by : 0, (int64_t)x->priority - y->priority,
                       x->arrival_ns - y->arrival_ns, x->number - y->number};
    for (int i = 0; i < 5; i++) {
        if (keys[i] != 0) {
            return keys[i] < 0 ? -1 : 1;
        }
    }
    return 0;
}

/* Those in one of two states, in the order of a cut led by `lead`; 0xFF: by priority and age. */
static uint32_t plain_list(struct plain *plain, uint32_t handles[MODEL_HANDLES], uint32_t lead,
                           enum scheduler_state one, enum scheduler_state other) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        if (plain->entries[i].state == one || plain->entries[i].state == other) {
            handles[count++] = i;
        }
    }
    plain->lead = lead;
    sorted_for = plain;
    qsort(handles, count, sizeof *handles, compare_waiting);
    return count;
}

static uint32_t plain_sum(const struct plain *plain, bool of_pages) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        bool runs = plain->entries[i].state > SCHEDULER_PREEMPTED;
        sum += of_pages ? plain->entries[i].pages : runs;
    }
    return sum;
}

/* Why the bucket of this sequence is due from idle; ENGINE_CUT_COUNT if it is not. */
static enum engine_cut plain_due(const struct plain *plain, uint32_t bucket, int64_t now_ns) {
    uint32_t count = 0, tokens = 0, most_urgent = 9;
    int64_t oldest_ns = INT64_MAX;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        const struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_WAITING && bucket_index(entry->tokens) == bucket) {
            count++;
            tokens += entry->tokens;
            most_urgent = entry->priority < most_urgent ? entry->priority : most_urgent;
            oldest_ns = entry->arrival_ns < oldest_ns ? entry->arrival_ns : oldest_ns;
        }
    }
    return count >= plain->limits.max_batch_size || count >= plain->limits.max_running
               ? ENGINE_CUT_SIZE
           : tokens >= plain->limits.max_batch_tokens               ? ENGINE_CUT_TOKENS
           : most_urgent == 0                                       ? ENGINE_CUT_PRIORITY
           : now_ns - oldest_ns >= plain->limits.max_queue_delay_ns ? ENGINE_CUT_DELAY
           : plain->is_draining                                     ? ENGINE_CUT_DRAIN
                                                                    : ENGINE_CUT_COUNT;
}

static struct model_entry *plain_next_turn(struct plain *plain, enum scheduler_state state,
                                           int64_t after, int64_t before) {
    struct model_entry *next = NULL;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        struct model_entry *entry = &plain->entries[i];
        if (entry->state == state && entry->turn > after && entry->turn < before &&
            (next == NULL || entry->turn < next->turn)) {
            next = entry;
        }
    }
    return next;
}

/* The first answer without room among those whose turn it is. */
static struct model_entry *plain_find_cramped(struct plain *plain) {
    int64_t after = -1;
    for (uint32_t i = 0; i < plain->limits.max_batch_size; i++) {
        struct model_entry *entry = plain_next_turn(plain, SCHEDULER_DECODE, after, INT64_MAX);
        if (entry == NULL || entry->computed == entry->pages * 16) {
            return entry;
        }
        after = entry->turn;
    }
    return NULL;
}

static void plain_make_room(struct plain *plain, char *text) {
    struct model_entry *cramped;
    while ((cramped = plain_find_cramped(plain)) != NULL) {
        uint32_t handles[MODEL_HANDLES];
        if (plain_sum(plain, true) < plain->limits.pages_total) {
            cramped->pages++;
            continue;
        }
        uint32_t count = plain_list(plain, handles, 0xFF, SCHEDULER_PREFILL, SCHEDULER_DECODE);
        struct model_entry *victim = &plain->entries[handles[count - 1]];
        say(text, " lost:%u", handles[count - 1]);
        victim->state = SCHEDULER_PREEMPTED;
        victim->pages = 0;
    }
}

/* Any number of whole pages that hold no more than all tokens but the prompt's last. */
static uint32_t cached_tokens_of(uint32_t handle, uint32_t tokens) {
    return handle % 4 * 16 < (tokens - 1) / 16 * 16 ? handle % 4 * 16 : (tokens - 1) / 16 * 16;
}

static bool plain_start(struct plain *plain, uint32_t handle) {
    struct model_entry *entry = &plain->entries[handle];
    uint32_t most = pages_of(entry->end - 1);
    uint32_t pages = pages_of(entry->known) + 1 < most ? pages_of(entry->known) + 1 : most;
    if (plain->started == plain->limits.max_batch_size ||
        plain_sum(plain, false) == plain->limits.max_running ||
        plain_sum(plain, true) + pages > plain->limits.pages_total ||
        (plain->started > 0 &&
         plain->started_tokens + entry->known > plain->limits.max_batch_tokens)) {
        return false;
    }
    entry->state = SCHEDULER_PREFILL;
    entry->turn = plain->turns++;
    entry->pages = pages;
    entry->computed = cached_tokens_of(handle, entry->tokens);
    plain->started++;
    plain->started_tokens += entry->known;
    return true;
}

/* The priority that a waiting sequence must be more urgent than. */
static uint32_t plain_resume(struct plain *plain, char *text) {
    uint32_t handles[MODEL_HANDLES];
    uint32_t count = plain_list(plain, handles, 0xFF, SCHEDULER_PREEMPTED, SCHEDULER_PREEMPTED);
    plain->started = plain->started_tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!plain_start(plain, handles[i])) {
            return plain->entries[handles[i]].priority;
        }
        say(text, " back:%u", handles[i]);
    }
    return UINT32_MAX;
}

static void plain_admit(struct plain *plain, int64_t now_ns, uint32_t barrier, char *text) {
    uint32_t handles[MODEL_HANDLES];
    uint32_t running = plain_sum(plain, false);
    uint32_t count = plain_list(plain, handles, 0xFF, SCHEDULER_WAITING, SCHEDULER_WAITING);
    enum engine_cut cut = ENGINE_CUT_COUNT;
    uint32_t lead = 0;
    for (uint32_t i = 0; i < count && cut == ENGINE_CUT_COUNT; i++) {
        lead = bucket_index(plain->entries[handles[i]].tokens);
        cut = running > 0 ? ENGINE_CUT_JOIN : plain_due(plain, lead, now_ns);
    }
    if (cut == ENGINE_CUT_COUNT) {
        return;
    }
    plain_list(plain, handles, lead, SCHEDULER_WAITING, SCHEDULER_WAITING);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_entry *entry = &plain->entries[handles[i]];
        if ((plain->limits.bucket_strict && bucket_index(entry->tokens) != lead) ||
            entry->priority >= barrier || !plain_start(plain, handles[i])) {
            break;
        }
        say(text, " %s:%u", engine_cut_name(cut), handles[i]);
    }
}

static void plain_rows(struct plain *plain, char *text) {
    uint32_t picked = 0, left = plain->limits.prefill_chunk_tokens;
    int64_t before = plain->turns;
    struct model_entry *entry;
    while (picked < plain->limits.max_batch_size &&
           (entry = plain_next_turn(plain, SCHEDULER_DECODE, -1, before)) != NULL) {
        say(text, " %u@%u+1!", (uint32_t)(entry - plain->entries), entry->computed++);
        entry->known++;
        entry->turn = plain->turns++;
        picked++;
    }
    while (picked < plain->limits.max_batch_size && left > 0 &&
           (entry = plain_next_turn(plain, SCHEDULER_PREFILL, -1, INT64_MAX)) != NULL) {
        uint32_t missing = entry->known - entry->computed;
        uint32_t rows = missing < left ? missing : left;
        say(text, " %u@%u+%u%s", (uint32_t)(entry - plain->entries), entry->computed, rows,
            rows == missing ? "!" : "");
        entry->computed += rows;
        left -= rows;
        picked++;
        if (rows == missing) {
            entry->known++;
            entry->state = SCHEDULER_DECODE;
            entry->turn = plain->turns++;
        }
    }
}

static void plain_step(struct plain *plain, int64_t now_ns, char *text) {
    plain_make_room(plain, text);
    plain_admit(plain, now_ns, plain_resume(plain, text), text);
    plain_rows(plain, text);
}

static void describe(const struct schedule *schedule, char *text) {
    for (uint32_t i = 0; i < schedule->preempted_count; i++) {
        say(text, " lost:%u", schedule->preempted[i]);
    }
    for (uint32_t i = 0; i < schedule->resumed_count; i++) {
        say(text, " back:%u", schedule->resumed[i]);
    }
    for (uint32_t i = 0; i < schedule->admitted_count; i++) {
        say(text, " %s:%u", engine_cut_name(schedule->cut), schedule->admitted[i]);
    }
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        say(text, " %u@%u+%u%s", pick->handle, pick->first_position, pick->row_count,
            pick->is_sampled ? "!" : "");
    }
}

static struct scheduler_limits random_limits(uint64_t *random) {
    return (struct scheduler_limits){
        .handles_max = MODEL_HANDLES,
        .max_batch_size = 1 + (uint32_t)(test_random(random) % 8),
        .max_running = 1 + (uint32_t)(test_random(random) % 10),
        .max_batch_tokens = 20 + (uint32_t)(test_random(random) % 400),
        .prefill_chunk_tokens = 1 + (uint32_t)(test_random(random) % 100),
        .pages_total = 10 + (uint32_t)(test_random(random) % 20),
        .max_queue_delay_ns = (int64_t)(test_random(random) % 6),
        .bucket_strict = test_random(random) % 4 == 0,
    };
}

static void change_at_random(struct scheduler *scheduler, struct counted_pages *pages,
                             struct plain *plain, int64_t now_ns, uint64_t *random) {
    uint32_t handle = (uint32_t)(test_random(random) % MODEL_HANDLES);
    struct model_entry *entry = &plain->entries[handle];
    if (entry->state != SCHEDULER_FREE) {
        if (test_random(random) % 16 == 0) {
            scheduler_remove(scheduler, handle);
            *entry = (struct model_entry){.state = SCHEDULER_FREE};
        }
        return;
    }
    uint32_t tokens = 1 + (uint32_t)(test_random(random) % 100);
    *entry = (struct model_entry){.state = SCHEDULER_WAITING,
                                  .tokens = tokens,
                                  .end = tokens + 1 + (uint32_t)(test_random(random) % 60),
                                  .known = tokens,
                                  .priority = (uint32_t)(test_random(random) % 10),
                                  .arrival_ns = now_ns - (int64_t)(test_random(random) % 3),
                                  .number = plain->turns++};
    pages->cached_tokens[handle] = cached_tokens_of(handle, tokens);
    scheduler_add(scheduler, handle, tokens, pages_of(entry->end - 1), entry->priority,
                  entry->arrival_ns);
}

static void retire_answers(struct scheduler *scheduler, struct plain *plain) {
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_DECODE && entry->known == entry->end) {
            scheduler_remove(scheduler, i);
            *entry = (struct model_entry){.state = SCHEDULER_FREE};
        }
    }
}

/* The number of preemptions. */
static uint32_t run_beside_plain(uint64_t *random) {
    static struct plain plain;
    struct scheduler scheduler;
    struct counted_pages pages;
    uint32_t preemptions = 0;
    memset(&plain, 0, sizeof plain);
    plain.limits = random_limits(random);
    init(&scheduler, &plain.limits, &pages);
    for (int64_t now_ns = 0; now_ns < 400; now_ns++) {
        char expected[TEXT_BYTES] = "", got[TEXT_BYTES] = "";
        struct schedule schedule;
        for (uint64_t changes = test_random(random) % 3; changes > 0; changes--) {
            change_at_random(&scheduler, &pages, &plain, now_ns, random);
        }
        if (now_ns == 350) {
            scheduler_drain(&scheduler);
            plain.is_draining = true;
        }
        plain_step(&plain, now_ns, expected);
        scheduler_next(&scheduler, now_ns, &schedule);
        describe(&schedule, got);
        assert_string_equal(got, expected);
        assert_int_equal(pages.held_total, plain_sum(&plain, true));
        preemptions += schedule.preempted_count;
        retire_answers(&scheduler, &plain);
    }
    scheduler_deinit(&scheduler);
    return preemptions;
}

static void agrees_with_the_obvious_version_on_random_schedules(void **state) {
    uint64_t random = test_seed();
    uint32_t preemptions = 0;
    for (int round = 0; round < 200; round++) {
        preemptions += run_beside_plain(&random);
    }
    assert_true(preemptions > 200);
}

TEST_MAIN(cmocka_unit_test(cuts_a_bucket_that_reaches_max_batch_size),
          cmocka_unit_test(cuts_a_bucket_that_reaches_max_batch_tokens),
          cmocka_unit_test(cuts_from_idle_when_the_oldest_has_waited),
          cmocka_unit_test(tells_how_late_a_cut_for_delay_comes),
          cmocka_unit_test(cuts_at_once_without_a_delay),
          cmocka_unit_test(cuts_at_once_for_priority_zero),
          cmocka_unit_test(cuts_at_once_while_draining),
          cmocka_unit_test(fills_a_batch_from_the_nearest_buckets_shorter_first),
          cmocka_unit_test(leaves_other_buckets_alone_when_strict),
          cmocka_unit_test(orders_a_bucket_by_priority_then_arrival),
          cmocka_unit_test(lets_waiting_jobs_join_what_runs_at_the_next_step),
          cmocka_unit_test(joins_no_further_than_max_running),
          cmocka_unit_test(admits_no_more_prompt_tokens_than_the_limit),
          cmocka_unit_test(admits_a_prompt_beyond_max_batch_tokens_by_itself),
          cmocka_unit_test(never_passes_over_a_job_that_does_not_fit),
          cmocka_unit_test(waits_for_the_pages_of_those_that_run),
          cmocka_unit_test(splits_a_long_prompt_into_chunks_beside_decode_rows),
          cmocka_unit_test(shares_a_chunk_in_the_order_of_admission),
          cmocka_unit_test(gives_each_its_turn_when_not_all_fit_a_step),
          cmocka_unit_test(says_when_a_bucket_will_be_due),
          cmocka_unit_test(preempts_the_newest_and_computes_it_again_when_there_is_room),
          cmocka_unit_test(computes_again_the_answer_so_far_without_drawing_it),
          cmocka_unit_test(preempts_by_priority_before_age),
          cmocka_unit_test(starts_nothing_before_those_that_were_preempted_but_what_is_more_urgent),
          cmocka_unit_test(starts_where_the_cached_beginning_of_a_prompt_ends),
          cmocka_unit_test(agrees_with_the_obvious_version_on_random_schedules))
