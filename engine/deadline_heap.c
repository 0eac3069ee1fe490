#include "engine/deadline_heap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool deadline_heap_init(struct deadline_heap *heap, uint32_t items_max) {
    assert(items_max > 0);
    memset(heap, 0, sizeof *heap);
    heap->items_max = items_max;
    heap->items = calloc(items_max, sizeof *heap->items);
    heap->places = calloc(items_max, sizeof *heap->places);
    heap->moments_ns = calloc(items_max, sizeof *heap->moments_ns);
    if (heap->items == NULL || heap->places == NULL || heap->moments_ns == NULL) {
        deadline_heap_deinit(heap);
        return false;
    }
    for (uint32_t i = 0; i < items_max; i++) {
        heap->places[i] = items_max;
    }
    return true;
}

void deadline_heap_deinit(struct deadline_heap *heap) {
    free(heap->items);
    free(heap->places);
    free(heap->moments_ns);
    memset(heap, 0, sizeof *heap);
}

static int64_t deadline_heap_moment_at(const struct deadline_heap *heap, uint32_t place) {
    return heap->moments_ns[heap->items[place]];
}

static void deadline_heap_put(struct deadline_heap *heap, uint32_t place, uint32_t item) {
    heap->items[place] = item;
    heap->places[item] = place;
}

/* Moves the item at a place to where it belongs, up or down. */
static void deadline_heap_settle(struct deadline_heap *heap, uint32_t place) {
    uint32_t item = heap->items[place];
    int64_t moment_ns = heap->moments_ns[item];
    while (place > 0 && deadline_heap_moment_at(heap, (place - 1) / 2) > moment_ns) {
        deadline_heap_put(heap, place, heap->items[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < heap->count &&
            deadline_heap_moment_at(heap, child + 1) < deadline_heap_moment_at(heap, child)) {
            child++;
        }
        if (child >= heap->count || deadline_heap_moment_at(heap, child) >= moment_ns) {
            break;
        }
        deadline_heap_put(heap, place, heap->items[child]);
        place = child;
    }
    deadline_heap_put(heap, place, item);
}

void deadline_heap_set(struct deadline_heap *heap, uint32_t item, int64_t moment_ns) {
    assert(item < heap->items_max);
    heap->moments_ns[item] = moment_ns;
    if (heap->places[item] == heap->items_max) {
        deadline_heap_put(heap, heap->count++, item);
    }
    deadline_heap_settle(heap, heap->places[item]);
}

void deadline_heap_remove(struct deadline_heap *heap, uint32_t item) {
    assert(item < heap->items_max);
    uint32_t place = heap->places[item];
    if (place == heap->items_max) {
        return;
    }
    heap->places[item] = heap->items_max;
    uint32_t last = heap->items[--heap->count];
    if (last != item) {
        deadline_heap_put(heap, place, last);
        deadline_heap_settle(heap, place);
    }
}

int64_t deadline_heap_first_ns(const struct deadline_heap *heap) {
    return heap->count > 0 ? deadline_heap_moment_at(heap, 0) : DEADLINE_HEAP_NEVER;
}

bool deadline_heap_take(struct deadline_heap *heap, int64_t now_ns, uint32_t *item) {
    if (heap->count == 0 || deadline_heap_moment_at(heap, 0) > now_ns) {
        return false;
    }
    *item = heap->items[0];
    deadline_heap_remove(heap, *item);
    return true;
}
