#include "engine/ticket_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool ticket_index_init(struct ticket_index *index, uint32_t tickets_max) {
    uint32_t slots = 2;
    assert(tickets_max > 0 && tickets_max <= 1u << 30);
    while (slots < 2 * tickets_max) {
        slots *= 2;
    }
    memset(index, 0, sizeof *index);
    index->slots = calloc(slots, sizeof *index->slots);
    if (index->slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < slots; i++) {
        index->slots[i].value = TICKET_INDEX_NONE;
    }
    index->mask = slots - 1;
    index->tickets_max = tickets_max;
    return true;
}

void ticket_index_deinit(struct ticket_index *index) {
    free(index->slots);
    memset(index, 0, sizeof *index);
}

static uint32_t ticket_index_home(const struct ticket_index *index, uint64_t ticket) {
    uint64_t mixed = (ticket ^ ticket >> 32) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed >> 32) & index->mask;
}

/* The slot of a ticket, or the free one where it would go. */
static uint32_t ticket_index_place(const struct ticket_index *index, uint64_t ticket) {
    uint32_t at = ticket_index_home(index, ticket);
    while (index->slots[at].value != TICKET_INDEX_NONE && index->slots[at].ticket != ticket) {
        at = (at + 1) & index->mask;
    }
    return at;
}

void ticket_index_add(struct ticket_index *index, uint64_t ticket, uint32_t value) {
    struct ticket_index_slot *slot = &index->slots[ticket_index_place(index, ticket)];
    assert(slot->value == TICKET_INDEX_NONE && value != TICKET_INDEX_NONE);
    assert(index->count < index->tickets_max);
    *slot = (struct ticket_index_slot){.ticket = ticket, .value = value};
    index->count++;
}

uint32_t ticket_index_find(const struct ticket_index *index, uint64_t ticket) {
    return index->slots[ticket_index_place(index, ticket)].value;
}

void ticket_index_remove(struct ticket_index *index, uint64_t ticket) {
    uint32_t gap = ticket_index_place(index, ticket);
    assert(index->slots[gap].value != TICKET_INDEX_NONE);
    index->count--;
    /* What was pushed on past the gap moves back into it, but never before its home. */
    for (uint32_t at = (gap + 1) & index->mask; index->slots[at].value != TICKET_INDEX_NONE;
         at = (at + 1) & index->mask) {
        uint32_t home = ticket_index_home(index, index->slots[at].ticket);
        if (((at - home) & index->mask) >= ((at - gap) & index->mask)) {
            index->slots[gap] = index->slots[at];
            gap = at;
        }
    }
    index->slots[gap].value = TICKET_INDEX_NONE;
}
