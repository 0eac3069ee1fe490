/* engine/wait_queue: the bounds that its law states, each under the worst that may come. The law
 * itself is held to a plain second version in test_scheduler. */
#include "engine/wait_queue.h"

#include <stdlib.h>

#include "tests/support/test.h"

enum { HANDLES = 12000, AGEING_NS = 1000 };

static struct wait_queue queue;
static uint64_t added;

static int open_queue(void **state) {
    added = 0;
    return wait_queue_init(&queue, HANDLES, AGEING_NS) ? 0 : -1;
}

static int close_queue(void **state) {
    wait_queue_deinit(&queue);
    return 0;
}

static void add(uint32_t handle, uint32_t level, uint64_t tenant, uint32_t tokens,
                int64_t arrival_ns) {
    const struct wait_queue_item item = {.prompt_tokens = tokens,
                                         .tokens = tokens,
                                         .level = level,
                                         .tenant = tenant,
                                         .arrival_ns = arrival_ns,
                                         .number = added++};
    wait_queue_add(&queue, handle, &item);
}

/* A step that starts one sequence: its handle. */
static uint32_t start(int64_t now_ns) {
    wait_queue_begin_step(&queue, WAIT_QUEUE_NONE);
    uint32_t handle = wait_queue_peek(&queue, now_ns, WAIT_QUEUE_LEVELS);
    assert_int_equal(wait_queue_peek(&queue, now_ns, WAIT_QUEUE_LEVELS), handle);
    if (handle != WAIT_QUEUE_NONE) {
        wait_queue_start(&queue, handle);
    }
    return handle;
}

static void expect_starts(const char *expected) {
    for (const char *at = expected; *at != '\0'; at += *at == ' ') {
        char *end;
        assert_int_equal(start(0), strtoul(at, &end, 10));
        at = end;
    }
    assert_int_equal(start(0), WAIT_QUEUE_NONE);
    assert_int_equal(queue.count, 0);
}

static void starts_by_priority_then_arrival(void **state) {
    add(0, 7, 0, 20, 0);
    add(1, 2, 0, 20, 2);
    add(2, 2, 0, 20, 1);
    add(3, 9, 0, 20, 0);
    add(4, 0, 0, 20, 9);
    expect_starts("4 2 1 0 3");
}

static void starts_the_oldest_then_those_of_like_length(void **state) {
    /* In one step: 0 is the oldest; 2 is of its bucket; then shorter before longer, by distance. */
    static const uint32_t tokens[] = {22, 33, 22, 18, 27, 100};
    static const uint32_t expected[] = {0, 2, 3, 4, 1, 5};
    for (uint32_t i = 0; i < 6; i++) {
        add(i, 5, 0, tokens[i], i);
    }
    wait_queue_begin_step(&queue, WAIT_QUEUE_NONE);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(wait_queue_peek(&queue, 0, WAIT_QUEUE_LEVELS), expected[i]);
        wait_queue_start(&queue, expected[i]);
    }
}

static void gives_none_of_the_levels_it_is_told_to_leave(void **state) {
    add(0, 5, 0, 20, 0);
    assert_int_equal(wait_queue_peek(&queue, 0, 5), WAIT_QUEUE_NONE);
    assert_int_equal(wait_queue_peek(&queue, 99 * AGEING_NS, 5), WAIT_QUEUE_NONE);
    assert_int_equal(wait_queue_peek(&queue, 0, 6), 0);
}

/* One of `level` arrives; those of all more urgent levels never end. Counts the starts from when it
 * has aged until it starts. */
static uint32_t starts_before(uint32_t level, bool all_levels) {
    const uint32_t one = 5000;
    uint32_t starts = 0;
    int64_t now_ns = 0;
    for (uint32_t i = 0; i < 10 * (all_levels ? level : 1); i++) {
        add(i, all_levels ? i / 10 : 0, 0, 20, 0);
    }
    add(one, level, 0, 20, 0);
    for (;; now_ns += 10) {
        uint32_t handle = start(now_ns);
        starts += now_ns >= level * AGEING_NS;
        if (handle == one) {
            return starts;
        }
        assert_true(now_ns < 20 * AGEING_NS);
        add(handle, all_levels ? handle / 10 : 0, 0, 20, now_ns); /* another as urgent */
    }
}

static void starts_the_least_urgent_in_an_endless_stream_of_the_most_urgent(void **state) {
    assert_in_range(starts_before(9, false), 1, WAIT_QUEUE_AGED_EVERY);
}

static void starts_every_level_within_its_bound_whatever_comes_before_it(void **state) {
    for (uint32_t level = 1; level < WAIT_QUEUE_LEVELS; level++) {
        close_queue(state);
        assert_int_equal(open_queue(state), 0);
        assert_in_range(starts_before(level, true), 1,
                        WAIT_QUEUE_AGED_EVERY * (WAIT_QUEUE_LEVELS - 1));
    }
}

static void lets_no_less_urgent_one_overtake_before_it_has_aged(void **state) {
    for (uint32_t i = 0; i < 100; i++) {
        add(i, 3, 0, 20, 0);
    }
    add(100, 4, 0, 20, 0);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(start(4 * AGEING_NS - 1), i);
    }
}

static void lets_a_long_queue_of_old_ones_take_a_quarter_and_no_more(void **state) {
    const int64_t now_ns = 1000 * AGEING_NS;
    uint32_t urgent = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        add(i, 9, 0, 20, 0);
    }
    add(10000, 0, 0, 20, now_ns);
    add(10001, 0, 0, 20, now_ns);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t handle = start(now_ns);
        if (handle >= 10000) {
            urgent++;
            add(handle, 0, 0, 20, now_ns);
        }
    }
    assert_int_equal(urgent, 300);
}

static void lets_no_tenant_starve_another(void **state) {
    uint32_t before_last = 0, got = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        add(i, 5, 1, 500, 0);
    }
    for (uint32_t i = 10000; i < 10010; i++) {
        add(i, 5, 2, 500, 1);
    }
    while (got < 10) {
        got += start(1) >= 10000;
        before_last++;
    }
    /* Turn by turn: as many of the other's, and what one turn more holds. */
    assert_in_range(before_last, 20, 20 + 3);
}

static void gives_jobs_without_a_tenant_the_turns_of_one(void **state) {
    uint32_t of_none = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        add(i, 5, i % 3, 100, i);
    }
    for (uint32_t i = 0; i < 300; i++) {
        of_none += start(0) % 3 == 0;
    }
    assert_in_range(of_none, 90, 110);
}

static void weighs_tenants_by_tokens_within_the_bound(void **state) {
    /* 40 tokens a job beside 1600: both always wait, so their tokens keep together. */
    uint64_t random = test_seed();
    int64_t tokens[2] = {0}, most = 0;
    for (uint32_t i = 0; i < 20; i++) {
        add(i, 5, i % 2, i % 2 == 0 ? 40 : 1600, 0);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t handle = start(0);
        uint32_t weight = queue.entries[handle].tokens;
        tokens[handle % 2] += weight;
        int64_t apart = llabs(tokens[0] - tokens[1]);
        most = apart > most ? apart : most;
        add(handle, 5, handle % 2,
            handle % 2 == 0 ? 1 + (uint32_t)(test_random(&random) % 80)
                            : 1 + (uint32_t)(test_random(&random) % 3200),
            i + 1);
    }
    assert_in_range(most, 1, 3 * WAIT_QUEUE_QUANTUM_TOKENS + 2 * 3200);
    assert_true(tokens[0] > 50 * WAIT_QUEUE_QUANTUM_TOKENS);
}

static void keeps_tenants_apart_at_every_level(void **state) {
    add(0, 5, 1, 20, 0);
    add(1, 6, 1, 20, 0);
    add(2, 5, 2, 20, 1);
    wait_queue_remove(&queue, 0);
    expect_starts("2 1");
}

#define ON_A_QUEUE(test) cmocka_unit_test_setup_teardown(test, open_queue, close_queue)

TEST_MAIN(ON_A_QUEUE(starts_by_priority_then_arrival),
          ON_A_QUEUE(starts_the_oldest_then_those_of_like_length),
          ON_A_QUEUE(gives_none_of_the_levels_it_is_told_to_leave),
          ON_A_QUEUE(starts_the_least_urgent_in_an_endless_stream_of_the_most_urgent),
          ON_A_QUEUE(starts_every_level_within_its_bound_whatever_comes_before_it),
          ON_A_QUEUE(lets_no_less_urgent_one_overtake_before_it_has_aged),
          ON_A_QUEUE(lets_a_long_queue_of_old_ones_take_a_quarter_and_no_more),
          ON_A_QUEUE(lets_no_tenant_starve_another),
          ON_A_QUEUE(gives_jobs_without_a_tenant_the_turns_of_one),
          ON_A_QUEUE(weighs_tenants_by_tokens_within_the_bound),
          ON_A_QUEUE(keeps_tenants_apart_at_every_level))
