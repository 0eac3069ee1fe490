#include "consumer/due_heap.h"

#include <assert.h>
#include <stdlib.h>

bool due_heap_init(struct due_heap *heap, uint32_t capacity) {
    *heap = (struct due_heap){.capacity = capacity};
    heap->entries = calloc(capacity, sizeof *heap->entries);
    heap->places = calloc(capacity, sizeof *heap->places);
    if (heap->entries == NULL || heap->places == NULL) {
        due_heap_deinit(heap);
        return false;
    }
    return true;
}

void due_heap_deinit(struct due_heap *heap) {
    free(heap->entries);
    free(heap->places);
    *heap = (struct due_heap){0};
}

static void due_heap_put(struct due_heap *heap, uint32_t at, struct due_heap_entry entry) {
    heap->entries[at] = entry;
    heap->places[entry.slot] = at + 1;
}

/* Finds the place of an entry from `at` upwards, then downwards. */
static void due_heap_sift(struct due_heap *heap, uint32_t at, struct due_heap_entry entry) {
    while (at > 0 && heap->entries[(at - 1) / 2].due_ns > entry.due_ns) {
        due_heap_put(heap, at, heap->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            heap->entries[child + 1].due_ns < heap->entries[child].due_ns) {
            child++;
        }
        if (child >= heap->count || heap->entries[child].due_ns >= entry.due_ns) {
            break;
        }
        due_heap_put(heap, at, heap->entries[child]);
        at = child;
    }
    due_heap_put(heap, at, entry);
}

void due_heap_set(struct due_heap *heap, uint32_t slot, int64_t due_ns) {
    assert(slot < heap->capacity);
    uint32_t at = heap->places[slot] != 0 ? heap->places[slot] - 1 : heap->count++;
    due_heap_sift(heap, at, (struct due_heap_entry){.due_ns = due_ns, .slot = slot});
}

void due_heap_remove(struct due_heap *heap, uint32_t slot) {
    assert(slot < heap->capacity);
    if (heap->places[slot] == 0) {
        return;
    }
    uint32_t at = heap->places[slot] - 1;
    struct due_heap_entry last = heap->entries[--heap->count];
    heap->places[slot] = 0;
    if (at < heap->count) {
        due_heap_sift(heap, at, last);
    }
}

int64_t due_heap_first_ns(const struct due_heap *heap) {
    return heap->count > 0 ? heap->entries[0].due_ns : INT64_MAX;
}

bool due_heap_take(struct due_heap *heap, int64_t now_ns, uint32_t *slot) {
    if (heap->count == 0 || heap->entries[0].due_ns > now_ns) {
        return false;
    }
    *slot = heap->entries[0].slot;
    due_heap_remove(heap, *slot);
    return true;
}
