/* engine/scheduler: scripted arrivals with the batches they must give, and the bounds that its
 * rules promise. test_scheduler_random holds it to a plain second version. */
#include "engine/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/support/counted_pages.h"
#include "tests/support/test.h"

#define NS_PER_MS 1000000LL
#define TEXT_BYTES 8192
#define FORESEEN_MAX 64

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
                                      .max_queue_delay_ns = 50 * NS_PER_MS,
                                      .priority_ageing_ns = 1000 * NS_PER_MS},
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

static void add(struct scheduler *scheduler, uint32_t handle, uint32_t tokens, uint32_t pages,
                uint32_t priority, int64_t arrival_ns) {
    const struct scheduler_item item = {.prompt_tokens = tokens,
                                        .pages_max = pages,
                                        .priority = priority,
                                        .arrival_ns = arrival_ns};
    scheduler_add(scheduler, handle, &item);
}

static void add_arrivals(struct scheduler *scheduler, const struct script *script,
                         const char *arrivals, int64_t at_ms) {
    uint32_t handle = 0;
    for (const char *at = arrivals; at != NULL && *at != '\0'; handle++) {
        long long when_ms = 0;
        unsigned tokens = 0, priority = 5;
        assert_true(sscanf(at, "%lld:%up%u", &when_ms, &tokens, &priority) >= 2);
        if (when_ms == at_ms) {
            add(scheduler, handle, tokens, counted_pages_of(tokens + script->answer_tokens - 1),
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

/* What was foreseen before a step in which nothing started or was preempted are its picks. */
static void check_foreseen(const struct pick *foreseen, uint32_t count,
                           const struct schedule *schedule) {
    if (schedule->admitted_count + schedule->resumed_count + schedule->preempted_count > 0) {
        return;
    }
    assert_int_equal(count, schedule->pick_count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(foreseen[i].handle, schedule->picks[i].handle);
        assert_int_equal(foreseen[i].first_position, schedule->picks[i].first_position);
        assert_int_equal(foreseen[i].row_count, schedule->picks[i].row_count);
        assert_int_equal(foreseen[i].is_sampled, schedule->picks[i].is_sampled);
    }
}

/* Runs `arrivals` ("at_ms:tokens" or "at_ms:tokens p priority", in order of handles), a step each
 * millisecond, and compares "at_ms cut handles…" of each step that admits, and the prompt rows as
 * "at_ms handle+rows" where `rows` asks for them. */
static void expect(struct script script, const char *arrivals, bool rows, const char *expected) {
    struct scheduler scheduler;
    struct counted_pages pages;
    char text[TEXT_BYTES] = "";
    counted_pages_init(&scheduler, &script.limits, &pages);
    for (int64_t at_ms = 0; at_ms < script.end_ms; at_ms++) {
        struct schedule schedule;
        add_arrivals(&scheduler, &script, arrivals, at_ms);
        if (at_ms == script.drain_at_ms) {
            scheduler_drain(&scheduler);
        }
        struct pick foreseen[FORESEEN_MAX];
        assert_true(script.limits.max_batch_size <= FORESEEN_MAX);
        uint32_t foreseen_count = scheduler_foresee(&scheduler, foreseen);
        scheduler_next(&scheduler, at_ms * NS_PER_MS, &schedule);
        check_foreseen(foreseen, foreseen_count, &schedule);
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
    counted_pages_init(&scheduler, &script.limits, &pages);
    add(&scheduler, 0, 18, 2, 5, 10 * NS_PER_MS);
    scheduler_next(&scheduler, 11 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 0);
    assert_int_equal(schedule.late_ns, 0);
    scheduler_next(&scheduler, 63 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.cut, ENGINE_CUT_DELAY);
    assert_int_equal(schedule.late_ns, 3 * NS_PER_MS);

    /* The next was due while the first ran: it is not late but had to wait for room. */
    add(&scheduler, 1, 18, 2, 5, 64 * NS_PER_MS);
    scheduler_next(&scheduler, 65 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 0);
    scheduler_remove(&scheduler, 0);
    scheduler_next(&scheduler, 200 * NS_PER_MS, &schedule);
    assert_int_equal(schedule.admitted_count, 1);
    assert_int_equal(schedule.late_ns, 0);

    scheduler_remove(&scheduler, 1);
    scheduler_next(&scheduler, 201 * NS_PER_MS, &schedule); /* idle again */
    add(&scheduler, 2, 18, 2, 5, 300 * NS_PER_MS);
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
    counted_pages_init(&scheduler, &script.limits, &pages);
    scheduler_next(&scheduler, 0, &schedule);
    assert_true(schedule.wake_ns == SCHEDULER_WAKE_NEVER);
    add(&scheduler, 0, 18, 2, 5, 7 * NS_PER_MS);
    add(&scheduler, 1, 900, 57, 5, 3 * NS_PER_MS);
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
    counted_pages_init(&scheduler, &script.limits, &pages);
    pages.cached_tokens[0] = 48;
    add(&scheduler, 0, 60, 5, 0, 0);
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

static void gives_one_that_was_preempted_its_pages_for_good_once_it_has_aged(void **state) {
    /* Two urgent ones are always there, each of which could take all pages in time. */
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    uint32_t lost = 0, urgent = 0;
    int64_t now_ns = 0, aged_ns = 9 * 1000 * NS_PER_MS;
    script.limits.pages_total = 8;
    script.limits.max_queue_delay_ns = 0;
    counted_pages_init(&scheduler, &script.limits, &pages);
    add(&scheduler, 0, 16, 8, 9, 0);
    for (; scheduler.entries[0].state != SCHEDULER_FREE; now_ns += 10 * NS_PER_MS) {
        struct schedule schedule;
        for (uint32_t handle = 1; handle <= 2; handle++) {
            if (scheduler.entries[handle].state == SCHEDULER_FREE && now_ns > 0) {
                add(&scheduler, handle, 16, 5, 0, now_ns);
                urgent++;
            }
        }
        scheduler_next(&scheduler, now_ns, &schedule);
        for (uint32_t i = 0; i < schedule.preempted_count; i++) {
            lost += schedule.preempted[i] == 0;
            assert_true(schedule.preempted[i] != 0 || scheduler.kept != 0);
        }
        for (uint32_t handle = 0; handle <= 2; handle++) {
            const struct scheduler_entry *entry = &scheduler.entries[handle];
            if (entry->state == SCHEDULER_DECODE &&
                entry->known_tokens == entry->pages_max * KV_PAGE_TOKENS) {
                scheduler_remove(&scheduler, handle);
            }
        }
        assert_true(now_ns < 2 * aged_ns);
    }
    assert_true(lost > 0);
    assert_true(urgent > 10);
    assert_true(now_ns > aged_ns); /* it would have had no chance before */
    scheduler_deinit(&scheduler);
}

/* ---------------------------------------------------------------- the head of the line */

/* A prompt of `length` tokens, then `count` of 50: the steps until the last of those is complete,
 * counted from the one in which they start. */
static uint32_t steps_of_short_ones(uint32_t length, uint32_t count, uint32_t *steps_of_long) {
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    uint32_t step = 0, last = 0;
    script.limits.max_batch_size = script.limits.max_running = 32;
    script.limits.max_batch_tokens = 8192;
    script.limits.pages_total = 10000;
    script.limits.prefill_chunk_tokens = 256;
    script.limits.max_queue_delay_ns = 0;
    counted_pages_init(&scheduler, &script.limits, &pages);
    add(&scheduler, 0, length, counted_pages_of(length) + 1, 5, 0);
    *steps_of_long = 0;
    while (*steps_of_long == 0) {
        struct schedule schedule;
        if (step == 1) {
            for (uint32_t i = 1; i <= count; i++) {
                add(&scheduler, i, 50, 40, 5, 1);
            }
        }
        scheduler_next(&scheduler, step++, &schedule);
        assert_true(schedule.prefill_rows <= 256);
        for (uint32_t i = 0; i < schedule.pick_count; i++) {
            const struct pick *pick = &schedule.picks[i];
            if (pick->is_sampled && pick->first_position < 50) {
                last = step - 1;
            } else if (pick->is_sampled && pick->handle == 0) {
                *steps_of_long = step;
            }
        }
    }
    scheduler_deinit(&scheduler);
    return last;
}

static void bounds_the_wait_for_a_first_token_by_the_chunk_and_not_by_a_long_prompt(void **state) {
    uint32_t steps_of_long;
    /* C = 256, Q = 64: ten of 50 are complete after ceil(500 / 192) steps. */
    assert_int_equal(steps_of_short_ones(4095, 10, &steps_of_long), 3);
    assert_int_equal(steps_of_short_ones(100000, 10, &steps_of_long), 3);
    /* The long one loses what they have, and no more. */
    assert_int_equal(steps_of_short_ones(4095, 10, &steps_of_long), 3);
    assert_int_equal(steps_of_long, (4095 + 500 + 255) / 256);
}

static void goes_on_with_a_long_prompt_though_short_ones_never_end(void **state) {
    struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    uint32_t steps = 0;
    script.limits.prefill_chunk_tokens = 256;
    script.limits.max_queue_delay_ns = 0;
    script.limits.max_batch_tokens = 8192;
    script.limits.max_batch_size = script.limits.max_running = 32;
    counted_pages_init(&scheduler, &script.limits, &pages);
    add(&scheduler, 0, 4095, 256, 5, 0);
    while (scheduler.entries[0].state != SCHEDULER_DECODE) {
        struct schedule schedule;
        for (uint32_t i = 1; i <= 16 && steps > 0; i++) {
            if (scheduler.entries[i].state == SCHEDULER_DECODE) {
                scheduler_remove(&scheduler, i);
            }
            if (scheduler.entries[i].state == SCHEDULER_FREE) {
                add(&scheduler, i, 50, 4, 2, steps);
            }
        }
        scheduler_next(&scheduler, steps, &schedule);
        steps++;
    }
    assert_in_range(steps, 4095 / 256 + 1, (4095 + 63) / 64);
    scheduler_deinit(&scheduler);
}

/* ---------------------------------------------------------------- several tokens of a step */

static void goes_on_behind_the_tokens_that_a_step_gave_beyond_one(void **state) {
    const struct script script = script_default();
    struct scheduler scheduler;
    struct counted_pages pages;
    struct schedule schedule;
    counted_pages_init(&scheduler, &script.limits, &pages);
    add(&scheduler, 0, 20, counted_pages_of(20 + 99), 0, 0);
    scheduler_next(&scheduler, 0, &schedule); /* the prompt: pages for it, and one more */
    assert_int_equal(scheduler_spare_positions(&scheduler, 0), 3 * KV_PAGE_TOKENS - 20);
    scheduler_next(&scheduler, 1, &schedule);
    assert_int_equal(schedule.picks[0].first_position, 20);
    scheduler_advance(&scheduler, 0, 5);
    scheduler_next(&scheduler, 2, &schedule);
    assert_int_equal(schedule.picks[0].first_position, 26);
    assert_int_equal(schedule.picks[0].row_count, 1);
    assert_true(schedule.picks[0].is_sampled);
    scheduler_advance(&scheduler, 0, scheduler_spare_positions(&scheduler, 0));
    assert_int_equal(scheduler_spare_positions(&scheduler, 0), 0);
    scheduler_next(&scheduler, 3, &schedule); /* holds a page more now */
    assert_int_equal(schedule.picks[0].first_position, 3 * KV_PAGE_TOKENS);
    assert_int_equal(scheduler_spare_positions(&scheduler, 0), KV_PAGE_TOKENS - 1);
    scheduler_remove(&scheduler, 0);
    scheduler_deinit(&scheduler);
}

TEST_MAIN(cmocka_unit_test(goes_on_behind_the_tokens_that_a_step_gave_beyond_one),
          cmocka_unit_test(cuts_a_bucket_that_reaches_max_batch_size),
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
          cmocka_unit_test(gives_one_that_was_preempted_its_pages_for_good_once_it_has_aged),
          cmocka_unit_test(bounds_the_wait_for_a_first_token_by_the_chunk_and_not_by_a_long_prompt),
          cmocka_unit_test(goes_on_with_a_long_prompt_though_short_ones_never_end))
