/* A deadline heap: which of many items comes due first.
 *
 * Pure: a moment is a number, and nobody is told when it passes. One thread; both the worker's and
 * the engine's have one of their own. Memory: reserved by deadline_heap_init. An item is a number
 * of the caller's below items_max with one moment or none. First: O(1); set and remove:
 * O(log n). Refuses to know clocks and what an item is. */
#ifndef SOLFLEET_ENGINE_DEADLINE_HEAP_H
#define SOLFLEET_ENGINE_DEADLINE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_HEAP_NEVER INT64_MAX

struct deadline_heap {
    uint32_t items_max, count;
    uint32_t *items;     /* [items_max]: the heap */
    uint32_t *places;    /* [items_max] of an item in it; items_max = not in it */
    int64_t *moments_ns; /* [items_max] by item */
};

/* False when memory ran out; *heap is then zeroed. */
bool deadline_heap_init(struct deadline_heap *heap, uint32_t items_max)
    __attribute__((warn_unused_result));
void deadline_heap_deinit(struct deadline_heap *heap); /* accepts zeroed */

/* Puts an item in, or moves it. */
void deadline_heap_set(struct deadline_heap *heap, uint32_t item, int64_t moment_ns);
/* Takes an item out; one that is not in is ignored. */
void deadline_heap_remove(struct deadline_heap *heap, uint32_t item);

/* The first moment; DEADLINE_HEAP_NEVER: the heap is empty. */
int64_t deadline_heap_first_ns(const struct deadline_heap *heap);
/* Takes out an item whose moment has come, the first of them; false: there is none. */
bool deadline_heap_take(struct deadline_heap *heap, int64_t now_ns, uint32_t *item)
    __attribute__((warn_unused_result));

#endif
