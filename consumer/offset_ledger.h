/* An offset ledger: which records of one partition are settled, and so how far the partition may be
 * committed and what beyond is settled already.
 *
 * Offsets are added in ascending order, as they are received, and settled in any order. The mark is
 * the offset to read next after a crash: everything below it is settled. Offsets that were never
 * received between two received ones (control, aborted, compacted records) count as settled. What
 * an earlier owner of the partition settled beyond the mark is known from the beginning, and is not
 * to be worked on when it comes.
 *
 * Pure: no clock, no I/O. One thread. Memory grows with the records between the mark and the last
 * one received, to OFFSET_LEDGER_WINDOW_MAX at most. Refuses to know tickets and commits. */
#ifndef SOLFLEET_CONSUMER_OFFSET_LEDGER_H
#define SOLFLEET_CONSUMER_OFFSET_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records received and not below the mark. One slow job holds the mark while others pass: at 20,000
 * jobs/s this is six seconds of them, in 1 MiB a partition. */
#define OFFSET_LEDGER_WINDOW_MAX 131072

/* Lists of ranges are ascending, disjoint, and without empty ones. */
struct offset_range {
    int64_t begin, end; /* begin <= offset < end */
};

struct offset_ledger {
    int64_t *offsets;  /* ring [capacity] from `first`, ascending; settled ones as ~offset */
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t first, count;
    int64_t mark;               /* -1: not begun */
    int64_t next;               /* the least that may be received; -1: not begun */
    struct offset_range *known; /* [known_count], settled before us; those below `next` drop out */
    size_t known_first, known_count;
};

enum offset_ledger_status {
    OFFSET_LEDGER_OK = 0,
    OFFSET_LEDGER_KNOWN,    /* settled before us: nothing is left to do */
    OFFSET_LEDGER_REPEATED, /* below the next one: not to be worked on again */
    OFFSET_LEDGER_FULL      /* the window is full: receive no more until the mark moves */
};

void offset_ledger_init(struct offset_ledger *ledger);
void offset_ledger_deinit(struct offset_ledger *ledger);

/* Begins at a mark. `known`, none of them below the mark, is copied. A ledger that is not begun
 * begins at the first offset it is given. */
void offset_ledger_begin(struct offset_ledger *ledger, int64_t mark,
                         const struct offset_range *known, size_t known_count);

/* True when no further record fits: the partition is to be paused. */
bool offset_ledger_is_full(const struct offset_ledger *ledger);

enum offset_ledger_status offset_ledger_add(struct offset_ledger *ledger, int64_t offset)
    __attribute__((warn_unused_result));

/* Nothing more will come below this offset: the end of the partition, as it is now. */
void offset_ledger_reach(struct offset_ledger *ledger, int64_t offset);

/* Settles a received record; false for one that is settled already, or was never received. */
bool offset_ledger_settle(struct offset_ledger *ledger, int64_t offset);

/* The offset to commit; -1 before the ledger has begun. */
int64_t offset_ledger_mark(const struct offset_ledger *ledger);
/* The least offset that may be received; -1 before the ledger has begun. */
int64_t offset_ledger_next(const struct offset_ledger *ledger);

/* The first `max` ranges settled beyond the mark; returns how many. O(window). */
size_t offset_ledger_settled(const struct offset_ledger *ledger, struct offset_range *ranges,
                             size_t max);

/* Records received and not settled. O(window): for statistics and tests. */
uint32_t offset_ledger_unsettled_count(const struct offset_ledger *ledger);

#endif
