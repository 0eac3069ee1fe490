/* engine/deadline_heap: beside an array that is searched from end to end. */
#include "engine/deadline_heap.h"

#include "tests/support/test.h"

enum { ITEMS = 200, MANY = 10000 };

static void knows_of_nothing_when_it_is_empty(void **state) {
    struct deadline_heap heap;
    uint32_t item;
    assert_true(deadline_heap_init(&heap, 1));
    assert_true(deadline_heap_first_ns(&heap) == DEADLINE_HEAP_NEVER);
    assert_false(deadline_heap_take(&heap, DEADLINE_HEAP_NEVER, &item));
    deadline_heap_remove(&heap, 0);
    deadline_heap_set(&heap, 0, 5);
    deadline_heap_set(&heap, 0, 9); /* moved, not added */
    assert_false(deadline_heap_take(&heap, 8, &item));
    assert_true(deadline_heap_take(&heap, 9, &item));
    assert_int_equal(heap.count, 0);
    deadline_heap_deinit(&heap);
    deadline_heap_deinit(&heap);
}

static int64_t first_of(const int64_t *moments) {
    int64_t first_ns = DEADLINE_HEAP_NEVER;
    for (uint32_t i = 0; i < ITEMS; i++) {
        first_ns = moments[i] < first_ns ? moments[i] : first_ns;
    }
    return first_ns;
}

static void agrees_with_an_array_under_random_calls(void **state) {
    uint64_t random = test_seed();
    struct deadline_heap heap;
    int64_t moments[ITEMS];
    assert_true(deadline_heap_init(&heap, ITEMS));
    for (uint32_t i = 0; i < ITEMS; i++) {
        moments[i] = DEADLINE_HEAP_NEVER;
    }
    for (int calls = 0; calls < 50000; calls++) {
        uint32_t item = (uint32_t)(test_random(&random) % ITEMS);
        int64_t moment_ns = (int64_t)(test_random(&random) % 500);
        switch (test_random(&random) % 4) {
        case 0:
        case 1:
            deadline_heap_set(&heap, item, moment_ns);
            moments[item] = moment_ns;
            break;
        case 2:
            deadline_heap_remove(&heap, item);
            moments[item] = DEADLINE_HEAP_NEVER;
            break;
        default:
            if (deadline_heap_take(&heap, moment_ns, &item)) {
                assert_int_equal(moments[item], first_of(moments));
                assert_true(moments[item] <= moment_ns);
                moments[item] = DEADLINE_HEAP_NEVER;
            } else {
                assert_true(first_of(moments) > moment_ns);
            }
        }
        assert_true(deadline_heap_first_ns(&heap) == first_of(moments));
    }
    deadline_heap_deinit(&heap);
}

static void gives_ten_thousand_that_are_due_at_once_and_no_other(void **state) {
    struct deadline_heap heap;
    uint32_t item, taken = 0;
    assert_true(deadline_heap_init(&heap, 2 * MANY));
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        deadline_heap_set(&heap, i, i % 2 == 0 ? 50 : 51);
    }
    assert_false(deadline_heap_take(&heap, 49, &item));
    while (deadline_heap_take(&heap, 50, &item)) {
        assert_int_equal(item % 2, 0);
        taken++;
    }
    assert_int_equal(taken, MANY);
    assert_int_equal(heap.count, MANY);
    deadline_heap_deinit(&heap);
}

TEST_MAIN(cmocka_unit_test(knows_of_nothing_when_it_is_empty),
          cmocka_unit_test(agrees_with_an_array_under_random_calls),
          cmocka_unit_test(gives_ten_thousand_that_are_due_at_once_and_no_other))
