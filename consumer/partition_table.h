/* The partition table: the partitions that this process has, how far each is settled, and how far
 * the group knows it.
 *
 * A partition comes with a new epoch at each assignment and starts afresh; a record of an earlier
 * epoch can no longer be settled. It is held, receives nothing, until it is known what the
 * group has of it, and while its ledger is full. Pure; one thread; memory grows with the highest
 * partition number. Refuses to know the client library. */
#ifndef SOLFLEET_CONSUMER_PARTITION_TABLE_H
#define SOLFLEET_CONSUMER_PARTITION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "consumer/offset_ledger.h"
#include "consumer/record.h"

struct partition {
    bool is_assigned;
    bool is_started; /* what the group has of it is known */
    bool is_held;
    bool is_shut;       /* its share of the intake is used up */
    uint32_t in_flight; /* records entered and not settled */
    uint64_t epoch;
    /* Changes of mark and settled ranges: so far, in the last commit, the last that succeeded. */
    uint64_t changes, sent_changes, committed_changes;
    struct offset_ledger ledger;
};

struct partition_table {
    struct partition *list; /* [capacity], by number */
    int32_t capacity;
    uint64_t epoch;
    uint32_t assigned_count;
};

enum partition_entry {
    PARTITION_ENTRY_NEW = 0, /* to be worked on */
    PARTITION_ENTRY_KNOWN,   /* settled by an earlier owner */
    PARTITION_ENTRY_REPEATED,
    PARTITION_ENTRY_GONE /* its partition is not ours */
};

void partition_table_init(struct partition_table *table);
void partition_table_deinit(struct partition_table *table);

/* Begins an assignment: the partitions that follow get one new epoch. */
void partition_table_begin(struct partition_table *table);
/* Held until it is started. */
void partition_table_assign(struct partition_table *table, int32_t number);
void partition_table_revoke(struct partition_table *table, int32_t number);

/* What the group has of an assigned partition: an offset and what is settled beyond; -1 = nothing,
 * then the partition owes the group the first offset it sees. Nothing when it is started. */
void partition_table_start(struct partition_table *table, int32_t number, int64_t committed,
                           const struct offset_range *known, size_t known_count);
/* The log of an assigned partition has begun anew, at this offset: a new epoch. */
void partition_table_restart(struct partition_table *table, int32_t number, int64_t offset);

/* Enters a received record; NEW fills *ref. A partition that has become full by it is held. */
enum partition_entry partition_table_enter(struct partition_table *table, int32_t number,
                                           int64_t offset, struct source_ref *ref);
/* Nothing more will come below this offset: the end of the partition as it is now. */
void partition_table_reach(struct partition_table *table, int32_t number, int64_t offset);

/* False when the record belongs to an assignment that is gone. *released: the partition was held,
 * and has room again. */
bool partition_table_settle(struct partition_table *table, const struct source_ref *ref,
                            bool *released);

/* The least offset that may come; -1 when it is not known. */
int64_t partition_table_next(const struct partition_table *table, int32_t number);
/* The offset to commit; -1 when there is none. */
int64_t partition_table_mark(const struct partition_table *table, int32_t number);
/* The first `max` ranges settled beyond the mark; returns how many. */
size_t partition_table_settled(const struct partition_table *table, int32_t number,
                               struct offset_range *ranges, size_t max);

/* True while the group does not know the mark or what is settled beyond. */
bool partition_table_is_due(const struct partition_table *table, int32_t number);
bool partition_table_is_committed(const struct partition_table *table); /* none is due */
/* Mark and ranges are on their way to the group. */
void partition_table_sent(struct partition_table *table, int32_t number);
/* The group has accepted what was sent when the table was in this epoch. */
void partition_table_committed(struct partition_table *table, int32_t number, uint64_t epoch);

/* True while the partition is ours by the assignment that gave this record. */
bool partition_table_owns(const struct partition_table *table, const struct source_ref *ref);
/* True while the assignment that the partition has was there in this epoch of the table. */
bool partition_table_is_of(const struct partition_table *table, int32_t number, uint64_t epoch);
bool partition_table_is_assigned(const struct partition_table *table, int32_t number);
bool partition_table_is_started(const struct partition_table *table, int32_t number);
bool partition_table_is_held(const struct partition_table *table, int32_t number);

/* Whether others may be consumed only: the table keeps it, and knows nothing of why. */
void partition_table_shut(struct partition_table *table, int32_t number, bool shut);
bool partition_table_is_shut(const struct partition_table *table, int32_t number);
uint32_t partition_table_in_flight(const struct partition_table *table, int32_t number);

#endif
