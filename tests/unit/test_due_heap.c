#include "consumer/due_heap.h"

#include "tests/support/test.h"

#define CAPACITY 16

static struct due_heap heap;

static int open_heap(void **state) {
    return due_heap_init(&heap, CAPACITY) ? 0 : -1;
}

static int close_heap(void **state) {
    due_heap_deinit(&heap);
    return 0;
}

static void gives_what_is_due_in_the_order_of_its_times(void **state) {
    uint32_t slot;
    due_heap_set(&heap, 3, 30);
    due_heap_set(&heap, 1, 10);
    due_heap_set(&heap, 2, 20);
    assert_int_equal(due_heap_first_ns(&heap), 10);
    assert_false(due_heap_take(&heap, 9, &slot));
    assert_true(due_heap_take(&heap, 20, &slot));
    assert_int_equal(slot, 1);
    assert_true(due_heap_take(&heap, 20, &slot));
    assert_int_equal(slot, 2);
    assert_false(due_heap_take(&heap, 20, &slot));
    due_heap_remove(&heap, 3);
    assert_int_equal(due_heap_first_ns(&heap), INT64_MAX);
}

static void holds_a_slot_once_with_its_last_time(void **state) {
    uint32_t slot;
    due_heap_set(&heap, 5, 50);
    due_heap_set(&heap, 6, 60);
    due_heap_set(&heap, 5, 70);
    assert_int_equal(heap.count, 2);
    assert_int_equal(due_heap_first_ns(&heap), 60);
    due_heap_set(&heap, 5, 1);
    assert_true(due_heap_take(&heap, 1, &slot));
    assert_int_equal(slot, 5);
    due_heap_remove(&heap, 5); /* not there: no matter */
    assert_int_equal(heap.count, 1);
}

/* Against an array of times. */
static void agrees_with_an_array_under_random_changes(void **state) {
    uint64_t seed = test_seed();
    int64_t times[CAPACITY];
    for (uint32_t i = 0; i < CAPACITY; i++) {
        times[i] = INT64_MAX;
    }
    for (int step = 0; step < 20000; step++) {
        uint32_t slot = (uint32_t)(test_random(&seed) % CAPACITY);
        if (test_random(&seed) % 3 == 0) {
            due_heap_remove(&heap, slot);
            times[slot] = INT64_MAX;
        } else {
            times[slot] = (int64_t)(test_random(&seed) % 100);
            due_heap_set(&heap, slot, times[slot]);
        }
        int64_t first = INT64_MAX;
        for (uint32_t i = 0; i < CAPACITY; i++) {
            first = times[i] < first ? times[i] : first;
        }
        assert_int_equal(due_heap_first_ns(&heap), first);
        if (due_heap_take(&heap, (int64_t)(test_random(&seed) % 10), &slot)) {
            assert_int_equal(times[slot], first);
            times[slot] = INT64_MAX;
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_heap, close_heap)
TEST_MAIN(CASE(gives_what_is_due_in_the_order_of_its_times),
          CASE(holds_a_slot_once_with_its_last_time),
          CASE(agrees_with_an_array_under_random_changes))
