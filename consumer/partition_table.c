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

static struct partition *partition_table_make(struct partition_table *table, int32_t number) {
    assert(number >= 0);
    if (number >= table->capacity) {
        int32_t capacity = number + GROWTH;
        table->list = realloc(table->list, (size_t)capacity * sizeof *table->list);
        assert(table->list != NULL);
        for (int32_t i = table->capacity; i < capacity; i++) {
            table->list[i] = (struct partition){.committed = -1};
            offset_ledger_init(&table->list[i].ledger);
        }
        table->capacity = capacity;
    }
    return &table->list[number];
}

void partition_table_begin(struct partition_table *table) {
    table->epoch++;
}

void partition_table_assign(struct partition_table *table, int32_t number) {
    struct partition *partition = partition_table_make(table, number);
    table->assigned_count += !partition->is_assigned;
    partition->is_assigned = true;
    partition->is_held = false;
    partition->epoch = table->epoch;
    partition->committed = -1;
    offset_ledger_deinit(&partition->ledger);
}

void partition_table_revoke(struct partition_table *table, int32_t number) {
    struct partition *partition = partition_table_find(table, number);
    if (partition != NULL) {
        table->assigned_count -= partition->is_assigned;
        partition->is_assigned = false;
        partition->is_held = false;
        offset_ledger_deinit(&partition->ledger);
    }
}

bool partition_table_enter(struct partition_table *table, int32_t number, int64_t offset,
                           struct source_ref *ref) {
    struct partition *partition = partition_table_find(table, number);
    if (partition == NULL || !partition->is_assigned) {
        return false;
    }
    enum offset_ledger_status status = offset_ledger_add(&partition->ledger, offset);
    assert(status != OFFSET_LEDGER_FULL); /* a held partition receives nothing */
    if (status != OFFSET_LEDGER_OK) {
        return false;
    }
    partition->is_held = offset_ledger_is_full(&partition->ledger);
    *ref = (struct source_ref){.partition = number, .offset = offset, .epoch = partition->epoch};
    return true;
}

bool partition_table_settle(struct partition_table *table, const struct source_ref *ref,
                            bool *released) {
    *released = false;
    if (!partition_table_owns(table, ref)) {
        return false;
    }
    struct partition *partition = partition_table_find(table, ref->partition);
    offset_ledger_settle(&partition->ledger, ref->offset);
    *released = partition->is_held && !offset_ledger_is_full(&partition->ledger);
    partition->is_held = partition->is_held && !*released;
    return true;
}

int64_t partition_table_due(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_find(table, number);
    if (partition == NULL || !partition->is_assigned) {
        return -1;
    }
    int64_t mark = offset_ledger_mark(&partition->ledger);
    return mark > partition->committed ? mark : -1;
}

void partition_table_committed(struct partition_table *table, int32_t number, int64_t offset) {
    struct partition *partition = partition_table_find(table, number);
    if (partition != NULL && partition->is_assigned && offset > partition->committed) {
        partition->committed = offset;
    }
}

bool partition_table_is_committed(const struct partition_table *table) {
    for (int32_t i = 0; i < table->capacity; i++) {
        if (partition_table_due(table, i) >= 0) {
            return false;
        }
    }
    return true;
}

bool partition_table_owns(const struct partition_table *table, const struct source_ref *ref) {
    const struct partition *partition = partition_table_find(table, ref->partition);
    return partition != NULL && partition->is_assigned && partition->epoch == ref->epoch;
}

bool partition_table_is_assigned(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_find(table, number);
    return partition != NULL && partition->is_assigned;
}

bool partition_table_is_held(const struct partition_table *table, int32_t number) {
    const struct partition *partition = partition_table_find(table, number);
    return partition != NULL && partition->is_held;
}
