#include "consumer/offset_ledger.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 256u

void offset_ledger_init(struct offset_ledger *ledger) {
    *ledger = (struct offset_ledger){.mark = -1, .next = -1};
}

void offset_ledger_deinit(struct offset_ledger *ledger) {
    free(ledger->offsets);
    free(ledger->known);
    offset_ledger_init(ledger);
}

void offset_ledger_begin(struct offset_ledger *ledger, int64_t mark,
                         const struct offset_range *known, size_t known_count) {
    assert(mark >= 0 && (known_count == 0 || known[0].begin >= mark));
    offset_ledger_deinit(ledger);
    ledger->mark = ledger->next = mark;
    if (known_count > 0) {
        ledger->known = malloc(known_count * sizeof *known);
        assert(ledger->known != NULL);
        memcpy(ledger->known, known, known_count * sizeof *known);
        ledger->known_count = known_count;
    }
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

/* Everything below was received, or never will be. */
static void offset_ledger_pass(struct offset_ledger *ledger, int64_t next) {
    ledger->next = next;
    if (ledger->count == 0) {
        ledger->mark = next;
    }
    while (ledger->known_first < ledger->known_count &&
           ledger->known[ledger->known_first].end <= next) {
        ledger->known_first++;
    }
}

static bool offset_ledger_knows(const struct offset_ledger *ledger, int64_t offset) {
    for (size_t i = ledger->known_first; i < ledger->known_count; i++) {
        if (offset < ledger->known[i].end) {
            return offset >= ledger->known[i].begin;
        }
    }
    return false;
}

enum offset_ledger_status offset_ledger_add(struct offset_ledger *ledger, int64_t offset) {
    assert(offset >= 0);
    if (offset < ledger->next) {
        return OFFSET_LEDGER_REPEATED;
    }
    if (offset_ledger_knows(ledger, offset)) {
        offset_ledger_pass(ledger, offset + 1);
        return OFFSET_LEDGER_KNOWN;
    }
    if (offset_ledger_is_full(ledger)) {
        return OFFSET_LEDGER_FULL;
    }
    if (ledger->count == ledger->capacity) {
        offset_ledger_grow(ledger);
    }
    offset_ledger_pass(ledger, offset); /* all between is settled, known or not */
    *offset_ledger_at(ledger, ledger->count++) = offset;
    ledger->next = offset + 1;
    return OFFSET_LEDGER_OK;
}

void offset_ledger_reach(struct offset_ledger *ledger, int64_t offset) {
    assert(offset >= 0);
    if (offset > ledger->next) {
        offset_ledger_pass(ledger, offset);
    }
}

/* Drops the settled head of the window. */
static void offset_ledger_advance(struct offset_ledger *ledger) {
    while (ledger->count > 0 && offset_ledger_is_settled(*offset_ledger_at(ledger, 0))) {
        ledger->first = (ledger->first + 1) & (ledger->capacity - 1);
        ledger->count--;
    }
    ledger->mark = ledger->count > 0 ? *offset_ledger_at(ledger, 0) : ledger->next;
}

bool offset_ledger_settle(struct offset_ledger *ledger, int64_t offset) {
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
        return false;
    }
    *offset_ledger_at(ledger, low) = ~offset;
    if (low == 0) {
        offset_ledger_advance(ledger);
    }
    return true;
}

int64_t offset_ledger_mark(const struct offset_ledger *ledger) {
    return ledger->mark;
}

int64_t offset_ledger_next(const struct offset_ledger *ledger) {
    return ledger->next;
}

/* A list of ranges that grows at its end, up to its room. */
struct offset_ledger_list {
    struct offset_range *ranges;
    size_t count, max;
};

/* False when there is no room. */
static bool offset_ledger_append(struct offset_ledger_list *list, int64_t begin, int64_t end) {
    if (begin >= end) {
        return true;
    }
    if (list->count > 0 && list->ranges[list->count - 1].end == begin) {
        list->ranges[list->count - 1].end = end;
        return true;
    }
    if (list->count == list->max) {
        return false;
    }
    list->ranges[list->count++] = (struct offset_range){begin, end};
    return true;
}

size_t offset_ledger_settled(const struct offset_ledger *ledger, struct offset_range *ranges,
                             size_t max) {
    struct offset_ledger_list list = {.ranges = ranges, .max = max};
    int64_t at = ledger->mark; /* what lies between two unsettled ones is settled */
    bool has_room = true;
    for (uint32_t i = 0; i < ledger->count && has_room; i++) {
        int64_t stored = *offset_ledger_at(ledger, i);
        if (!offset_ledger_is_settled(stored)) {
            has_room = offset_ledger_append(&list, at, stored);
            at = stored + 1;
        }
    }
    has_room = has_room && offset_ledger_append(&list, at, ledger->next);
    for (size_t i = ledger->known_first; i < ledger->known_count && has_room; i++) {
        const struct offset_range *known = &ledger->known[i];
        int64_t begin = known->begin > ledger->next ? known->begin : ledger->next;
        has_room = offset_ledger_append(&list, begin, known->end);
    }
    return list.count;
}

uint32_t offset_ledger_unsettled_count(const struct offset_ledger *ledger) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < ledger->count; i++) {
        count += !offset_ledger_is_settled(*offset_ledger_at(ledger, i));
    }
    return count;
}
