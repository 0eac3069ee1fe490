/* A scheduler: which sequences get how many rows in the next step, and which jobs start in it.
 *
 * Pure: time comes in as an argument, nothing goes out but the schedule; the same calls always give
 * the same schedules. One thread. Memory: reserved by scheduler_init. Refuses to know jobs, tokens,
 * pages by name, devices and clocks; a sequence is a handle of the caller's (an index below
 * handles_max) with four numbers.
 *
 * Rules. Waiting sequences lie in buckets by prompt length, each bucket in the order (priority,
 * arrival, addition). With nothing running, a bucket is cut when it is full (max_batch_size or
 * max_batch_tokens), holds a sequence of priority 0, holds one that has waited max_queue_delay_ns,
 * or at once while draining; of several such buckets the one whose first sequence comes first in
 * that order. While anything runs, waiting sequences join at each step, led by the bucket whose
 * first sequence comes first. A cut takes the leading bucket's sequences, then those of the nearest
 * buckets (least distance, shorter first) unless bucket_strict, until a limit is met: it never
 * passes over one that does not fit, so none starves. One sequence may exceed max_batch_tokens, by
 * itself.
 *
 * A step has one row for each sequence past its prompt, and at most prefill_chunk_tokens rows of
 * prompts, given out in the order of admission.
 *
 * A sequence's whole need of pages is set aside when it is admitted: until there is preemption,
 * nothing that runs can wait for a page. */
#ifndef SOLFLEET_ENGINE_SCHEDULER_H
#define SOLFLEET_ENGINE_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/bucket.h"
#include "engine/engine.h"

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
    bool bucket_strict;
};

/* The rows of one sequence in one step. */
struct pick {
    uint32_t handle;
    uint32_t first_position;
    uint32_t row_count;
    bool is_sampled; /* the last row is past the prompt's end: it gives the next token */
};

struct schedule {
    const struct pick *picks; /* the scheduler's, until its next call */
    uint32_t pick_count;
    uint32_t prefill_rows;
    const uint32_t *admitted; /* handles that start in this step, likewise */
    uint32_t admitted_count;
    enum engine_cut cut; /* when admitted_count > 0 */
    int64_t late_ns;     /* with ENGINE_CUT_DELAY: since when it was due and nothing was running */
    uint32_t batch_size; /* sequences running, those admitted now included */
    int64_t wake_ns;     /* without picks: when a bucket will be due; SCHEDULER_WAKE_NEVER */
};

enum scheduler_state { SCHEDULER_FREE, SCHEDULER_WAITING, SCHEDULER_PREFILL, SCHEDULER_DECODE };

struct scheduler_entry {
    enum scheduler_state state;
    uint32_t prompt_tokens, pages, priority, bucket;
    int64_t arrival_ns;
    uint64_t number;          /* of its addition */
    uint32_t computed_tokens; /* positions whose rows have been picked */
    uint32_t previous, next;  /* in the list of its state (and bucket) */
};

struct scheduler_list {
    uint32_t first, last, count;
    uint64_t prompt_tokens; /* of all in it */
};

struct scheduler {
    struct scheduler_limits limits;
    struct scheduler_entry *entries; /* [handles_max] */
    struct scheduler_list waiting[BUCKET_COUNT_MAX];
    struct scheduler_list prefill; /* in the order of admission */
    struct scheduler_list decode;  /* whose turn is next, should they not all fit a step */
    uint32_t pages_free;
    uint64_t added_count;
    bool is_draining;
    bool was_running;   /* after the last step that was made */
    struct pick *picks; /* [max_batch_size] */
    uint32_t *admitted; /* [max_batch_size] */
};

/* False when memory ran out; *scheduler is then zeroed. All limits > 0 but the delay. */
bool scheduler_init(struct scheduler *scheduler, const struct scheduler_limits *limits)
    __attribute__((warn_unused_result));
void scheduler_deinit(struct scheduler *scheduler); /* accepts zeroed */

/* Adds a waiting sequence under a free handle. 1 <= pages <= pages_total, prompt_tokens >= 1. */
void scheduler_add(struct scheduler *scheduler, uint32_t handle, uint32_t prompt_tokens,
                   uint32_t pages, uint32_t priority, int64_t arrival_ns);
/* Takes a sequence out, waiting or running; its pages are free again. */
void scheduler_remove(struct scheduler *scheduler, uint32_t handle);
void scheduler_drain(struct scheduler *scheduler);

/* The next step at this time. Its picks count as computed: the caller runs them. */
void scheduler_next(struct scheduler *scheduler, int64_t now_ns, struct schedule *out);

uint32_t scheduler_waiting_count(const struct scheduler *scheduler);
uint32_t scheduler_running_count(const struct scheduler *scheduler);

#endif
