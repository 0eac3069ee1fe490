/* A scheduler: which sequences get how many rows in the next step, and which jobs start in it.
 *
 * Pure: time comes in as an argument, pages by the caller's `scheduler_pages`, nothing else goes
 * out but the schedule; the same calls and answers always give the same schedules. One thread.
 * Memory: reserved by scheduler_init. Refuses to know jobs, tokens, pages by name, devices and
 * clocks; a sequence is a handle of the caller's (an index below handles_max) with four numbers.
 *
 * Rules. Waiting sequences lie in a wait_queue, whose law says which starts next: priorities with
 * ageing, tenants in turn, buckets by prompt length. With nothing running, a bucket is cut when it
 * is full (max_batch_size or max_batch_tokens), holds a sequence of priority 0, holds one that has
 * waited max_queue_delay_ns, or at once while draining; of several such buckets the one with the
 * most urgent sequence, then with the oldest. It leads the batch. While anything runs, waiting
 * sequences join at each step. Sequences start until a limit is met: none that does not fit is
 * passed over, so none starves. With bucket_strict all that start in one step are of one bucket.
 * One sequence may exceed max_batch_tokens, by itself.
 *
 * A step has one row for each sequence past its prompt, and at most C = prefill_chunk_tokens rows
 * of prompts. A quarter of these, Q = ceil(C / 4), belongs to the prompt that has been under way
 * longest; the others go to the prompts by priority, then to that with the fewest rows missing;
 * what one leaves the next has. So, as long as no more than max_batch_size sequences run:
 *
 *     a prompt with r rows missing, and s rows missing in all those that come before it, is
 *     complete after ceil((s + r) / (C - Q)) steps, however long another one is;
 *
 *     and whatever comes later, after sum(ceil(rows missing / Q)) steps over itself and all that
 *     were under way before it.
 *
 * A sequence starts with pages for its prompt and one for its answer, less what of its prompt is
 * already computed, and gets further ones as its answer grows. When there is none for a row that is
 * due, running sequences are preempted, the last in the order (priority, arrival, addition) first,
 * until there is: all their pages go. They come back before anything new starts, in that order, as
 * soon as there are pages for all they had computed; only sequences of a more urgent priority may
 * start meanwhile. They are computed again from the tokens known so far, none of which is drawn
 * again. The first in the order is never preempted, and one sequence by itself always fits: so it
 * ends, and then the next one does. Lest more urgent ones keep one away for ever: of those that
 * were preempted and are priority * priority_ageing_ns old, the one that was so first comes back
 * before all else, and then keeps its pages to its end; one at a time. */
#ifndef SOLFLEET_ENGINE_SCHEDULER_H
#define SOLFLEET_ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/wait_queue.h"

#define SCHEDULER_HANDLES_MAX (1u << 20)
#define SCHEDULER_WAKE_NEVER INT64_MAX

struct scheduler_limits {
    uint32_t handles_max;          /* sequences waiting or running */
    uint32_t max_batch_size;       /* sequences with rows in a step; sequences admitted in a step */
    uint32_t max_running;          /* sequences holding pages */
    uint32_t max_batch_tokens;     /* prompt tokens admitted in a step */
    uint32_t prefill_chunk_tokens; /* prompt rows in a step */
    uint32_t pages_total;
    int64_t max_queue_delay_ns;
    int64_t
        priority_ageing_ns; /* a level less of urgency is made up for by having waited so long */
    bool bucket_strict;
};

/* The pages of running sequences, kept by the caller; called from scheduler_next and
 * scheduler_remove only. */
struct scheduler_pages {
    void *context;
    /* Holds page_count pages for a sequence that holds none; *computed_tokens is how many of its
     * first positions lie computed in them, fewer than its prompt has. False: holds none, there are
     * not so many. */
    bool (*begin)(void *context, uint32_t handle, uint32_t page_count, uint32_t *computed_tokens);
    /* Holds one page more. False: there is none. */
    bool (*grow)(void *context, uint32_t handle);
    /* Gives up all of a sequence's pages. */
    void (*release)(void *context, uint32_t handle);
};

/* The rows of one sequence in one step. */
struct pick {
    uint32_t handle;
    uint32_t first_position;
    uint32_t row_count;
    bool is_sampled; /* the last row is that of the last token known: it gives the next one */
};

struct schedule {
    const struct pick *picks; /* the scheduler's, until its next call */
    uint32_t pick_count;
    uint32_t prefill_rows;
    const uint32_t *admitted; /* handles that start in this step, likewise */
    uint32_t admitted_count;
    const uint32_t *resumed; /* handles that start again, likewise; they are not admitted */
    uint32_t resumed_count;
    const uint32_t *preempted; /* handles that have lost their pages, likewise; some of them may be
                                  resumed in the same step */
    uint32_t preempted_count;
    enum engine_cut cut; /* when admitted_count > 0 */
    int64_t late_ns;     /* with ENGINE_CUT_DELAY: since when it was due and nothing was running */
    uint32_t batch_size; /* sequences running, those admitted now included */
    int64_t wake_ns;     /* without picks: when a bucket will be due; SCHEDULER_WAKE_NEVER */
};

enum scheduler_state {
    SCHEDULER_FREE,
    SCHEDULER_WAITING,
    SCHEDULER_PREEMPTED,
    SCHEDULER_PREFILL,
    SCHEDULER_DECODE
};

struct scheduler_entry {
    enum scheduler_state state;
    uint32_t prompt_tokens, pages_max, priority;
    int64_t arrival_ns;
    uint64_t number;          /* of its addition */
    uint64_t turn;            /* of its last start */
    uint32_t known_tokens;    /* prompt and answer so far, once all rows picked have been run */
    uint32_t computed_tokens; /* positions whose rows have been picked */
    uint32_t pages;           /* held */
    uint32_t previous, next;  /* in the list of its state, unless it waits */
};

struct scheduler_list {
    uint32_t first, last, count;
};

struct scheduler {
    struct scheduler_limits limits;
    struct scheduler_pages pages;
    struct scheduler_entry *entries; /* [handles_max] */
    struct wait_queue waiting;
    struct scheduler_list preempted; /* by (priority, arrival, addition) */
    struct scheduler_list prefill;   /* by (priority, rows missing, start) */
    struct scheduler_list decode;    /* whose turn is next, should they not all fit a step */
    uint32_t kept;                   /* a sequence that is not preempted again, or UINT32_MAX */
    uint64_t added_count, started_count;
    bool is_draining;
    bool was_running;     /* after the last step that was made */
    struct pick *picks;   /* [max_batch_size] */
    uint32_t *admitted;   /* [max_batch_size] */
    uint32_t *resumed;    /* [max_batch_size] */
    uint32_t *lost_pages; /* [max_running]: handles preempted in a step */
};

/* What the scheduler is told of a sequence. */
struct scheduler_item {
    uint32_t prompt_tokens; /* >= 1 */
    uint32_t pages_max;     /* that it will hold at the end; 1 <= pages_max <= pages_total */
    uint32_t priority;      /* below WAIT_QUEUE_LEVELS; 0 is the most urgent */
    uint64_t tenant;        /* any number that stands for its tenant */
    int64_t arrival_ns;
};

/* False when memory ran out; *scheduler is then zeroed. All limits > 0 but the delay. */
bool scheduler_init(struct scheduler *scheduler, const struct scheduler_limits *limits,
                    const struct scheduler_pages *pages) __attribute__((warn_unused_result));
void scheduler_deinit(struct scheduler *scheduler); /* accepts zeroed */

/* Adds a waiting sequence under a free handle. */
void scheduler_add(struct scheduler *scheduler, uint32_t handle, const struct scheduler_item *item);
/* Takes a sequence out, waiting or running, and releases its pages. */
void scheduler_remove(struct scheduler *scheduler, uint32_t handle);
void scheduler_drain(struct scheduler *scheduler);

/* The next step at this time. Its picks count as computed: the caller runs them. */
void scheduler_next(struct scheduler *scheduler, int64_t now_ns, struct schedule *out);

/* The picks of the next step, should nothing end, start, speculate or lack a page until then: how
 * many, written to picks [max_batch_size]. */
uint32_t scheduler_foresee(const struct scheduler *scheduler, struct pick *picks);

/* Of a running sequence past its prompt, that its last pick has given `count` tokens more than one,
 * for positions in the pages that it holds. */
void scheduler_advance(struct scheduler *scheduler, uint32_t handle, uint32_t count);
/* Positions behind its last pick for which a running sequence holds pages. */
uint32_t scheduler_spare_positions(const struct scheduler *scheduler, uint32_t handle);

/* Not running: never started, or preempted. */
uint32_t scheduler_waiting_count(const struct scheduler *scheduler);
uint32_t scheduler_running_count(const struct scheduler *scheduler);

#endif
