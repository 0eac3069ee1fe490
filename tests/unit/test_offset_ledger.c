#include <stdlib.h>
#include <string.h>

#include "consumer/offset_ledger.h"
#include "tests/support/test.h"

static void add(struct offset_ledger *ledger, int64_t offset) {
    assert_int_equal(offset_ledger_add(ledger, offset), OFFSET_LEDGER_OK);
}

static void has_no_mark_before_anything_is_received(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    assert_int_equal(offset_ledger_mark(&ledger), -1);
    offset_ledger_settle(&ledger, 3);
    assert_int_equal(offset_ledger_mark(&ledger), -1);
    offset_ledger_deinit(&ledger);
}

static void counts_an_unsettled_record_as_unfinished(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    add(&ledger, 7);
    add(&ledger, 8);
    add(&ledger, 9);
    assert_int_equal(offset_ledger_mark(&ledger), 7);
    offset_ledger_settle(&ledger, 8);
    offset_ledger_settle(&ledger, 9);
    assert_int_equal(offset_ledger_mark(&ledger), 7);
    assert_int_equal(offset_ledger_unsettled_count(&ledger), 1);
    offset_ledger_settle(&ledger, 7);
    assert_int_equal(offset_ledger_mark(&ledger), 10);
    offset_ledger_deinit(&ledger);
}

static void counts_offsets_that_were_never_received_as_settled(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    add(&ledger, 10);
    add(&ledger, 4000000000);
    offset_ledger_settle(&ledger, 10);
    assert_int_equal(offset_ledger_mark(&ledger), 4000000000);
    offset_ledger_settle(&ledger, 4000000000);
    assert_int_equal(offset_ledger_mark(&ledger), 4000000001);
    add(&ledger, 4000000005);
    assert_int_equal(offset_ledger_mark(&ledger), 4000000005);
    offset_ledger_deinit(&ledger);
}

static void ignores_a_record_settled_twice_or_never_received(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    add(&ledger, 0);
    add(&ledger, 2);
    offset_ledger_settle(&ledger, 1);
    offset_ledger_settle(&ledger, 2);
    offset_ledger_settle(&ledger, 2);
    offset_ledger_settle(&ledger, 99);
    assert_int_equal(offset_ledger_mark(&ledger), 0);
    offset_ledger_settle(&ledger, 0);
    offset_ledger_settle(&ledger, 0);
    assert_int_equal(offset_ledger_mark(&ledger), 3);
    offset_ledger_deinit(&ledger);
}

static void refuses_a_record_received_before(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    add(&ledger, 5);
    assert_int_equal(offset_ledger_add(&ledger, 5), OFFSET_LEDGER_REPEATED);
    assert_int_equal(offset_ledger_add(&ledger, 4), OFFSET_LEDGER_REPEATED);
    offset_ledger_deinit(&ledger);
}

static void is_full_when_one_record_holds_up_a_whole_window(void **state) {
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    for (int64_t i = 0; i < OFFSET_LEDGER_WINDOW_MAX; i++) {
        add(&ledger, i);
    }
    for (int64_t i = 1; i < OFFSET_LEDGER_WINDOW_MAX; i++) {
        offset_ledger_settle(&ledger, i);
    }
    assert_true(offset_ledger_is_full(&ledger));
    assert_int_equal(offset_ledger_add(&ledger, OFFSET_LEDGER_WINDOW_MAX), OFFSET_LEDGER_FULL);
    offset_ledger_settle(&ledger, 0);
    assert_int_equal(offset_ledger_mark(&ledger), OFFSET_LEDGER_WINDOW_MAX);
    add(&ledger, OFFSET_LEDGER_WINDOW_MAX);
    offset_ledger_deinit(&ledger);
}

/* The obvious version: one state per offset, the mark found by looking. */
#define MODEL_OFFSETS 4096
enum model_state { MODEL_ABSENT, MODEL_RECEIVED, MODEL_SETTLED };

static int64_t model_mark(const enum model_state *states, int64_t last_received) {
    for (int64_t i = 0; i <= last_received; i++) {
        if (states[i] == MODEL_RECEIVED) {
            return i;
        }
    }
    return last_received < 0 ? -1 : last_received + 1;
}

static void agrees_with_the_obvious_version_under_random_schedules(void **state) {
    uint64_t seed = test_seed();
    for (int round = 0; round < 100; round++) {
        struct offset_ledger ledger;
        offset_ledger_init(&ledger);
        enum model_state states[MODEL_OFFSETS] = {MODEL_ABSENT};
        int64_t last = -1;
        uint64_t reach = 1 + test_random(&seed) % 200; /* how far behind the last a settle looks */
        while (last + 4 < MODEL_OFFSETS) {
            uint64_t dice = test_random(&seed) % 100;
            if (dice < 40) {
                last += 1 + (int64_t)(dice % 4 == 0 ? test_random(&seed) % 3 : 0);
                add(&ledger, last);
                states[last] = MODEL_RECEIVED;
            } else if (last >= 0) {
                int64_t offset = last - (int64_t)(test_random(&seed) % reach);
                offset = offset < 0 ? 0 : offset;
                offset_ledger_settle(&ledger, offset);
                states[offset] = states[offset] == MODEL_RECEIVED ? MODEL_SETTLED : states[offset];
            }
            assert_int_equal(offset_ledger_mark(&ledger), model_mark(states, last));
        }
        offset_ledger_deinit(&ledger);
    }
}

TEST_MAIN(cmocka_unit_test(has_no_mark_before_anything_is_received),
          cmocka_unit_test(counts_an_unsettled_record_as_unfinished),
          cmocka_unit_test(counts_offsets_that_were_never_received_as_settled),
          cmocka_unit_test(ignores_a_record_settled_twice_or_never_received),
          cmocka_unit_test(refuses_a_record_received_before),
          cmocka_unit_test(is_full_when_one_record_holds_up_a_whole_window),
          cmocka_unit_test(agrees_with_the_obvious_version_under_random_schedules))
