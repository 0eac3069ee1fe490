/* engine/batch. */
#include "engine/batch.h"

#include "tests/support/test.h"

static struct batch open_batch(void) {
    struct batch_limits limits = {.rows_max = 8,
                                  .slots_max = 3,
                                  .sampled_max = 2,
                                  .slot_pages_max = 4,
                                  .vocabulary = 100,
                                  .seen_max = 6};
    struct batch batch;
    assert_true(batch_init(&batch, &limits));
    batch_clear(&batch);
    return batch;
}

static void lays_segments_out_one_after_another(void **state) {
    struct batch batch = open_batch();
    const int32_t a[] = {7, 8, 9}, b[] = {5};
    assert_int_equal(batch_add_segment(&batch, 2, 16, a, 3), 0);
    assert_int_equal(batch_add_segment(&batch, 0, 40, b, 1), 3);
    assert_int_equal(batch.row_count, 4);
    assert_int_equal(batch.segment_count, 2);
    assert_int_equal(batch.segment_begin[1], 3);
    assert_int_equal(batch.segment_begin[2], 4);
    assert_int_equal(batch.token[2], 9);
    assert_int_equal(batch.position[2], 18);
    assert_int_equal(batch.slot[2], 2);
    assert_int_equal(batch.position[3], 40);
    assert_int_equal(batch.context_max, 41);
    batch_deinit(&batch);
}

static void names_the_scratch_page_past_a_slots_own(void **state) {
    struct batch batch = open_batch();
    const int32_t pages[] = {11, 12, 13}, fewer[] = {21};
    batch_set_pages(&batch, 1, pages, 3);
    batch_set_pages(&batch, 1, fewer, 1);
    assert_int_equal(batch.page_table[4], 21);
    assert_int_equal(batch.page_table[5], 0);
    assert_int_equal(batch.page_table[6], 0);
    for (int i = 12; i < 16; i++) {
        assert_int_equal(batch.page_table[i], 0); /* the slot of padded rows */
    }
    batch_deinit(&batch);
}

static void keeps_penalties_of_sampled_rows_apart(void **state) {
    struct batch batch = open_batch();
    const int32_t tokens[] = {1, 2};
    batch_add_segment(&batch, 0, 0, tokens, 2);
    assert_int_equal(batch_add_sampled(&batch, 0), 0);
    batch_add_seen(&batch, 4, 0);
    batch_add_seen(&batch, 9, 3);
    assert_int_equal(batch_add_sampled(&batch, 1), 1);
    batch_add_seen(&batch, 2, 1);
    assert_int_equal(batch.seen_begin[0], 0);
    assert_int_equal(batch.seen_begin[1], 2);
    assert_int_equal(batch.seen_begin[2], 3);
    assert_int_equal(batch.seen_id[2], 2);
    assert_int_equal(batch.seen_count[1], 3);
    batch_deinit(&batch);
}

static void samples_greedily_unless_told_otherwise(void **state) {
    struct batch batch = open_batch();
    const int32_t token = 1;
    batch_add_segment(&batch, 0, 0, &token, 1);
    batch.temperature[0] = 3.0f;
    batch.repetition[0] = 2.0f;
    batch_add_sampled(&batch, 0);
    assert_true(batch.temperature[0] == 0.0f && batch.repetition[0] == 1.0f);
    assert_int_equal(batch.top_p_q16[0], 65536);
    batch_deinit(&batch);
}

TEST_MAIN(cmocka_unit_test(lays_segments_out_one_after_another),
          cmocka_unit_test(names_the_scratch_page_past_a_slots_own),
          cmocka_unit_test(keeps_penalties_of_sampled_rows_apart),
          cmocka_unit_test(samples_greedily_unless_told_otherwise))
