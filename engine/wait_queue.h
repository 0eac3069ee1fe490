/* A wait queue: the sequences that wait to start, and which of them starts next.
 *
 * Pure: time comes in as an argument. One thread. Memory: reserved by wait_queue_init. Each call
 * costs O(1) but for a scan of the buckets and levels, whose numbers are fixed; putting one in
 * costs more only where it arrived before others that are in already. Refuses to know pages, rows,
 * jobs and clocks; a sequence is a handle of the caller's, a tenant a number of the caller's.
 *
 * The law, from the outside in.
 *
 * 1. Levels. The most urgent level (0 is the first) that has a sequence starts one. But a level is
 *    aged while its oldest sequence has waited level * ageing_ns, and of any four starts in a row
 *    at least one belongs to a less urgent level that is aged, if there is one; such levels take
 *    turns. So, whatever more urgent ones come, a sequence of which n others of its own level start
 *    first waits no longer than
 *
 *        level * ageing_ns, then 4 * 9 * (n + 1) starts.
 *
 *    Aged ones in turn take no more than every fourth start from those that are more urgent: a long
 *    queue of old ones does not make urgent ones wait.
 *
 * 2. Tenants. Those of one level take turns, weighted by tokens: at its turn a tenant gets
 *    WAIT_QUEUE_QUANTUM_TOKENS, and starts sequences until it has used up what it got; what it used
 *    too much is missing next time. Of two that have sequences waiting all the while, one starts at
 *    most three quanta and two sequences' tokens more than the other, however long that is.
 *
 * 3. Buckets. Of one tenant's sequences of one level its oldest is the first in a step, and then
 *    those of the nearest buckets (least distance, shorter first, each in the order of arrival). A
 *    bucket that made an idle device start takes the place of the oldest one's. */
#ifndef SOLFLEET_ENGINE_WAIT_QUEUE_H
#define SOLFLEET_ENGINE_WAIT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/bucket.h"

#define WAIT_QUEUE_NONE UINT32_MAX
#define WAIT_QUEUE_LEVELS 10
#define WAIT_QUEUE_AGED_EVERY 4
#define WAIT_QUEUE_QUANTUM_TOKENS 1024

enum wait_queue_order { WAIT_QUEUE_IN_LANE, WAIT_QUEUE_IN_BUCKET, WAIT_QUEUE_IN_LEVEL };
#define WAIT_QUEUE_ORDERS 3

struct wait_queue_list {
    uint32_t first, last, count;
};

struct wait_queue_entry {
    uint32_t prompt_tokens, tokens; /* tokens: what it may take in all, its weight */
    uint32_t level, bucket;
    uint32_t flow, lane;
    int64_t arrival_ns;
    uint64_t number; /* of its addition */
    struct {
        uint32_t previous, next;
    } links[WAIT_QUEUE_ORDERS];
};

/* The sequences of one level, tenant and bucket. */
struct wait_queue_lane {
    struct wait_queue_list list;
    uint32_t bucket;
    uint32_t next; /* lane of the flow, or of those not in use */
};

/* The sequences of one level and tenant. */
struct wait_queue_flow {
    uint64_t tenant;
    uint32_t level;
    uint32_t lanes; /* the first of them */
    uint32_t next_in_table;
    uint32_t previous, next; /* in the level's turns */
    uint32_t count;
    uint64_t prompt_tokens;
    int64_t balance_tokens; /* what it may still start at its turn; its last start may exceed it */
    uint64_t served_in;     /* the last step in which it started one */
    uint32_t reference;     /* bucket, in that step */
};

struct wait_queue_level {
    struct wait_queue_list list;  /* in the order of arrival */
    struct wait_queue_list turns; /* flows */
    uint64_t prompt_tokens;
};

struct wait_queue_bucket {
    struct wait_queue_list list; /* in the order of arrival */
    uint64_t prompt_tokens;
    uint32_t level_counts[WAIT_QUEUE_LEVELS];
};

struct wait_queue {
    int64_t ageing_ns;
    uint32_t count;
    struct wait_queue_level levels[WAIT_QUEUE_LEVELS];
    struct wait_queue_bucket buckets[BUCKET_COUNT_MAX];
    struct wait_queue_entry *entries; /* [handles_max] */
    struct wait_queue_lane *lanes;    /* [handles_max]: none is empty */
    struct wait_queue_flow *flows;    /* [handles_max]: none is empty */
    uint32_t *table;                  /* [table_mask + 1] flows by level and tenant, chained */
    uint32_t table_mask;
    uint32_t free_lanes, free_flows; /* the first of those not in use */
    uint64_t step;
    uint32_t reference;         /* bucket that leads the step, or NONE */
    uint32_t starts_since_aged; /* no more than WAIT_QUEUE_AGED_EVERY - 1 */
    uint32_t aged_level;        /* whose turn was last */
};

/* False when memory ran out; *queue is then zeroed. */
bool wait_queue_init(struct wait_queue *queue, uint32_t handles_max, int64_t ageing_ns)
    __attribute__((warn_unused_result));
void wait_queue_deinit(struct wait_queue *queue); /* accepts zeroed */

/* What a sequence is while it waits. */
struct wait_queue_item {
    uint32_t prompt_tokens;
    uint32_t tokens; /* prompt and longest answer */
    uint32_t level;
    uint64_t tenant;
    int64_t arrival_ns;
    uint64_t number; /* breaks ties of arrival */
};

/* Adds a sequence under a handle that is not in the queue. */
void wait_queue_add(struct wait_queue *queue, uint32_t handle, const struct wait_queue_item *item);
/* Takes a sequence out without starting it. */
void wait_queue_remove(struct wait_queue *queue, uint32_t handle);

/* Begins a step; `reference`: the bucket that leads it, WAIT_QUEUE_NONE while anything runs. */
void wait_queue_begin_step(struct wait_queue *queue, uint32_t reference);
/* The one that starts next, of the levels below level_end; WAIT_QUEUE_NONE: there is none. Asking
 * again gives the same. */
uint32_t wait_queue_peek(struct wait_queue *queue, int64_t now_ns, uint32_t level_end);
/* Takes out the one that wait_queue_peek gave, because it starts. */
void wait_queue_start(struct wait_queue *queue, uint32_t handle);

/* How many wait that one of this level and tenant, coming now, would start after, if it is not to
 * profit from ageing, and their prompts' tokens; other tenants of its level are not among them. */
struct wait_queue_before {
    uint32_t count;
    uint64_t prompt_tokens;
};
struct wait_queue_before wait_queue_before(struct wait_queue *queue, uint32_t level,
                                           uint64_t tenant);

/* The most urgent level of a bucket's sequences; WAIT_QUEUE_LEVELS if it has none. */
uint32_t wait_queue_bucket_level(const struct wait_queue *queue, uint32_t bucket);
/* When the oldest of a bucket that has any arrived. */
int64_t wait_queue_bucket_oldest_ns(const struct wait_queue *queue, uint32_t bucket);

#endif
