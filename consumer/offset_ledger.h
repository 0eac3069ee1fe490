/* An offset ledger: which received records of one partition are settled, and so how far the
 * partition may be committed.
 *
 * Offsets are added in ascending order, as they are received, and settled in any order. The mark is
 * the offset to read next after a crash: everything received below it is settled. Offsets that were
 * never received between two received ones (control, aborted, compacted records) hold nothing up.
 *
 * Pure: no clock, no I/O. One thread. Memory grows with the records between the mark and the last
 * one received, to OFFSET_LEDGER_WINDOW_MAX at most. Refuses to know tickets and commits. */
#ifndef SOLFLEET_CONSUMER_OFFSET_LEDGER_H
#define SOLFLEET_CONSUMER_OFFSET_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

/* Records received and not below the mark. One slow job holds the mark while others pass: at 20,000
 * jobs/s this is six seconds of them, in 1 MiB a partition. */
#define OFFSET_LEDGER_WINDOW_MAX 131072

struct offset_ledger {
    int64_t *offsets;  /* ring [capacity] from `first`, ascending; settled ones as ~offset */
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t first, count;
    int64_t mark;          /* -1: nothing received */
    int64_t last_received; /* -1: nothing received */
};

enum offset_ledger_status {
    OFFSET_LEDGER_OK = 0,
    OFFSET_LEDGER_REPEATED, /* not above the last one received: not to be worked on again */
    OFFSET_LEDGER_FULL      /* the window is full: receive no more until the mark moves */
};

void offset_ledger_init(struct offset_ledger *ledger);
void offset_ledger_deinit(struct offset_ledger *ledger);

/* True when no further record fits: the partition is to be paused. */
bool offset_ledger_is_full(const struct offset_ledger *ledger);

enum offset_ledger_status offset_ledger_add(struct offset_ledger *ledger, int64_t offset)
    __attribute__((warn_unused_result));

/* Settles a received record; one that is settled already, or was never received, is ignored. */
void offset_ledger_settle(struct offset_ledger *ledger, int64_t offset);

/* The offset to commit; -1 when nothing was received. */
int64_t offset_ledger_mark(const struct offset_ledger *ledger);

/* Records received and not settled. O(window): for statistics and tests. */
uint32_t offset_ledger_unsettled_count(const struct offset_ledger *ledger);

#endif
