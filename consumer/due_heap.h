/* A due heap: slots of a table, each with the time when something is due for it.
 *
 * Setting, changing and removing take logarithmic time, the first one constant time. A slot stands in
 * it once. One thread; owns two arrays of the table's capacity. Refuses to know clocks and what is
 * due. */
#ifndef SOLFLEET_CONSUMER_DUE_HEAP_H
#define SOLFLEET_CONSUMER_DUE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct due_heap_entry {
    int64_t due_ns;
    uint32_t slot;
};

struct due_heap {
    struct due_heap_entry *entries; /* [capacity], a binary heap: the first is due first */
    uint32_t *places;               /* [capacity] of each slot: its entry + 1; 0 = none */
    uint32_t capacity, count;
};

/* False when memory ran out. */
bool due_heap_init(struct due_heap *heap, uint32_t capacity) __attribute__((warn_unused_result));
void due_heap_deinit(struct due_heap *heap);

/* Enters the slot, or changes its time. */
void due_heap_set(struct due_heap *heap, uint32_t slot, int64_t due_ns);
/* Accepts a slot that is not in it. */
void due_heap_remove(struct due_heap *heap, uint32_t slot);

/* When the first is due; INT64_MAX = it is empty. */
int64_t due_heap_first_ns(const struct due_heap *heap);
/* Takes the first out if it is due by now. */
bool due_heap_take(struct due_heap *heap, int64_t now_ns, uint32_t *slot);

#endif
