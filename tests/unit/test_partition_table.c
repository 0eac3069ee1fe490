#include "consumer/partition_table.h"

#include "tests/support/test.h"

static struct partition_table table;

static int open_table(void **state) {
    partition_table_init(&table);
    partition_table_begin(&table);
    partition_table_assign(&table, 0);
    partition_table_assign(&table, 40);
    return 0;
}

static int close_table(void **state) {
    partition_table_deinit(&table);
    return 0;
}

static struct source_ref enter(int32_t number, int64_t offset) {
    struct source_ref ref;
    assert_true(partition_table_enter(&table, number, offset, &ref));
    return ref;
}

static bool settle(const struct source_ref *ref) {
    bool released;
    return partition_table_settle(&table, ref, &released);
}

static void owes_the_group_the_settled_prefix_of_each_partition(void **state) {
    assert_true(partition_table_is_committed(&table));
    struct source_ref first = enter(40, 7), second = enter(40, 8);
    assert_int_equal(partition_table_due(&table, 40), 7);
    assert_int_equal(partition_table_due(&table, 0), -1);
    settle(&second);
    assert_int_equal(partition_table_due(&table, 40), 7);
    settle(&first);
    assert_int_equal(partition_table_due(&table, 40), 9);
    partition_table_committed(&table, 40, 8); /* one that was under way */
    assert_int_equal(partition_table_due(&table, 40), 9);
    assert_false(partition_table_is_committed(&table));
    partition_table_committed(&table, 40, 9);
    assert_int_equal(partition_table_due(&table, 40), -1);
    assert_true(partition_table_is_committed(&table));
    partition_table_committed(&table, 40, 3);
    assert_int_equal(partition_table_due(&table, 40), -1);
}

static void ignores_a_record_of_an_assignment_that_is_gone(void **state) {
    struct source_ref old = enter(0, 5);
    assert_true(partition_table_owns(&table, &old));
    partition_table_revoke(&table, 0);
    assert_false(partition_table_owns(&table, &old));
    assert_int_equal(table.assigned_count, 1);
    assert_false(settle(&old));
    assert_int_equal(partition_table_due(&table, 0), -1);
    partition_table_begin(&table);
    partition_table_assign(&table, 0);
    assert_int_equal(table.assigned_count, 2);
    struct source_ref again = enter(0, 5);
    assert_true(partition_table_owns(&table, &again));
    assert_false(partition_table_owns(&table, &old));
    assert_false(settle(&old));
    assert_int_equal(partition_table_due(&table, 0), 5);
    assert_true(settle(&again));
    assert_int_equal(partition_table_due(&table, 0), 6);
}

static void enters_no_record_twice_and_none_of_a_partition_it_has_not(void **state) {
    struct source_ref ref;
    enter(0, 5);
    assert_false(partition_table_enter(&table, 0, 5, &ref));
    assert_false(partition_table_enter(&table, 0, 4, &ref));
    assert_false(partition_table_enter(&table, 1, 0, &ref));
    assert_false(partition_table_enter(&table, 1000000, 0, &ref));
    partition_table_revoke(&table, 40);
    assert_false(partition_table_enter(&table, 40, 0, &ref));
    partition_table_revoke(&table, 1000000);
    partition_table_committed(&table, 1000000, 1);
    assert_int_equal(table.assigned_count, 1);
}

static void holds_a_full_partition_until_its_mark_moves(void **state) {
    struct source_ref first = enter(0, 0), ref = first;
    bool released;
    for (int64_t i = 1; i < OFFSET_LEDGER_WINDOW_MAX; i++) {
        assert_false(partition_table_is_held(&table, 0));
        ref = enter(0, i);
    }
    assert_true(partition_table_is_held(&table, 0));
    assert_true(partition_table_settle(&table, &ref, &released));
    assert_false(released);
    assert_true(partition_table_settle(&table, &first, &released));
    assert_true(released);
    assert_false(partition_table_is_held(&table, 0));
    assert_false(partition_table_is_held(&table, 40));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
TEST_MAIN(CASE(owes_the_group_the_settled_prefix_of_each_partition),
          CASE(ignores_a_record_of_an_assignment_that_is_gone),
          CASE(enters_no_record_twice_and_none_of_a_partition_it_has_not),
          CASE(holds_a_full_partition_until_its_mark_moves))
