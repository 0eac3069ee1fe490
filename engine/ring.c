#include "engine/ring.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool ring_init(struct ring *ring, size_t capacity, size_t item_bytes) {
    assert(capacity > 0 && capacity <= RING_CAPACITY_MAX && item_bytes > 0);
    memset(ring, 0, sizeof *ring);
    uint64_t slots = 1;
    while (slots < capacity) {
        slots *= 2;
    }
    ring->items = calloc(slots, item_bytes);
    if (ring->items == NULL) {
        return false;
    }
    ring->item_bytes = item_bytes;
    ring->capacity = capacity;
    ring->mask = slots - 1;
    atomic_init(&ring->pushed, 0);
    atomic_init(&ring->popped, 0);
    return true;
}

void ring_deinit(struct ring *ring) {
    free(ring->items);
    memset(ring, 0, sizeof *ring);
}

static unsigned char *ring_slot(const struct ring *ring, uint64_t number) {
    return ring->items + (number & ring->mask) * ring->item_bytes;
}

bool ring_has_room(struct ring *ring) {
    uint64_t number = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    if (number - ring->popped_seen == ring->capacity) {
        ring->popped_seen = atomic_load_explicit(&ring->popped, memory_order_acquire);
    }
    return number - ring->popped_seen < ring->capacity;
}

bool ring_push(struct ring *ring, const void *item) {
    if (!ring_has_room(ring)) {
        return false;
    }
    uint64_t number = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    memcpy(ring_slot(ring, number), item, ring->item_bytes);
    atomic_store_explicit(&ring->pushed, number + 1, memory_order_release);
    return true;
}

uint64_t ring_pushed_count(const struct ring *ring) {
    return atomic_load_explicit(&ring->pushed, memory_order_relaxed);
}

bool ring_has_taken(const struct ring *ring, uint64_t number) {
    return atomic_load_explicit(&ring->popped, memory_order_acquire) > number;
}

bool ring_pop(struct ring *ring, void *item) {
    uint64_t number = atomic_load_explicit(&ring->popped, memory_order_relaxed);
    if (number == ring->pushed_seen) {
        ring->pushed_seen = atomic_load_explicit(&ring->pushed, memory_order_acquire);
        if (number == ring->pushed_seen) {
            return false;
        }
    }
    memcpy(item, ring_slot(ring, number), ring->item_bytes);
    atomic_store_explicit(&ring->popped, number + 1, memory_order_release);
    return true;
}

bool ring_is_empty(const struct ring *ring) {
    return atomic_load_explicit(&ring->popped, memory_order_relaxed) ==
           atomic_load_explicit(&ring->pushed, memory_order_acquire);
}
