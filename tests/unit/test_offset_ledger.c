#include <stdlib.h>
#include <string.h>

#include "consumer/offset_ledger.h"
#include "consumer/offset_metadata.h"
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

static void begins_at_the_committed_offset_and_knows_what_is_settled_beyond(void **state) {
    static const struct offset_range known[] = {{102, 104}, {110, 111}};
    struct offset_range found[4];
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    offset_ledger_begin(&ledger, 100, known, 2);
    assert_int_equal(offset_ledger_mark(&ledger), 100);
    assert_int_equal(offset_ledger_settled(&ledger, found, 4), 2);
    add(&ledger, 100);
    add(&ledger, 101);
    assert_int_equal(offset_ledger_add(&ledger, 102), OFFSET_LEDGER_KNOWN);
    assert_int_equal(offset_ledger_add(&ledger, 103), OFFSET_LEDGER_KNOWN);
    add(&ledger, 104);
    assert_int_equal(offset_ledger_add(&ledger, 103), OFFSET_LEDGER_REPEATED);
    assert_true(offset_ledger_settle(&ledger, 101));
    assert_false(offset_ledger_settle(&ledger, 102));
    assert_int_equal(offset_ledger_settled(&ledger, found, 4), 2);
    assert_true(found[0].begin == 101 && found[0].end == 104);
    assert_true(found[1].begin == 110 && found[1].end == 111);
    offset_ledger_settle(&ledger, 100);
    assert_int_equal(offset_ledger_mark(&ledger), 104);
    offset_ledger_settle(&ledger, 104);
    add(&ledger, 111); /* 110 is gone from the log: it was settled */
    assert_int_equal(offset_ledger_settled(&ledger, found, 4), 0);
    assert_int_equal(offset_ledger_mark(&ledger), 111);
    offset_ledger_deinit(&ledger);
}

static void passes_all_below_the_end_of_the_partition(void **state) {
    struct offset_range found[2];
    struct offset_ledger ledger;
    offset_ledger_init(&ledger);
    offset_ledger_reach(&ledger, 0); /* an empty one */
    assert_int_equal(offset_ledger_mark(&ledger), 0);
    add(&ledger, 0);
    add(&ledger, 1);
    offset_ledger_reach(&ledger, 5); /* control records */
    assert_int_equal(offset_ledger_mark(&ledger), 0);
    assert_int_equal(offset_ledger_next(&ledger), 5);
    assert_int_equal(offset_ledger_settled(&ledger, found, 2), 1);
    assert_true(found[0].begin == 2 && found[0].end == 5);
    offset_ledger_settle(&ledger, 0);
    offset_ledger_settle(&ledger, 1);
    assert_int_equal(offset_ledger_mark(&ledger), 5);
    offset_ledger_reach(&ledger, 3);
    offset_ledger_reach(&ledger, 9);
    assert_int_equal(offset_ledger_mark(&ledger), 9);
    offset_ledger_deinit(&ledger);
}

/* The obvious version: one state per offset, everything found by looking. */
#define MODEL_OFFSETS 2048
enum model_state { MODEL_ABSENT, MODEL_RECEIVED, MODEL_SETTLED, MODEL_KNOWN };

struct model {
    enum model_state states[MODEL_OFFSETS];
    int64_t next;
};

static int64_t model_mark(const struct model *model) {
    for (int64_t i = 0; i < model->next; i++) {
        if (model->states[i] == MODEL_RECEIVED) {
            return i;
        }
    }
    return model->next;
}

/* Settled, as somebody who takes over must know it. */
static bool model_is_settled(const struct model *model, int64_t offset) {
    return model->states[offset] == MODEL_KNOWN ||
           (offset < model->next && model->states[offset] != MODEL_RECEIVED);
}

static void check_ranges(const struct offset_ledger *ledger, const struct model *model) {
    struct offset_range ranges[MODEL_OFFSETS];
    size_t count = offset_ledger_settled(ledger, ranges, MODEL_OFFSETS), at = 0;
    for (int64_t i = offset_ledger_mark(ledger); i < MODEL_OFFSETS; i++) {
        at += at < count && i == ranges[at].end;
        bool inside = at < count && i >= ranges[at].begin;
        assert_int_equal(inside, model_is_settled(model, i));
    }
}

/* The partition goes to another process, which knows the mark and the text beside it. */
static void hand_over(struct offset_ledger *ledger, struct model *model) {
    struct offset_range ranges[OFFSET_METADATA_RANGES_MAX];
    char text[OFFSET_METADATA_BYTES_MAX + 1];
    int64_t mark = offset_ledger_mark(ledger);
    size_t count = offset_ledger_settled(ledger, ranges, OFFSET_METADATA_RANGES_MAX);
    size_t size = offset_metadata_encode(mark, ranges, count, text, OFFSET_METADATA_BYTES_MAX);
    assert_true(offset_metadata_decode(mark, text, size, ranges, &count));
    offset_ledger_begin(ledger, mark, ranges, count);
    for (int64_t i = mark; i < MODEL_OFFSETS; i++) {
        model->states[i] = model_is_settled(model, i) ? MODEL_KNOWN : MODEL_ABSENT;
    }
    model->next = mark;
}

static void receive(struct offset_ledger *ledger, struct model *model, int64_t skipped) {
    int64_t offset = model->next + skipped;
    bool known = model->states[offset] == MODEL_KNOWN;
    assert_int_equal(offset_ledger_add(ledger, offset),
                     known ? OFFSET_LEDGER_KNOWN : OFFSET_LEDGER_OK);
    model->states[offset] = known ? MODEL_KNOWN : MODEL_RECEIVED;
    model->next = offset + 1;
}

static void settle(struct offset_ledger *ledger, struct model *model, int64_t offset) {
    bool open = model->states[offset] == MODEL_RECEIVED;
    assert_int_equal(offset_ledger_settle(ledger, offset), open);
    model->states[offset] = open ? MODEL_SETTLED : model->states[offset];
}

static void agrees_with_the_obvious_version_under_random_schedules(void **state) {
    uint64_t seed = test_seed();
    for (int round = 0; round < 60; round++) {
        struct offset_ledger ledger;
        struct model model = {.next = 0};
        offset_ledger_init(&ledger);
        offset_ledger_begin(&ledger, 0, NULL, 0);
        int64_t reach = 1 + (int64_t)(test_random(&seed) % 200);
        while (model.next + 4 < MODEL_OFFSETS) {
            uint64_t dice = test_random(&seed) % 1000;
            if (dice < 400) {
                receive(&ledger, &model, dice % 8 == 0 ? (int64_t)(dice % 3) : 0);
            } else if (dice < 402) {
                hand_over(&ledger, &model);
            } else if (dice < 410) {
                offset_ledger_reach(&ledger, model.next += (int64_t)(dice % 3));
            } else if (model.next > 0) {
                int64_t offset = model.next - 1 - (int64_t)(test_random(&seed) % (uint64_t)reach);
                settle(&ledger, &model, offset < 0 || offset >= model.next ? 0 : offset);
            }
            assert_int_equal(offset_ledger_mark(&ledger), model_mark(&model));
            if (dice % 32 == 0) {
                check_ranges(&ledger, &model);
            }
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
          cmocka_unit_test(begins_at_the_committed_offset_and_knows_what_is_settled_beyond),
          cmocka_unit_test(passes_all_below_the_end_of_the_partition),
          cmocka_unit_test(agrees_with_the_obvious_version_under_random_schedules))
