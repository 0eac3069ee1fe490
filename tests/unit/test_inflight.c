#include "consumer/inflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

#define CAPACITY 8

static struct inflight inflight;

static int open_table(void **state) {
    return inflight_init(&inflight, CAPACITY) ? 0 : -1;
}

static int close_table(void **state) {
    inflight_deinit(&inflight);
    return 0;
}

static struct inflight_job *add(int64_t offset) {
    struct source_ref ref = {.partition = 1, .offset = offset, .epoch = 3};
    return inflight_add(&inflight, &ref, 10);
}

static void finds_what_was_added_by_its_ticket(void **state) {
    struct inflight_job *job = add(5);
    assert_int_not_equal(job->ticket, 0);
    assert_ptr_equal(inflight_find(&inflight, job->ticket), job);
    assert_int_equal(job->source.ref.offset, 5);
    assert_int_equal(job->life.state, JOB_LIFE_CLAIMING);
    assert_null(inflight_find(&inflight, job->ticket + 1));
    assert_null(inflight_find(&inflight, 0));
    assert_null(inflight_find(&inflight, UINT64_MAX));
}

static void gives_a_place_another_ticket_at_each_stay(void **state) {
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) {
        struct inflight_job *job = add(i);
        uint64_t ticket = job->ticket;
        assert_int_not_equal(ticket, before);
        assert_null(inflight_find(&inflight, before));
        inflight_remove(&inflight, job);
        assert_null(inflight_find(&inflight, ticket));
        before = ticket;
    }
    assert_int_equal(inflight.count, 0);
}

static void is_full_at_its_capacity(void **state) {
    for (int i = 0; i < CAPACITY; i++) {
        assert_non_null(add(i));
    }
    assert_null(add(CAPACITY));
    assert_int_equal(inflight.value_bytes, 10 * CAPACITY);
    inflight_remove(&inflight, &inflight.jobs[3]);
    assert_int_equal(inflight.value_bytes, 10 * (CAPACITY - 1));
    assert_non_null(add(9));
}

static void keeps_every_record_that_a_ticket_answers(void **state) {
    struct inflight_job *job = add(1);
    for (int64_t offset = 2; offset <= 4; offset++) {
        inflight_join(job, &(struct source_ref){.offset = offset});
    }
    int64_t sum = 0;
    for (const struct inflight_source *at = &job->source; at != NULL; at = at->next) {
        sum += at->ref.offset;
    }
    assert_int_equal(sum, 1 + 2 + 3 + 4);
}

static void owns_its_copy_of_the_parameters(void **state) {
    struct inflight_job *job = add(1);
    char stop[] = "END";
    struct job_params params = {.max_tokens = 7, .stop = {stop}, .stop_count = 1};
    inflight_copy_params(job, &params);
    stop[0] = 'x';
    assert_int_equal(job->params.max_tokens, 7);
    assert_string_equal(job->params.stop[0], "END");
}

static void lists_entries_first_in_first_out(void **state) {
    struct inflight_list list = {0};
    assert_null(inflight_list_take(&list));
    struct inflight_job *first = add(1), *second = add(2);
    inflight_list_append(&list, first);
    inflight_list_append(&list, second);
    assert_int_equal(list.count, 2);
    assert_ptr_equal(inflight_list_take(&list), first);
    inflight_list_append(&list, first);
    assert_ptr_equal(inflight_list_take(&list), second);
    assert_ptr_equal(inflight_list_take(&list), first);
    assert_null(inflight_list_take(&list));
}

static void takes_an_entry_out_of_the_middle_of_its_list(void **state) {
    struct inflight_list list = {0}, other = {0};
    struct inflight_job *jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = add(i);
        inflight_list_append(&list, jobs[i]);
    }
    inflight_list_remove(jobs[1]);
    inflight_list_remove(jobs[1]); /* in none: no matter */
    inflight_list_append(&other, jobs[3]);
    assert_int_equal(list.count, 2);
    inflight_remove(&inflight, jobs[0]);
    assert_ptr_equal(inflight_list_take(&list), jobs[2]);
    assert_null(inflight_list_take(&list));
    assert_ptr_equal(inflight_list_take(&other), jobs[3]);
}

static struct inflight_job *add_named(int64_t offset, const char *request_id) {
    struct inflight_job *job = add(offset);
    snprintf(job->request_id, sizeof job->request_id, "%s", request_id);
    return job;
}

static void has_one_holder_of_an_id(void **state) {
    struct inflight_job *first = add_named(1, "a"), *second = add_named(2, "a");
    assert_null(inflight_holder(&inflight, "a"));
    assert_true(inflight_hold(&inflight, first));
    assert_true(inflight_hold(&inflight, first));
    assert_false(inflight_hold(&inflight, second));
    assert_ptr_equal(inflight_holder(&inflight, "a"), first);
    inflight_let_go(&inflight, second); /* holds nothing: no matter */
    assert_ptr_equal(inflight_holder(&inflight, "a"), first);
    inflight_remove(&inflight, first);
    assert_null(inflight_holder(&inflight, "a"));
    assert_true(inflight_hold(&inflight, second));
}

/* Few ids in a small table, so that they stand in each other's places. */
static void agrees_with_an_array_of_holders_under_random_changes(void **state) {
    uint64_t seed = test_seed();
    struct inflight_job *jobs[CAPACITY], *holders[CAPACITY] = {0};
    for (int i = 0; i < CAPACITY; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%d", i / 2);
        jobs[i] = add_named(i, id);
    }
    for (int step = 0; step < 20000; step++) {
        size_t at = (size_t)(test_random(&seed) % CAPACITY);
        struct inflight_job **holder = &holders[at / 2];
        if (test_random(&seed) % 2 == 0) {
            assert_int_equal(inflight_hold(&inflight, jobs[at]),
                             *holder == NULL || *holder == jobs[at]);
            *holder = *holder != NULL ? *holder : jobs[at];
        } else {
            inflight_let_go(&inflight, jobs[at]);
            *holder = *holder != jobs[at] ? *holder : NULL;
        }
        for (size_t i = 0; i < CAPACITY; i += 2) {
            assert_ptr_equal(inflight_holder(&inflight, jobs[i]->request_id), holders[i / 2]);
        }
    }
}

static void goes_through_all_entries_though_they_are_removed_meanwhile(void **state) {
    struct inflight_job *job = NULL;
    int seen = 0;
    for (int i = 0; i < 5; i++) {
        add(i);
    }
    while ((job = inflight_next(&inflight, job)) != NULL) {
        seen++;
        inflight_remove(&inflight, job);
    }
    assert_int_equal(seen, 5);
    assert_int_equal(inflight.count, 0);
}

/* Against the obvious version, an array of what should be there. */
static void agrees_with_an_array_under_random_adds_and_removes(void **state) {
    uint64_t seed = test_seed();
    uint64_t tickets[CAPACITY] = {0};
    uint32_t count = 0;
    for (int64_t step = 0; step < 20000; step++) {
        uint32_t at = (uint32_t)(test_random(&seed) % CAPACITY);
        if (test_random(&seed) % 2 == 0) {
            struct inflight_job *job = add(step);
            assert_int_equal(job == NULL, count == CAPACITY);
            if (job != NULL) {
                job->request_id[0] = (char)('a' + step % 26);
                tickets[count++] = job->ticket;
            }
        } else if (at < count) {
            struct inflight_job *job = inflight_find(&inflight, tickets[at]);
            assert_non_null(job);
            assert_int_equal(job->request_id[0], 'a' + job->source.ref.offset % 26);
            inflight_remove(&inflight, job);
            assert_null(inflight_find(&inflight, tickets[at]));
            tickets[at] = tickets[--count];
        }
        assert_int_equal(inflight.count, count);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
TEST_MAIN(CASE(finds_what_was_added_by_its_ticket), CASE(gives_a_place_another_ticket_at_each_stay),
          CASE(is_full_at_its_capacity), CASE(keeps_every_record_that_a_ticket_answers),
          CASE(owns_its_copy_of_the_parameters), CASE(lists_entries_first_in_first_out),
          CASE(takes_an_entry_out_of_the_middle_of_its_list), CASE(has_one_holder_of_an_id),
          CASE(agrees_with_an_array_of_holders_under_random_changes),
          CASE(goes_through_all_entries_though_they_are_removed_meanwhile),
          CASE(agrees_with_an_array_under_random_adds_and_removes))
