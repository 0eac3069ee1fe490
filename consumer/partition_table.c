#include "consumer/partition_table.h"

#include <assert.h>
#include <stdlib.h>

#define GROWTH 16

void partition_table_init(struct partition_table *table) {
    *table = (struct partition_table){0};
}

void partition_table_deinit(struct partition_table *table) {
    for (int32_t i = 0; i < table->capacity; i++) {
        offset_ledger_deinit(&table->list[i].ledger);
    }
    free(table->list);
    partition_table_init(table);
}

/* NULL for a number that was never assigned. */
static struct partition *partition_table_find(const struct partition_table *table, int32_t number) {
    return number >= 0 && number < table->capacity ? &table->list[number] : NULL;
}

static struct partition *partition_table_assigned(const struct partition_table *table,
                                                  int32_t number) {
    struct partition *partition = partition_table_find(table, number);
    return partition != NULL && partition->is_assigned ? partition : NULL;
}

static struct partition *partition_table_make(struct partition_table *table, int32_t number) {
    assert(number >= 0);
    if (number >= table->capacity) {
        int32_t capacity = number + GROWTH;
        table->list = realloc(table->list, (size_t)capacity * sizeof *table->list);
        assert(table->list != NULL);
        for (int32_t i = table->capacity; i < capacity; i++) {
            table->list[i] = (struct partition){0};
            offset_ledger_init(&table->list[i].ledger);
        }
        table->capacity = capacity;
    }
    return &table->list[number];
}

/* ---- assignments ---- */

void partition_table_begin(struct partition_table *table) {
    table->epoch++;
}

/* Forgets all but the ledger's memory, which goes too. */
static void partition_table_reset(struct partition *partition) {
    offset_ledger_deinit(&partition->ledger);
    struct offset_ledger ledger = partition->ledger;
    *partition = (struct partition){.ledger = ledger};
}

void partition_table_assign(struct partition_table *table, int32_t number) {
    struct partition *partition = partition_table_make(table, number);
    table->assigned_count += !partition->is_assigned;
    partition_table_reset(partition);
    partition->is_assigned = true;
    partition->is_held = true;
    partition->epoch = table->epoch;
}

void partition_table_revoke(struct partition_table *table, int32_t number) {
    struct partition *partition = partition_table_assigned(table, number);
    if (partition != NULL) {
        table->assigned_count--;
        partition_table_reset(partition);
    }
}

void partition_table_start(struct partition_table *table, int32_t number, int64_t committed,
                           const struct offset_range *known, size_t known_count) {
    struct partition *partition = partition_table_assigned(table, number);
    if (partition == NULL || partition->is_started) {
        return;
    }
    partition->is_started = true;
    partition->is_held = false;
    if (committed >= 0) {
        offset_ledger_begin(&partition->ledger, committed, known, known_count);
    }
}

void partition_table_restart(struct partition_table *table, int32_t number, int64_t offset) {
    struct partition *partition = partition_table_assigned(table, number);
    assert(partition != NULL);
    partition->epoch = ++table->epoch;
    partition->is_held = false;
    partition->in_flight = 0;
    partition->changes++;
    offset_ledger_begin(&partition->ledger, offset, NULL, 0);
}

/* ---- records ---- */

/* One may come before the partition is started: it is then as it is, without what is known. */
static void partition_table_touch(struct partition *partition, int64_t next_before) {
    partition->is_started = true;
    partition->is_held = offset_ledger_is_full(&partition->ledger);
    partition->changes += next_before < 0; /* the group knows nothing of it: a starting commit */
}

enum partition_entry partition_table_enter(struct partition_table *table, int32_t number,
                                           int64_t offset, struct source_ref *ref) {
    struct partition *partition = partition_table_assigned(table, number);
    if (partition == NULL) {
        return PARTITION_ENTRY_GONE;
    }
    int64_t mark = offset_ledger_mark(&partition->ledger);
    enum offset_ledger_status status = offset_ledger_add(&partition->ledger, offset);
    assert(status != OFFSET_LEDGER_FULL); /* a held partition receives nothing */
    partition->changes += offset_ledger_mark(&partition->ledger) != mark && mark >= 0;
    partition_table_touch(partition, mark);
    if (status == OFFSET_LEDGER_REPEATED) {
        return PARTITION_ENTRY_REPEATED;
    }
    if (status == OFFSET_LEDGER_KNOWN) {
        return PARTITION_ENTRY_KNOWN;
    }
    partition->in_flight++;
    *ref = (struct source_ref){.partition = number, .offset = offset, .epoch = partition->epoch};
    return PARTITION_ENTRY_NEW;
}

void partition_table_reach(struct partition_table *table, int32_t number, int64_t offset) {
    struct partition *partition = partition_table_assigned(table, number);
    if (partition == NULL) {
        return;
    }
    int64_t next = offset_ledger_next(&partition->ledger);
    offset_ledger_reach(&partition->ledger, offset);
    partition->changes += offset_ledger_next(&partition->ledger) != next && next >= 0;
    partition_table_touch(partition, next);
}

bool partition_table_settle(struct partition_table *table, const struct source_ref *ref,
                            bool *released) {
    *released = false;
    if (!partition_table_owns(table, ref)) {
        return false;
    }
    struct partition *partition = partition_table_find(table, ref->partition);
    bool settled = offset_ledger_settle(&partition->ledger, ref->offset);
    partition->changes += settled;
    partition->in_flight -= settled;
    *released = partition->is_held && !offset_ledger_is_full(&partition->ledger);
    partition->is_held = partition->is_held && !*released;
    return true;
}

/* ---- commits ---- */

int64_t partition_table_next(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL ? offset_ledger_next(&partition->ledger) : -1;
}

int64_t partition_table_mark(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL ? offset_ledger_mark(&partition->ledger) : -1;
}

size_t partition_table_settled(const struct partition_table *table, int32_t number,
                               struct offset_range *ranges, size_t max) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL ? offset_ledger_settled(&partition->ledger, ranges, max) : 0;
}

bool partition_table_is_due(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL && partition->changes != partition->committed_changes;
}

bool partition_table_is_committed(const struct partition_table *table) {
    for (int32_t i = 0; i < table->capacity; i++) {
        if (partition_table_is_due(table, i)) {
            return false;
        }
    }
    return true;
}

void partition_table_sent(struct partition_table *table, int32_t number) {
    struct partition *partition = partition_table_assigned(table, number);
    assert(partition != NULL);
    partition->sent_changes = partition->changes;
}

void partition_table_committed(struct partition_table *table, int32_t number, uint64_t epoch) {
    struct partition *partition = partition_table_assigned(table, number);
    if (partition_table_is_of(table, number, epoch)) {
        partition->committed_changes = partition->sent_changes;
    }
}

/* ---- questions ---- */

bool partition_table_owns(const struct partition_table *table, const struct source_ref *ref) {
    const struct partition *partition = partition_table_assigned(table, ref->partition);
    return partition != NULL && partition->epoch == ref->epoch;
}

bool partition_table_is_of(const struct partition_table *table, int32_t number, uint64_t epoch) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL && partition->epoch <= epoch;
}

bool partition_table_is_started(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL && partition->is_started;
}

bool partition_table_is_assigned(const struct partition_table *table, int32_t number) {
    return partition_table_assigned(table, number) != NULL;
}

bool partition_table_is_held(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_find(table, number);
    return partition != NULL && partition->is_held;
}

void partition_table_shut(struct partition_table *table, int32_t number, bool shut) {
    struct partition *partition = partition_table_assigned(table, number);
    assert(partition != NULL);
    partition->is_shut = shut;
}

bool partition_table_is_shut(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL && partition->is_shut;
}

uint32_t partition_table_in_flight(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_assigned(table, number);
    return partition != NULL ? partition->in_flight : 0;
}
