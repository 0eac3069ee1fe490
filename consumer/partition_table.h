/* The partition table: the partitions that this process has, how far each is settled, and how far
 * the group knows it.
 *
 * A partition comes with a new epoch at each assignment and starts afresh; a record of an earlier
 * epoch can no longer be settled. Pure; one thread; memory grows with the highest partition number.
 * Refuses to know the client library. */
#ifndef SOLFLEET_CONSUMER_PARTITION_TABLE_H
#define SOLFLEET_CONSUMER_PARTITION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/offset_ledger.h"
#include "consumer/record.h"

struct partition {
    bool is_assigned;
    bool is_held; /* full: receives nothing until its mark moves */
    uint64_t epoch;
    int64_t committed; /* -1 = nothing in this epoch */
    struct offset_ledger ledger;
};

struct partition_table {
    struct partition *list; /* [capacity], by number */
    int32_t capacity;
    uint64_t epoch;
    uint32_t assigned_count;
};

void partition_table_init(struct partition_table *table);
void partition_table_deinit(struct partition_table *table);

/* Begins an assignment: the partitions that follow get one new epoch. */
void partition_table_begin(struct partition_table *table);
void partition_table_assign(struct partition_table *table, int32_t number);
void partition_table_revoke(struct partition_table *table, int32_t number);

/* Enters a received record. False when it is not to be worked on: its partition is gone, or it was
 * received before. A partition that has become full by it is held from now on. */
bool partition_table_enter(struct partition_table *table, int32_t number, int64_t offset,
                           struct source_ref *ref);

/* False when the record belongs to an assignment that is gone. *released: the partition was held,
 * and has room again. */
bool partition_table_settle(struct partition_table *table, const struct source_ref *ref,
                            bool *released);

/* The offset to commit; -1 when the group knows it, or the partition is not ours. */
int64_t partition_table_due(const struct partition_table *table, int32_t number);
/* The group has accepted this offset. */
void partition_table_committed(struct partition_table *table, int32_t number, int64_t offset);
bool partition_table_is_committed(const struct partition_table *table);

/* True while the partition is ours by the assignment that gave this record. */
bool partition_table_owns(const struct partition_table *table, const struct source_ref *ref);
bool partition_table_is_assigned(const struct partition_table *table, int32_t number);
bool partition_table_is_held(const struct partition_table *table, int32_t number);

#endif
