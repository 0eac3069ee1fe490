#include "consumer/offset_ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 256u

void offset_ledger_init(struct offset_ledger *ledger) {
    *ledger = (struct offset_ledger){.mark = -1, .last_received = -1};
}

void offset_ledger_deinit(struct offset_ledger *ledger) {
    free(ledger->offsets);
    offset_ledger_init(ledger);
}

static int64_t *offset_ledger_at(const struct offset_ledger *ledger, uint32_t index) {
    return &ledger->offsets[(ledger->first + index) & (ledger->capacity - 1)];
}

static bool offset_ledger_is_settled(int64_t stored) {
    return stored < 0;
}

static int64_t offset_ledger_offset(int64_t stored) {
    return stored < 0 ? ~stored : stored;
}

bool offset_ledger_is_full(const struct offset_ledger *ledger) {
    return ledger->count == OFFSET_LEDGER_WINDOW_MAX;
}

static void offset_ledger_grow(struct offset_ledger *ledger) {
    uint32_t capacity = ledger->capacity == 0 ? CAPACITY_MIN : 2 * ledger->capacity;
    int64_t *offsets = malloc(capacity * sizeof *offsets);
    assert(offsets != NULL);
    for (uint32_t i = 0; i < ledger->count; i++) {
        offsets[i] = *offset_ledger_at(ledger, i);
    }
    free(ledger->offsets);
    ledger->offsets = offsets;
    ledger->capacity = capacity;
    ledger->first = 0;
}

enum offset_ledger_status offset_ledger_add(struct offset_ledger *ledger, int64_t offset) {
    assert(offset >= 0);
    if (offset <= ledger->last_received) {
        return OFFSET_LEDGER_REPEATED;
    }
    if (offset_ledger_is_full(ledger)) {
        return OFFSET_LEDGER_FULL;
    }
    if (ledger->count == ledger->capacity) {
        offset_ledger_grow(ledger);
    }
    *offset_ledger_at(ledger, ledger->count++) = offset;
    ledger->last_received = offset;
    if (ledger->count == 1) {
        ledger->mark = offset; /* all before is settled, received or not */
    }
    return OFFSET_LEDGER_OK;
}

/* Drops the settled head of the window. */
static void offset_ledger_advance(struct offset_ledger *ledger) {
    while (ledger->count > 0 && offset_ledger_is_settled(*offset_ledger_at(ledger, 0))) {
        ledger->first = (ledger->first + 1) & (ledger->capacity - 1);
        ledger->count--;
    }
    ledger->mark = ledger->count > 0 ? *offset_ledger_at(ledger, 0) : ledger->last_received + 1;
}

void offset_ledger_settle(struct offset_ledger *ledger, int64_t offset) {
    uint32_t low = 0, high = ledger->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (offset_ledger_offset(*offset_ledger_at(ledger, middle)) < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == ledger->count || *offset_ledger_at(ledger, low) != offset) {
        return;
    }
    *offset_ledger_at(ledger, low) = ~offset;
    if (low == 0) {
        offset_ledger_advance(ledger);
    }
}

int64_t offset_ledger_mark(const struct offset_ledger *ledger) {
    return ledger->mark;
}

uint32_t offset_ledger_unsettled_count(const struct offset_ledger *ledger) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < ledger->count; i++) {
        count += !offset_ledger_is_settled(*offset_ledger_at(ledger, i));
    }
    return count;
}
