/* A ticket index: what stands under a ticket, in constant time.
 *
 * Open addressing with linear probing over at least twice as many slots as there may be tickets; a
 * removal closes the gap, so nothing piles up. One thread. Memory: reserved by ticket_index_init.
 * Refuses to know what the values are. */
#ifndef SOLFLEET_ENGINE_TICKET_INDEX_H
#define SOLFLEET_ENGINE_TICKET_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#define TICKET_INDEX_NONE UINT32_MAX

struct ticket_index_slot {
    uint64_t ticket;
    uint32_t value; /* TICKET_INDEX_NONE: the slot is free */
};

struct ticket_index {
    struct ticket_index_slot *slots; /* [mask + 1] */
    uint32_t mask;
    uint32_t count, tickets_max;
};

/* False when memory ran out; *index is then zeroed. tickets_max <= 2^30. */
bool ticket_index_init(struct ticket_index *index, uint32_t tickets_max)
    __attribute__((warn_unused_result));
void ticket_index_deinit(struct ticket_index *index); /* accepts zeroed */

/* The ticket must not be in, and there must be room. */
void ticket_index_add(struct ticket_index *index, uint64_t ticket, uint32_t value);
/* TICKET_INDEX_NONE: nothing stands under it. */
uint32_t ticket_index_find(const struct ticket_index *index, uint64_t ticket);
/* The ticket must be in. */
void ticket_index_remove(struct ticket_index *index, uint64_t ticket);

#endif
