/* engine/ticket_index: beside an array of what stands under each ticket. */
#include "engine/ticket_index.h"

#include "tests/support/test.h"

enum { TICKETS = 64, NUMBERS = 300 };

static void finds_what_was_added_and_nothing_else(void **state) {
    struct ticket_index index;
    assert_true(ticket_index_init(&index, 2));
    assert_int_equal(ticket_index_find(&index, 0), TICKET_INDEX_NONE);
    ticket_index_add(&index, 0, 7);
    ticket_index_add(&index, UINT64_MAX, 8);
    assert_int_equal(ticket_index_find(&index, 0), 7);
    assert_int_equal(ticket_index_find(&index, UINT64_MAX), 8);
    assert_int_equal(ticket_index_find(&index, 1), TICKET_INDEX_NONE);
    ticket_index_remove(&index, 0);
    assert_int_equal(ticket_index_find(&index, 0), TICKET_INDEX_NONE);
    assert_int_equal(ticket_index_find(&index, UINT64_MAX), 8);
    ticket_index_deinit(&index);
    ticket_index_deinit(&index);
}

static void agrees_with_an_array_when_it_is_full_most_of_the_time(void **state) {
    uint64_t random = test_seed();
    struct ticket_index index;
    uint32_t values[NUMBERS], count = 0;
    assert_true(ticket_index_init(&index, TICKETS));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        values[i] = TICKET_INDEX_NONE;
    }
    for (uint32_t calls = 0; calls < 200000; calls++) {
        uint32_t number = (uint32_t)(test_random(&random) % NUMBERS);
        uint64_t ticket = (uint64_t)number << (number % 40); /* near ones and far ones */
        if (values[number] == TICKET_INDEX_NONE && count < TICKETS) {
            ticket_index_add(&index, ticket + 1000 * number, calls);
            values[number] = calls;
            count++;
        } else if (values[number] != TICKET_INDEX_NONE) {
            ticket_index_remove(&index, ticket + 1000 * number);
            values[number] = TICKET_INDEX_NONE;
            count--;
        }
        number = (uint32_t)(test_random(&random) % NUMBERS);
        ticket = (uint64_t)number << (number % 40);
        assert_int_equal(ticket_index_find(&index, ticket + 1000 * number), values[number]);
    }
    ticket_index_deinit(&index);
}

TEST_MAIN(cmocka_unit_test(finds_what_was_added_and_nothing_else),
          cmocka_unit_test(agrees_with_an_array_when_it_is_full_most_of_the_time))
