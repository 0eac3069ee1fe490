#include "consumer/partition_table.h"

#include "tests/support/test.h"

static struct partition_table table;

static int open_table(void **state) {
    partition_table_init(&table);
    partition_table_begin(&table);
    partition_table_assign(&table, 0);
    partition_table_assign(&table, 40);
    partition_table_start(&table, 0, -1, NULL, 0);
    partition_table_start(&table, 40, -1, NULL, 0);
    return 0;
}

static int close_table(void **state) {
    partition_table_deinit(&table);
    return 0;
}

static struct source_ref enter(int32_t number, int64_t offset) {
    struct source_ref ref;
    assert_int_equal(partition_table_enter(&table, number, offset, &ref), PARTITION_ENTRY_NEW);
    return ref;
}

/* The offset that the group is to be told; -1 = none. */
static int64_t due(int32_t number) {
    return partition_table_is_due(&table, number) ? partition_table_mark(&table, number) : -1;
}

static void commit(int32_t number) {
    partition_table_sent(&table, number);
    partition_table_committed(&table, number, table.epoch);
}

static bool settle(const struct source_ref *ref) {
    bool released;
    return partition_table_settle(&table, ref, &released);
}

static void owes_the_group_the_settled_prefix_of_each_partition(void **state) {
    assert_true(partition_table_is_committed(&table));
    struct source_ref first = enter(40, 7), second = enter(40, 8);
    assert_int_equal(due(40), 7);
    assert_int_equal(due(0), -1);
    settle(&second);
    assert_int_equal(due(40), 7);
    settle(&first);
    assert_int_equal(due(40), 9);
    assert_false(partition_table_is_committed(&table));
    commit(40);
    assert_int_equal(due(40), -1);
    assert_true(partition_table_is_committed(&table));
}

static void still_owes_what_changes_while_a_commit_is_under_way(void **state) {
    struct source_ref first = enter(0, 7), second = enter(0, 8);
    partition_table_sent(&table, 0);
    settle(&second); /* the mark stays, but what is settled beyond it is news */
    partition_table_committed(&table, 0, table.epoch);
    assert_int_equal(due(0), 7);
    commit(0);
    assert_int_equal(due(0), -1);
    settle(&second);
    assert_int_equal(due(0), -1);
    settle(&first);
    assert_int_equal(due(0), 9);
}

static void owes_an_empty_partition_a_starting_commit(void **state) {
    partition_table_reach(&table, 0, 0);
    assert_int_equal(due(0), 0);
    commit(0);
    partition_table_reach(&table, 0, 0);
    assert_int_equal(due(0), -1);
    partition_table_reach(&table, 0, 2);
    assert_int_equal(due(0), 2);
}

static void is_held_until_it_is_known_what_the_group_has(void **state) {
    static const struct offset_range known[] = {{51, 53}};
    struct source_ref ref;
    partition_table_begin(&table);
    partition_table_assign(&table, 3);
    assert_true(partition_table_is_held(&table, 3));
    assert_false(partition_table_is_started(&table, 3));
    assert_int_equal(partition_table_next(&table, 3), -1);
    partition_table_start(&table, 3, 50, known, 1);
    assert_false(partition_table_is_held(&table, 3));
    assert_int_equal(partition_table_next(&table, 3), 50);
    assert_int_equal(due(3), -1);
    struct source_ref first = enter(3, 50);
    assert_int_equal(partition_table_enter(&table, 3, 51, &ref), PARTITION_ENTRY_KNOWN);
    assert_int_equal(partition_table_enter(&table, 3, 52, &ref), PARTITION_ENTRY_KNOWN);
    assert_int_equal(due(3), -1);
    settle(&first);
    assert_int_equal(due(3), 53);
    partition_table_start(&table, 3, 9, NULL, 0); /* an answer that comes late */
    assert_int_equal(due(3), 53);
}

static void begins_anew_where_the_log_does(void **state) {
    struct source_ref old = enter(0, 100);
    uint64_t epoch = table.epoch;
    partition_table_sent(&table, 0);
    partition_table_restart(&table, 0, 0);
    assert_false(partition_table_owns(&table, &old));
    partition_table_committed(&table, 0, epoch); /* of the log that was */
    assert_int_equal(due(0), 0);
    struct source_ref now = enter(0, 0);
    assert_true(settle(&now));
    assert_int_equal(due(0), 1);
}

static void ignores_a_record_of_an_assignment_that_is_gone(void **state) {
    struct source_ref old = enter(0, 5);
    assert_true(partition_table_owns(&table, &old));
    partition_table_revoke(&table, 0);
    assert_false(partition_table_owns(&table, &old));
    assert_int_equal(table.assigned_count, 1);
    assert_false(settle(&old));
    assert_int_equal(due(0), -1);
    partition_table_begin(&table);
    partition_table_assign(&table, 0);
    assert_int_equal(table.assigned_count, 2);
    struct source_ref again = enter(0, 5);
    assert_true(partition_table_owns(&table, &again));
    assert_false(partition_table_owns(&table, &old));
    assert_false(settle(&old));
    assert_int_equal(due(0), 5);
    assert_true(settle(&again));
    assert_int_equal(due(0), 6);
}

static void enters_no_record_twice_and_none_of_a_partition_it_has_not(void **state) {
    struct source_ref ref;
    enter(0, 5);
    assert_int_equal(partition_table_enter(&table, 0, 5, &ref), PARTITION_ENTRY_REPEATED);
    assert_int_equal(partition_table_enter(&table, 0, 4, &ref), PARTITION_ENTRY_REPEATED);
    assert_int_equal(partition_table_enter(&table, 1, 0, &ref), PARTITION_ENTRY_GONE);
    assert_int_equal(partition_table_enter(&table, 1000000, 0, &ref), PARTITION_ENTRY_GONE);
    partition_table_revoke(&table, 40);
    assert_int_equal(partition_table_enter(&table, 40, 0, &ref), PARTITION_ENTRY_GONE);
    partition_table_revoke(&table, 1000000);
    partition_table_committed(&table, 1000000, table.epoch);
    partition_table_reach(&table, 1000000, 1);
    partition_table_start(&table, 1000000, 1, NULL, 0);
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
          CASE(still_owes_what_changes_while_a_commit_is_under_way),
          CASE(owes_an_empty_partition_a_starting_commit),
          CASE(is_held_until_it_is_known_what_the_group_has), CASE(begins_anew_where_the_log_does),
          CASE(holds_a_full_partition_until_its_mark_moves))
