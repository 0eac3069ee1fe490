#include "consumer/inflight.h"

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
          CASE(agrees_with_an_array_under_random_adds_and_removes))
