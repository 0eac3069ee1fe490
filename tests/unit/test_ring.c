/* engine/ring. */
#include "engine/ring.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/support/test.h"

static void gives_items_back_in_order_and_whole(void **state) {
    struct ring ring;
    assert_true(ring_init(&ring, 3, 5));
    assert_true(ring_push(&ring, "abcd"));
    assert_true(ring_push(&ring, "efgh"));
    char item[5];
    assert_true(ring_pop(&ring, item));
    assert_string_equal(item, "abcd");
    assert_true(ring_pop(&ring, item));
    assert_string_equal(item, "efgh");
    assert_false(ring_pop(&ring, item));
    ring_deinit(&ring);
}

static void holds_exactly_its_capacity(void **state) {
    for (size_t capacity = 1; capacity < 20; capacity++) {
        struct ring ring;
        int item = 0;
        assert_true(ring_init(&ring, capacity, sizeof item));
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < capacity; i++) {
                assert_true(ring_has_room(&ring));
                assert_true(ring_push(&ring, &item));
            }
            assert_false(ring_has_room(&ring));
            assert_false(ring_push(&ring, &item));
            for (size_t i = 0; i < capacity; i++) {
                assert_true(ring_pop(&ring, &item));
            }
            assert_true(ring_is_empty(&ring));
        }
        ring_deinit(&ring);
    }
}

static void tells_which_items_have_been_taken(void **state) {
    struct ring ring;
    int item = 7;
    assert_true(ring_init(&ring, 4, sizeof item));
    uint64_t first = ring_pushed_count(&ring);
    assert_true(ring_push(&ring, &item));
    uint64_t second = ring_pushed_count(&ring);
    assert_true(ring_push(&ring, &item));
    assert_false(ring_has_taken(&ring, first));
    assert_true(ring_pop(&ring, &item));
    assert_true(ring_has_taken(&ring, first));
    assert_false(ring_has_taken(&ring, second));
    ring_deinit(&ring);
}

enum { THREADED_ITEMS = 200000 };

struct message {
    uint64_t number;
    uint64_t inverse;
};

static void *push_all(void *argument) {
    for (uint64_t i = 0; i < THREADED_ITEMS; i++) {
        struct message message = {i, ~i};
        while (!ring_push(argument, &message)) {
            sched_yield();
        }
    }
    return NULL;
}

static void carries_items_whole_between_two_threads(void **state) {
    struct ring ring;
    assert_true(ring_init(&ring, 100, sizeof(struct message)));
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, push_all, &ring), 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < THREADED_ITEMS; i++) {
        struct message message;
        while (!ring_pop(&ring, &message)) {
            sched_yield();
        }
        wrong += message.number != i || message.inverse != ~i;
    }
    pthread_join(producer, NULL);
    assert_int_equal(wrong, 0);
    ring_deinit(&ring);
}

TEST_MAIN(cmocka_unit_test(gives_items_back_in_order_and_whole),
          cmocka_unit_test(holds_exactly_its_capacity),
          cmocka_unit_test(tells_which_items_have_been_taken),
          cmocka_unit_test(carries_items_whole_between_two_threads))
