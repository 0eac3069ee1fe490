/* A ring: a bounded queue of fixed-size items between one producing and one consuming thread.
 *
 * Threads: exactly one pushes and one pops (they may be the same); each function says whose it is.
 * An item pushed is visible to the consumer with everything the producer wrote before. Neither side
 * ever waits. Memory: one array, reserved by ring_init. Refuses to know what an item means and how
 * a sleeping side is woken.
 *
 * The counters only grow, so a producer can tell whether an item it pushed has been taken. */
#ifndef SOLFLEET_ENGINE_RING_H
#define SOLFLEET_ENGINE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_LINE_BYTES 64
#define RING_CAPACITY_MAX (1u << 24)

struct ring {
    unsigned char *items;
    size_t item_bytes;
    uint64_t capacity;
    uint64_t mask; /* slots - 1; slots is capacity rounded up to a power of two */
    /* Each side's counter on a line of its own, with its last view of the other's. */
    unsigned char pad_before[RING_LINE_BYTES];
    _Atomic uint64_t pushed;
    uint64_t popped_seen;
    unsigned char pad_between[RING_LINE_BYTES];
    _Atomic uint64_t popped;
    uint64_t pushed_seen;
    unsigned char pad_after[RING_LINE_BYTES];
};

/* False when memory ran out; *ring is then zeroed. */
bool ring_init(struct ring *ring, size_t capacity, size_t item_bytes)
    __attribute__((warn_unused_result));
void ring_deinit(struct ring *ring); /* accepts zeroed; items left in it are forgotten */

/* Producer: copies *item in; false when the ring is full. */
bool ring_push(struct ring *ring, const void *item) __attribute__((warn_unused_result));
/* Producer: whether the next push will succeed. */
bool ring_has_room(struct ring *ring);
/* Producer: how many items have ever been pushed; the next one gets this number. */
uint64_t ring_pushed_count(const struct ring *ring);
/* Producer: whether the item with this number has been taken. */
bool ring_has_taken(const struct ring *ring, uint64_t number);

/* Consumer: copies the oldest item out; false when the ring is empty. */
bool ring_pop(struct ring *ring, void *item) __attribute__((warn_unused_result));
/* Consumer. */
bool ring_is_empty(const struct ring *ring);

#endif
